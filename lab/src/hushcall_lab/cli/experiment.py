"""``hushcall-lab experiment``: every figure of the paper by name, and ours against everyone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from hushcall import checks
from hushcall.cli import show
from hushcall.cli.show import Json
from hushcall.errors import InvalidParameter
from hushcall.wording import counted
from hushcall_lab.cli.output import print_parts, stepper, table
from hushcall_lab.cli.page import Block, Page

SHORT_TABLES = {
    "f1": (("randomiser",), "epsilon_hh", "f1", ""),
    "optimality": (("reports",), "epsilon", "ratio", ""),
    "compare": (("mechanism", "path"), "epsilon", "f1", ""),
    "real": (("decided", "verdict"), "epsilon", "relative_cbr", "cbr"),
    "latency": (("scale", "campaigns"), "round_hours", "median_hours", "warned_calls"),
    "defaults": (("choice", "verdict"), "epsilon", "relative_cbr", "wrong_a_day"),
}
"""The table of a page: the columns of its rows, the one whose values are its columns, the value shown, and a second."""


def experiment(
    name: Annotated[
        str,
        typer.Argument(
            help="theory, optimality, f1, tau, cbr, rounds, compare, closed-loop, blocks, latency, all; with real "
            "complaints real, defaults and users; the paper's names of its figures work too."
        ),
    ],
    data: Annotated[
        str, typer.Option(help="synth (the 2016-like month), synth:SEED (another one), or a path to complaints.")
    ] = "synth",
    repetitions: Annotated[int, typer.Option(min=1, help="Repetitions with different random bytes.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="The first repetition's seed.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for JSON, CSV, figures and tables.")] = Path("results"),
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; as many as cores by default.")] = None,
    quick: Annotated[bool, typer.Option(help="Ten days, one repetition, fewer points: a look, not evidence.")] = False,
    tau: Annotated[int | None, typer.Option(min=0, help="Of compare: list numbers above it (143).")] = None,
    epsilon: Annotated[list[float] | None, typer.Option(help="Of compare: a budget; may be repeated.")] = None,
    json: Json = False,
    page: Page = "",
) -> None:
    """Run an experiment of the paper, or ours, and keep its figures.

    Claims, the paper's or ours, are judged only on the data that they are about.
    """
    from hushcall_lab.study import study

    name = study.ALIASES.get(name, name)
    impossible = study.ON_REAL_DATA if study.is_synthetic(data) else frozenset()
    chosen = [each for each in study.names() if each not in impossible] if name == "all" else [name]
    if name in impossible:
        raise InvalidParameter("data", "name a file or folder of real complaints for this experiment", data)
    checks.one_of("experiment", name, [*study.names(), "all"])
    if name != "compare" and (epsilon or tau is not None):
        raise InvalidParameter("tau and epsilon", "be given to compare only", name)
    block = Block.parse(page, name) if page else None
    study.prepare(out)
    options = study.Options(data, repetitions, seed, quick, workers, tau, tuple(epsilon or ()))
    documents = []
    with show.progress("reading the data"):
        calls = study.data_of(options)
    show.ready_to_decode()
    with show.progress(chosen[0]) as bar:
        for place, each in enumerate(chosen, 1):
            step = stepper(bar)(f"{each} ({place} of {len(chosen)})")
            documents.append(study.run(each, calls, options, step))
            study.write(documents[-1], out)
    if block:
        block.write(_command(documents[0]), _figures(documents[0]))
    if json:
        show.print_json(documents if name == "all" else documents[0])
        return
    for document in documents:
        print_parts(*_figures(document))
    if quick:
        show.console.print("A quick run: a look, not evidence.")
    show.console.print(f"Figures and tables: {out}")


def _command(document: dict[str, Any]) -> str:
    run = document["run"]
    words = ["hushcall-lab experiment", document["name"], "--data", Path(run["data"]).name]
    words += ["--repetitions", str(run["repetitions"]), "--seed", str(run["seed"])]
    words += [] if run["tau"] is None else ["--tau", str(run["tau"])]
    words += [f"--epsilon {each:g}" for each in run["epsilons"]]
    return " ".join(words + ["--quick"] * run["quick"])


def _figures(document: dict[str, Any]) -> list[Table | str]:
    run, rows = document["run"], document["rows"]
    facts = f": {counted(run['days'], 'day')}, {counted(run['phones'], 'phone')}"
    facts = "" if document["name"] in ("closed-loop", "blocks", "optimality", "latency") else facts
    figures: list[Table | str] = [f"{document['title']}{facts}."]
    if document["statements"]:
        figures.append(_statements(document["statements"]))
    if document["name"] == "closed-loop":
        figures.append(_fates(rows))
    if document["name"] == "blocks":
        figures += _blocks(rows)
    if document["name"] in SHORT_TABLES:
        figures.append(_short_table(rows, *SHORT_TABLES[document["name"]]))
    return figures


def _fates(rows: list[dict[str, Any]]) -> Table:
    """What became of each caller's calls in the closed loop, and of persistent ones if blocked calls were left out."""
    from hushcall_lab.study.closed_loop import SHIPPED

    shares = ("passed", "warned", "blocked", "blocked_once_listed", "blocked_after")
    cells = (
        (
            *(row["arm"], row["caller"], row["blocks_from"] or "never"),
            *("" if row[name] is None else f"{row[name]:.0%}" for name in shares),
            row["left_after_days"] or "",
        )
        for row in rows
        if row["arm"] == SHIPPED or row["caller"].startswith("persistent")
    )
    of_calls = ("passed", "warned", "blocked", "blocked once listed", "blocked from then on")
    return table("", ("arm", "caller", "blocks from day", *of_calls, "left after"), cells, left=["caller"])


def _blocks(rows: list[dict[str, Any]]) -> Iterator[Table]:
    """What is found of one hundred, and the calls of a month that are covered."""
    shares = ("range_found", "number_found", "other_ranges")
    cases = [(row["case"], *(f"{row[name]:.3g}" for name in shares)) for row in rows if row["part"] == "rented"]
    yield table("", ("reports about one hundred", "its range", "a number", "other ranges a day"), cases)
    month = [row for row in rows if row["part"] == "month"]
    cells = [
        (
            row["scale"],
            f"{row['hundreds']} %",
            *(f"{row[name]:.1%}" for name in ("numbers", "covered")),
            f"{row['wrong_ranges_a_day']:.3g}",
        )
        for row in month
    ]
    if month:
        yield table(
            "", ("phones a complaint", "hundreds", "calls, numbers", "with ranges", "empty ranges a day"), cells
        )


def _short_table(rows: list[dict[str, Any]], down: tuple[str, ...], across: str, value: str, second: str) -> Table:
    lines: dict[tuple[str, ...], dict[float, dict[str, Any]]] = {}
    for row in rows:
        if row.get("mechanism") != "none" and row[down[0]]:
            lines.setdefault(tuple(str(row[key]) for key in down), {})[row[across]] = row
    lines = {labels: line for labels, line in lines.items() if any(row[value] for row in line.values())}
    columns = sorted({key for line in lines.values() for key in line})

    def cell(row: dict[str, Any] | None) -> str:
        beside = f" ({row[second]:.2g})" if row and second else ""
        return f"{row[value]:.3g}{beside}" if row else ""

    cells = ((*labels, *(cell(line.get(key)) for key in columns)) for labels, line in lines.items())
    title = f"{value} ({second}), by {across}" if second else f"{value}, by {across}"
    return table(title, (*down, *(f"{key:g}" for key in columns)), cells)


def _statements(statements: list[dict[str, Any]]) -> Table:
    def verdict(row: dict[str, Any]) -> str:
        return "✓" if row["agrees"] else ": ".join(filter(None, ("[red]differs[/]", row["why"])))

    cells = ((row["says"], row["measured"], verdict(row)) for row in statements)
    return table("", ("said", "measured", "agrees"), cells, left=["measured", "agrees"])
