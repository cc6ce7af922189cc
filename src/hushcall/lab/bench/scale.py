"""From an archive to findings, stage by stage: reports a second and core, beside a plain loop and beside plain memory.

Rates are by processor time, the best of a few runs on one core: what other programs do meanwhile hardly shows. Whole
rounds are given by the clock as well.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numba
import numpy as np

from hushcall.archive.manifest import Address, ArchivedRound
from hushcall.archive.reader import read_file
from hushcall.engines.archive_evidence import evidence_of
from hushcall.engines.learning import learn
from hushcall.engines.local import LocalEngine
from hushcall.lab.data import archive_synthesis
from hushcall.lab.usage import peak_mb
from hushcall.learn import walsh
from hushcall.learn.feed.report_arrays import ReportArrays
from hushcall.learn.feed.shake256 import report_rows
from hushcall.learn.subspace import SparseTally
from hushcall.profiles import PROFILES, Profile
from hushcall.protocol.seeds import report_seed

Note = Callable[[str], None]
LOOP = 20_000
"""Reports of the plain loop: it is slow."""


def best_of(times: int, work: Callable[[], Any]) -> float:
    """Processor seconds of the cheapest of several runs."""
    took = []
    for _ in range(times):
        begin = time.process_time()
        work()
        took.append(time.process_time() - begin)
    return max(min(took), 1e-9)


def profile_for(epsilon: float) -> Profile:
    """Buckets of one nation at that budget."""
    return replace(PROFILES["strong"], epsilon=epsilon)


def stages(reports: int = 200_000, epsilon: float = 3.5, note: Note = lambda _: None) -> dict[str, Any]:
    """One bucket on one core: what each stage does alone, all of them together, and a loop over single reports."""
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            note("inventing a bucket")
            found, _ = archive_synthesis.invent(folder, reports, profile_for(epsilon), 1, areas=1, workers=0)
            return _stages(Address(folder), found, note)
    finally:
        numba.set_num_threads(before)


def _stages(address: Address, found: ArchivedRound, note: Note) -> dict[str, Any]:
    evidence, bucket, seed = next(evidence_of(address, found)), found.buckets[0], bytes.fromhex(found.seed)
    learner: Any = evidence.learner
    b, n = learner.mechanism.bits, bucket.reports

    def read() -> ReportArrays:
        parts = [part for file in bucket.files for part in read_file(address, found, file)]
        return ReportArrays(np.concatenate([p.tickets for p in parts]), np.concatenate([p.bodies for p in parts]))

    arrays = read()
    seeds, tally = arrays.seeds(seed), learner.tally_arrays(seed, arrays)
    rows, cells = tally.rows.astype(np.uint32), np.zeros(1 << 24, np.int32)
    few = ReportArrays(arrays.tickets[:LOOP], arrays.bodies[:LOOP])
    work: dict[str, tuple[int, Callable[[], Any]]] = {
        "read Parquet": (n, read),
        "seeds": (n, lambda: arrays.seeds(seed)),
        "matrices": (n, lambda: report_rows(seeds, b, 24)),
        "arrays to sparse tally": (n, lambda: learner.tally_arrays(seed, arrays)),
        "sparse to dense tally": (n, lambda: walsh.accumulate(cells, rows, tally.values)),
        "archive to sparse tally": (n, evidence.tally),
        "archive to dense tally": (n, lambda: to_dense(evidence, cells)),
        "one report at a time": (min(LOOP, n), lambda: one_at_a_time(learner, seed, few, cells)),
    }
    rates = {}
    for name, (count, call) in work.items():
        note(name)
        call()  # compiled, and in the cache where it fits
        rates[name] = count / best_of(3, call)
    table = {"reports": n, "bits": b, "reports_a_second": {name: round(rate) for name, rate in rates.items()}}
    memory = best_of(5, arrays.tickets.copy)
    return table | {
        "times_the_loop": round(rates["archive to dense tally"] / rates["one report at a time"], 1),
        "copying_the_tickets": round(n / memory),
        "transform_seconds": round(best_of(3, lambda: walsh.transform(cells)), 4),
        "copy_of_its_array_seconds": round(best_of(3, cells.copy), 4),
    }


def to_dense(evidence: Any, cells: Any) -> None:
    """Everything up to one integer per number. Large buckets are tallied into such integers as they are read."""
    tally = evidence.tally()
    if isinstance(tally, SparseTally):
        walsh.accumulate(cells, tally.rows.astype(np.uint32), tally.values)


def one_at_a_time(learner: Any, seed: bytes, arrays: ReportArrays, cells: Any) -> None:
    """The path of one report at a time: hashlib, the phone's own parser and matrix, then the same kernel."""
    mechanism = learner.mechanism
    pairs = [(ticket.tobytes(), body.tobytes()) for ticket, body in zip(arrays.tickets, arrays.bodies, strict=True)]
    values = np.array([mechanism.parse(body) for _, body in pairs], np.uint32)
    rows = np.array([mechanism.rows(report_seed(seed, ticket)) for ticket, _ in pairs], np.uint32)
    walsh.accumulate(cells, rows, values)


def rounds(
    sizes: list[int], epsilon: float = 3.5, workers: int = 2, folder: Path | None = None, note: Note = lambda _: None
) -> dict[str, Any]:
    """Whole rounds over every area code: seconds to learn, peak memory of a worker, planted numbers found."""
    rows = []
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            note(f"inventing {size:,} reports")
            found, planted = archive_synthesis.invent(place, size, profile_for(epsilon), 20, workers=workers)
            note(f"learning from {size:,} reports")
            rows.append(one_round(Address(place), found, planted, workers))
    return {"workers": workers, "epsilon": epsilon, "rounds": rows}


def one_round(address: Address, found: ArchivedRound, planted: list[str], workers: int) -> dict[str, Any]:
    """Learn from one archive, with processes that are started before the clock is."""
    engine = LocalEngine(workers)
    list(engine.each(abs, range(4 * workers)))
    before, begin, mine = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), time.process_time()
    learnt = learn(address, found, engine)
    seconds, mine = time.perf_counter() - begin, time.process_time() - mine
    peak = max(engine.each(_peak_of_a_worker, range(4 * workers)))
    engine.close()  # only processes that have ended are in the figures below
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    core = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime + mine
    listed = {row["number"] for row in learnt.listed}
    return {
        "reports": learnt.reports,
        "buckets": len(found.buckets),
        "seconds": round(seconds, 2),
        "core_seconds": round(core, 2),
        "reports_a_second": round(learnt.reports / seconds),
        "worker_peak_mb": round(peak),
        "planted": len(planted),
        "found": len(listed & set(planted)),
        "others": len(listed - set(planted)),
    }


def _peak_of_a_worker(_: int) -> float:
    """The most that the process that is asked ever took: getrusage would count what started it, too."""
    return peak_mb()
