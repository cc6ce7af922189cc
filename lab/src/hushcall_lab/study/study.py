"""Run experiments and write their JSON, CSV and figures. Claims are judged on the months that they are about."""

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from hushcall.atomic_file import atomic_write
from hushcall.errors import InvalidParameter
from hushcall.mechanisms.aggregator import Progress, quiet
from hushcall.version import __version__
from hushcall_lab import figures
from hushcall_lab.data.datasets import Calls, load
from hushcall_lab.data.synthesis import synthesise
from hushcall_lab.study import blocks, closed_loop, experiments, latency, optimality, real, users
from hushcall_lab.study.months import Setting, run_month
from hushcall_lab.study.paper_formulas import theory_document

EXPERIMENTS = {**experiments.EXPERIMENTS, **real.EXPERIMENTS}
DRAWINGS = {
    **figures.DRAWINGS,
    "users": users.draw,
    "closed-loop": closed_loop.draw,
    "blocks": blocks.draw,
    "latency": latency.draw,
}
QUICK_DAYS = 10
REAL_DAYS = (date(2020, 2, 17), date(2020, 3, 18))
"""The thirty days of 2020 that match the paper's month. Other days are dropped where the data hold all of these."""
ON_REAL_DATA = frozenset({*real.EXPERIMENTS, "users"})
"""Experiments that make sense on real complaints only."""
WITHOUT_DATA = frozenset({"theory", "optimality", "closed-loop", "blocks", "latency"})
ALIASES = {"tpr_fp": "f1", "f1_T=2": "f1", "tpr_fp_tau": "tau", "f1_T=2_tau": "tau"}
"""The paper's own names of its figures."""
Task = tuple[Setting, int]
_calls: Calls | None = None


@dataclass(frozen=True)
class Options:
    data: str = "synth"
    repetitions: int = 10
    seed: int = 1
    quick: bool = False
    workers: int | None = None
    tau: int | None = None
    epsilons: tuple[float, ...] = ()


def prepare(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise InvalidParameter("out", "be a folder that can be made and written to", str(folder)) from None


def data_of(options: Options) -> Calls:
    if is_synthetic(options.data):
        seed = options.data.removeprefix("synth").removeprefix(":") or "2016"
        if not seed.isdecimal():
            raise InvalidParameter("data", "be synth, synth:SEED or a path", options.data)
        return synthesise(int(seed))
    calls = load([Path(options.data)])
    last = date.fromordinal(calls.first.toordinal() + calls.days - 1)
    if calls.first <= REAL_DAYS[0] and last >= date.fromordinal(REAL_DAYS[1].toordinal() - 1):
        calls = calls.between(*REAL_DAYS)
    return calls


def is_synthetic(data: str) -> bool:
    """Whether ``data`` names an invented month. Anything else is a path."""
    return data == "synth" or data.startswith("synth:")


def is_judged(name: str, data: str, calls: Calls) -> bool:
    if name in WITHOUT_DATA:
        return True
    if name in ON_REAL_DATA:
        days = (REAL_DAYS[1] - REAL_DAYS[0]).days
        return not is_synthetic(data) and (calls.first, calls.days) == (REAL_DAYS[0], days)
    return is_synthetic(data)


def run(name: str, calls: Calls, options: Options, progress: Progress) -> dict[str, Any]:
    if name == "blocks":
        given = None if is_synthetic(options.data) else calls
        document = blocks.document(given, options.quick, options.seed, progress)
    elif name == "closed-loop":
        document = closed_loop.document(options.quick, options.seed, progress)
    elif name == "latency":
        path = None if is_synthetic(options.data) else Path(options.data)
        document = latency.document(path, options.quick, options.seed, progress)
    elif name == "users":
        document = users.document(calls, options.quick, progress, options.seed)
    elif name == "theory":
        document = theory_document()
    elif name == "optimality":
        document = optimality.document()
    elif name in EXPERIMENTS:
        document = _months(EXPERIMENTS[name], calls, options, progress)
    else:
        raise InvalidParameter("experiment", f"be one of {', '.join(names())}", name)
    if options.tau is not None or options.epsilons or not is_judged(name, options.data, calls):
        span = f"{calls.first.isoformat()} to {calls.date(calls.days - 1).isoformat()}"
        document["title"] += f", on {Path(options.data).name}, {span}"
        document["about"] += "; on other data than claims are about, so nothing is judged"
        document["statements"] = []
    days = min(calls.days, QUICK_DAYS) if options.quick and name in EXPERIMENTS else calls.days
    once = options.quick or name not in EXPERIMENTS  # the others draw nothing
    facts = asdict(options) | {
        "fingerprint": fingerprint(calls),
        "days": days,
        "phones": int(calls.per_day.max()),
        "repetitions": 1 if once else options.repetitions,
        "version": __version__,
    }
    return {"name": name, **document, "run": facts}


def _months(experiment: experiments.Experiment, calls: Calls, options: Options, progress: Progress) -> dict[str, Any]:
    settings = [_shortened(each, options) for each in experiment.settings(options.quick, *options.epsilons)]
    repetitions = 1 if options.quick else options.repetitions
    rows = experiment.rows(run_all(calls, settings, repetitions, options.seed, options.workers, progress))
    statements = [asdict(statement) for statement in experiment.statements(rows)]
    return {"title": experiment.title, "about": experiment.about, "rows": rows, "statements": statements}


def _shortened(setting: Setting, options: Options) -> Setting:
    setting = setting if options.tau is None else replace(setting, tau=options.tau)
    return replace(setting, days=min(setting.days or QUICK_DAYS, QUICK_DAYS)) if options.quick else setting


def run_all(
    calls: Calls,
    settings: Sequence[Setting],
    repetitions: int,
    seed: int,
    workers: int | None = None,
    progress: Progress = quiet,
) -> dict[Setting, list[dict[str, Any]]]:
    """{setting: [one result per repetition]}. Every repetition has its own seed, whatever the workers and the order."""
    tasks = {
        setting: [(setting, seed * 100_000 + repetition) for repetition in range(_repetitions(setting, repetitions))]
        for setting in settings
    }
    waiting = [task for row in tasks.values() for task in row]
    results: dict[Task, dict[str, Any]] = {}
    progress(0, len(waiting))
    for task, result in _work(calls, waiting, workers or os.cpu_count() or 1):
        results[task] = result
        progress(len(results), len(waiting))
    return {setting: [results[task] for task in row] for setting, row in tasks.items()}


def _repetitions(setting: Setting, repetitions: int) -> int:
    return 1 if setting.mechanism == "none" or setting.full else repetitions


def _work(calls: Calls, tasks: list[Task], workers: int) -> Iterable[tuple[Task, dict[str, Any]]]:
    if workers == 1 or len(tasks) < 2:
        for setting, seed in tasks:
            yield (setting, seed), run_month(calls, setting, seed)
        return
    # The longest first, so that no worker starts one at the end.
    ordered = sorted(tasks, key=lambda task: not task[0].full)
    # Not forked: a child would inherit the threads of the compiled kernels, and hang.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start, initargs=(calls,)) as pool:
        futures = {pool.submit(_run, *task): task for task in ordered}
        for future in as_completed(futures):
            yield futures[future], future.result()


def _start(calls: Calls) -> None:
    """In each worker: store the table, and leave the other cores to the other workers."""
    global _calls  # noqa: PLW0603
    _calls = calls
    import numba

    numba.set_num_threads(1)


def _run(setting: Setting, seed: int) -> dict[str, Any]:
    assert _calls is not None
    return run_month(_calls, setting, seed)


def fingerprint(calls: Calls) -> str:
    digest = hashlib.sha256(str(calls.first).encode())
    for column in (calls.day, calls.area, calls.suffix):
        digest.update(column.tobytes())
    return digest.hexdigest()[:16]


def names() -> list[str]:
    return ["theory", "optimality", *EXPERIMENTS, "users", "closed-loop", "blocks", "latency"]


def write(document: dict[str, Any], folder: Path) -> list[Path]:
    """Writes NAME.json, NAME.csv and the figure, if there is one, as SVG and PNG. Returns the SVG figures."""
    prepare(folder)
    name = document["name"]
    atomic_write(folder / f"{name}.json", json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    rows: Sequence[dict[str, Any]] = document["rows"]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = io.StringIO()
    writer = csv.DictWriter(table, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    atomic_write(folder / f"{name}.csv", table.getvalue())
    draw = DRAWINGS.get(name)
    if draw is None:
        return []
    for suffix in (".png", ".svg"):
        draw(rows, document["title"], folder / f"{name}{suffix}")
    return [folder / f"{name}.svg"]
