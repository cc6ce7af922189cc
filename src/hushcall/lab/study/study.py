"""Run experiments and keep what they found: data and options come in, JSON, CSV, figures and a page leave."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from hushcall.errors import InvalidParameter
from hushcall.lab.data.datasets import Calls, load
from hushcall.lab.data.synthesis import synthesise
from hushcall.lab.study import analytic, describe, poisoning, report, result_figures, users
from hushcall.lab.study.experiments import EXPERIMENTS
from hushcall.lab.study.months import Setting, busiest
from hushcall.lab.study.origin import REAL_DAYS, Origin, in_its_own_name, is_synthetic, origin_of
from hushcall.lab.study.runner import fingerprint, run_all
from hushcall.version import __version__
from hushcall.whole_file import write_whole

QUICK_DAYS = 10
"""What a quick run looks at."""


@dataclass(frozen=True)
class Options:
    """What every experiment is run with."""

    data: str = "synth"
    repetitions: int = 10
    seed: int = 1
    quick: bool = False
    workers: int | None = None
    cap: int = 0
    cache: Path | None = None


def prepare(folder: Path) -> None:
    """Make the output folder before the work that would fill it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise InvalidParameter("out", "be a folder that can be made and written to", str(folder)) from None


def data_of(options: Options) -> Calls:
    """The table of calls: the 2016-like month, or what the paths hold."""
    if is_synthetic(options.data):
        seed = options.data.removeprefix("synth").removeprefix(":") or "2016"
        if not seed.isdecimal():
            raise InvalidParameter("data", "be synth, synth:SEED or a path", options.data)
        return synthesise(int(seed))
    calls = load([Path(options.data)])
    last = date.fromordinal(calls.first.toordinal() + calls.days - 1)
    if calls.first <= REAL_DAYS[0] and last >= date.fromordinal(REAL_DAYS[1].toordinal() - 1):
        calls = calls.between(*REAL_DAYS)
    return calls.capped(options.cap) if options.cap else calls


def run(name: str, calls: Calls, options: Options, progress: Callable[[str, int, int], None]) -> dict[str, Any]:
    """One experiment as a document: parameters, rows, statements."""
    if name == "poisoning":
        found = poisoning.document(options.quick)
    elif name == "users":
        found = users.document(calls, options.quick, lambda done, total: progress(name, done, total))
    elif name == "data":
        found = analytic.data_document(calls)
    elif name == "theory":
        found = analytic.theory_document()
    elif name in EXPERIMENTS:
        experiment = EXPERIMENTS[name]
        settings = experiment.settings(options.quick)
        results = run_all(
            calls,
            [_shortened(setting, options) for setting in settings],
            1 if options.quick else options.repetitions,
            options.seed,
            options.cache,
            options.workers,
            lambda done, total: progress(name, done, total),
        )
        rows = experiment.rows(results)
        found = {"title": experiment.title, "about": experiment.about, "rows": rows}
        found["statements"] = [asdict(one) for one in experiment.statements(rows)]
    else:
        raise InvalidParameter("experiment", f"be one of {', '.join(names())}", name)
    found = in_its_own_name(name, found, options.data, calls)
    days = min(calls.days, QUICK_DAYS) if options.quick and name in EXPERIMENTS else calls.days
    facts = {"data": options.data, "fingerprint": fingerprint(calls), "days": days, "phones": busiest(calls)}
    facts |= {"origin": str(origin_of(options.data, calls)), "command": _command(name, options)}
    once = options.quick or name not in EXPERIMENTS  # what is computed from laws needs no second time
    facts |= {"repetitions": 1 if once else options.repetitions, "seed": options.seed, "cap": options.cap}
    return {"name": name, **found, "run": facts | {"quick": options.quick, "version": __version__}}


def _shortened(setting: Setting, options: Options) -> Setting:
    """A quick run looks at a few days."""
    return replace(setting, days=min(setting.days or QUICK_DAYS, QUICK_DAYS)) if options.quick else setting


def names() -> list[str]:
    """Every experiment, in the order in which ``all`` runs them."""
    return ["data", "theory", *EXPERIMENTS, "users", "poisoning"]


ON_REAL_DATA = frozenset({"real", "users"})
"""Experiments that make sense on real complaints only."""


ALIASES = {
    "amplification": "data",
    "bucket_distro": "data",
    "dataset_stats": "data",
    "complaints_distribution": "data",
    "tpr_fp": "f1",
    "f1_T=2": "f1",
    "tpr_fp_tau": "tau",
    "f1_T=2_tau": "tau",
}
"""The paper's own names of its figures."""


def keep(document: dict[str, Any], calls: Calls, folder: Path) -> list[Path]:
    """Write NAME.json, NAME.csv and the figures as SVG and PNG; whole files only. Returns the SVG figures."""
    prepare(folder)
    name = document["name"]
    write_whole(folder / f"{name}.json", json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    rows: Sequence[dict[str, Any]] = document["rows"]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = io.StringIO()
    writer = csv.DictWriter(table, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(folder / f"{name}.csv", table.getvalue())
    if name == "theory":
        return []
    if name == "data":
        describe.pictures(calls, folder, "png")
        return describe.pictures(calls, folder, "svg")
    drawings = {**result_figures.DRAWINGS, "poisoning": poisoning.draw, "users": users.draw}
    for suffix in (".png", ".svg"):
        drawings[name](rows, document["title"], folder / f"{name}{suffix}")
    return [folder / f"{name}.svg"]


def kept(folder: Path) -> tuple[list[dict[str, Any]], dict[str, list[Path]]]:
    """What experiments have left in a folder, in their order: documents, and the figures of each."""
    documents, figures = [], {}
    for name in names():
        try:
            document = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
            usable = document["name"] == name and document["run"]["version"] and "statements" in document
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if usable:
            documents.append(document)
            stems = describe.PICTURES if name == "data" else (name,)
            figures[name] = [path for stem in stems if (path := folder / f"{stem}.svg").exists()]
    return documents, figures


def write_page(folder: Path) -> Path:
    """One page for all experiments of a folder, all in one file."""
    documents, figures = kept(folder)
    path = folder / "report.html"
    write_whole(path, report.page(documents, figures, _title(documents)))
    return path


def _title(documents: Sequence[dict[str, Any]]) -> str:
    """What a page of these is about."""
    of = {(run.get("origin", Origin.PAPER), Path(run["data"]).name) for run in (one["run"] for one in documents)}
    if {origin for origin, _ in of} == {Origin.PAPER}:
        subject = "the paper reproduced, and beyond it"
    elif len(of) == 1:
        subject = f"experiments on {next(iter(of))[1]}"
    else:
        subject = "experiments"
    quick = all(one["run"].get("quick") for one in documents)
    return f"hushcall: {subject}{' (a quick look)' if quick and documents else ''}"


def write_tables(documents: Sequence[dict[str, Any]], name: str, options: Options, folder: Path) -> Path:
    """The main tables as Markdown, under the command that makes them again, with those that the folder has already."""
    path = folder / "results.md"
    new = {document["name"] for document in documents}
    before = [document for document in kept(folder)[0] if document["name"] not in new]
    if not before:
        text = report.markdown(documents, _command(name, options), _heading(name, options))
    else:
        together = sorted([*before, *documents], key=lambda document: names().index(document["name"]))
        commands = dict.fromkeys(document["run"].get("command", _command(name, options)) for document in together)
        text = report.markdown(together, "`, `".join(commands))
    write_whole(path, text)
    return path


def _command(name: str, options: Options) -> str:
    usual, words = Options(), ["hushcall experiment", name]
    if options.data != usual.data:
        words += ["--data", Path(options.data).name]
    for option in ("cap", "repetitions", "seed"):
        if getattr(options, option) != getattr(usual, option):
            words += [f"--{option}", str(getattr(options, option))]
    return " ".join([*words, "--quick"] if options.quick else words)


def _heading(name: str, options: Options) -> str:
    if is_synthetic(options.data):
        return "Results"
    capped = ", repeat filers capped" if options.cap else ""
    return f"Real complaints: {name}{capped}"
