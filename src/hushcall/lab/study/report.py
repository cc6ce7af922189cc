"""One self-contained page: what was run, figures, tables, the paper's words beside our measurements."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hushcall.lab.study.experiments import Statement
from hushcall.version import __version__
from hushcall.wording import counted

STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #0072B2; --bad: #D55E00; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
figure { margin: 1rem 0; background: white; border-radius: 6px; padding: .5rem; }
figure svg { width: 100%; height: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .6rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child, .words td, .words th { text-align: left; white-space: normal; }
.yes { color: var(--good); font-weight: 600; } .no { color: var(--bad); font-weight: 600; }
code { font-size: .9em; }
.quick { border-left: 4px solid var(--bad); padding: .2rem .8rem; font-weight: 600; }
"""


QUICK = "A quick run: few days, one repetition, fewer points. A look, not evidence."


def page(documents: Sequence[Mapping[str, Any]], figures: Mapping[str, Sequence[Path]], title: str) -> str:
    """The whole page as text; figures are put inside, so that the file can be sent to anyone."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{html.escape(title)}</title><style>{STYLE}</style><h1>{html.escape(title)}</h1>",
        f"<p>Made by hushcall {__version__}. Every number below comes from the runs described here.</p>",
    ]
    for document in documents:
        parts.append(_section(document, figures.get(str(document["name"]), ())))
    return "\n".join(parts) + "</html>\n"


def _section(document: Mapping[str, Any], figures: Sequence[Path]) -> str:
    run = document["run"]
    facts = f"{run['data']}, {counted(run['days'], 'day')}, {counted(run['phones'], 'phone')}, "
    facts += f"{counted(run['repetitions'], 'repetition')}, seed {run['seed']}"
    parts = [
        f"<h2>{html.escape(document['title'])}</h2>"
        f"<p>{html.escape(document['about'])}. <small>{html.escape(facts)}.</small></p>"
    ]
    if run.get("quick"):
        parts.append(f"<p class='quick'>{QUICK}</p>")
    for path in figures:
        svg = path.read_text(encoding="utf-8")
        parts.append(f"<figure>{svg[svg.index('<svg') :]}</figure>")
    if document["statements"]:
        parts.append("<table class='words'><tr><th>said<th>measured<th>agrees</tr>")
        parts += [_statement(Statement(**one)) for one in document["statements"]]
        parts.append("</table>")
    parts.append(
        f"<details><summary>All figures</summary><div class='scroll'>{_table(document['rows'])}</div></details>"
    )
    return "\n".join(parts)


def _statement(one: Statement) -> str:
    mark = "<td class='yes'>agrees" if one.agrees else "<td class='no'>differs"
    why = f": {html.escape(one.why)}" if one.why else ""
    return f"<tr><td>{html.escape(one.says)}<td>{html.escape(one.measured)}{mark}{why}</tr>"


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    columns = [key for key in dict.fromkeys(key for row in rows for key in row) if not key.endswith("_sd")]
    head = "".join(f"<th>{html.escape(column)}" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{_cell(row, column)}" for column in columns) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(row: Mapping[str, Any], column: str) -> str:
    value = row.get(column)
    if not isinstance(value, float):
        return html.escape("" if value is None else str(value))
    deviation = row.get(f"{column}_sd")
    return f"{value:.4g}" + (f" ± {deviation:.2g}" if deviation else "")


def markdown(documents: Sequence[Mapping[str, Any]], command: str, heading: str = "Results") -> str:
    """The main tables for a documentation page, with the command that made them."""
    means = " Mean over repetitions." if any(document["run"]["repetitions"] > 1 for document in documents) else ""
    parts = [f"# {heading}", "", f"Made by `{command}` with hushcall {__version__}.{means}", ""]
    for document in documents:
        if document["name"] in ("data", "theory"):
            continue
        run = document["run"]
        parts += [f"## {document['title']}", ""]
        facts = f"{run['data'].split('/')[-1]}, {counted(run['days'], 'day')}, {counted(run['phones'], 'phone')}"
        facts += f", {run['repetitions']} repetitions, seed {run['seed']}" if run["repetitions"] > 1 else ""
        facts += f", at most {run['cap']} calls per number and area code" if run["cap"] else ""
        parts.append(facts + (f". {QUICK}" if run.get("quick") else "."))
        parts += ["", "| said | measured | |", "|---|---|---|"] if document["statements"] else []
        for one in document["statements"]:
            verdict = "agrees" if one["agrees"] else "**differs**" + (f": {one['why']}" if one["why"] else "")
            parts.append(f"| {one['says']} | {one['measured']} | {verdict} |")
        parts += ["", *_markdown_table(document["rows"]), ""]
    return "\n".join(parts)


_WANTED = (
    *(
        "mechanism",
        "path",
        "days",
        "randomiser",
        "epsilon_hh",
        "epsilon",
        "tau",
        "theta",
        "window",
        "level",
        "tolerance",
        "rounds",
    ),
    *("f1", "precision", "recall", "true", "false", "undetected", "relative_cbr", "listed_a_day", "wrong_a_day"),
    *(
        "report_bytes",
        "calls_a_day",
        "crowd",
        "central_epsilon",
        "no_privacy",
        "daily",
        "windowed",
        "influence",
        "fakes_needed",
        "tau_sized",
        "fakes_needed_sized",
    ),
)


def _markdown_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    columns = [column for column in _WANTED if any(row.get(column) is not None for row in rows)]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = [row.get(column) for column in columns]
        lines.append("| " + " | ".join(_short(cell) for cell in cells) + " |")
    return lines


def _short(value: Any) -> str:
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
