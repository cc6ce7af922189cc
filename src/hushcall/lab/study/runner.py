"""Many months at once: settings and repetitions come in, their results leave; in parallel, resumable, with progress.

Every (setting, repetition) is a task with its own seed, so results do not depend on how many workers run or in which
order. A finished task is a JSON file in the cache folder; a run that was stopped goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from hushcall.lab.data.datasets import Calls
from hushcall.lab.study.months import Setting, run_month
from hushcall.version import __version__
from hushcall.whole_file import write_whole

Progress = Callable[[int, int], None]
Task = tuple[Setting, int]
_calls: Calls | None = None


def run_all(
    calls: Calls,
    settings: Sequence[Setting],
    repetitions: int,
    seed: int,
    cache: Path | None = None,
    workers: int | None = None,
    progress: Progress = lambda *_: None,
) -> dict[Setting, list[dict[str, Any]]]:
    """{setting: [one result per repetition]}. Settings without randomness, and full ones, run once."""
    tasks = [(s, _seed(seed, r)) for s in dict.fromkeys(settings) for r in range(_repetitions(s, repetitions))]
    data, done = fingerprint(calls), {}
    waiting: list[Task] = []
    for task in tasks:
        kept = _read(cache, data, task)
        if kept is None:
            waiting.append(task)
        else:
            done[task] = kept
    progress(len(done), len(tasks))
    for task, result in _work(calls, waiting, workers or os.cpu_count() or 1):
        _keep(cache, data, task, result)
        done[task] = result
        progress(len(done), len(tasks))
    return {s: [done[s, _seed(seed, r)] for r in range(_repetitions(s, repetitions))] for s in dict.fromkeys(settings)}


FORMAT = 3
"""Raised whenever a change of code changes results: a cache never serves the results of other code."""


def _seed(seed: int, repetition: int) -> int:
    """No two seeds share a repetition."""
    return seed * 100_000 + repetition


def _repetitions(setting: Setting, asked: int) -> int:
    return 1 if setting.mechanism == "none" or setting.full else asked


def fingerprint(calls: Calls) -> str:
    """Names the data, so that a cache is never taken for another month's."""
    digest = hashlib.sha256(str(calls.first).encode())
    for column in (calls.day, calls.area, calls.suffix):
        digest.update(column.tobytes())
    return digest.hexdigest()[:16]


def _work(calls: Calls, tasks: list[Task], workers: int) -> Iterable[tuple[Task, dict[str, Any]]]:
    if workers == 1 or len(tasks) < 2:
        for setting, seed in tasks:
            yield (setting, seed), run_month(calls, setting, seed)
        return
    # The longest first, so that no worker is left alone with one at the end.
    ordered = sorted(tasks, key=lambda task: not task[0].full)
    # Fresh processes: a forked one would inherit the compiled kernels' threads, and stop.
    fresh = get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=fresh, initializer=_start, initargs=(calls,)) as pool:
        futures = {pool.submit(_run, *task): task for task in ordered}
        for future in as_completed(futures):
            yield futures[future], future.result()


def _start(calls: Calls) -> None:
    """In each worker, once: keep the table, and leave the other cores to the other workers."""
    global _calls  # noqa: PLW0603
    _calls = calls
    import numba

    numba.set_num_threads(1)


def _run(setting: Setting, seed: int) -> dict[str, Any]:
    assert _calls is not None
    return run_month(_calls, setting, seed)


def _path(cache: Path, data: str, task: Task) -> Path:
    name = json.dumps([FORMAT, __version__, asdict(task[0]), task[1]], sort_keys=True)
    return cache / data / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.json"


def _read(cache: Path | None, data: str, task: Task) -> dict[str, Any] | None:
    if cache is None:
        return None
    try:
        result: dict[str, Any] = json.loads(_path(cache, data, task).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return result


def _keep(cache: Path | None, data: str, task: Task, result: dict[str, Any]) -> None:
    if cache is None:
        return
    path = _path(cache, data, task)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(result))
