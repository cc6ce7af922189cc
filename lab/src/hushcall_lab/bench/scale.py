"""From an archive to findings: reports a second and core for each stage, how the cost grows, and complete rounds.

Rates are by processor time, the best of a few runs on one core. Growth is measured on one bucket, the hardest case for
a tally, in a new process per size, so that peak memory is its own. Complete rounds are also given by the wall clock.
"""

import math
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hushcall.decoding.archive.files import read_file
from hushcall.decoding.archive.learn import learn, tasks_of
from hushcall.decoding.archive.manifest import Address, ArchivedRound
from hushcall.decoding.backends import ProcessBackend
from hushcall.decoding.task import DecodeTask
from hushcall.mechanisms.kernels import walsh
from hushcall.mechanisms.kernels.shake256 import report_rows
from hushcall.mechanisms.profiles import PROFILES, Profile
from hushcall.mechanisms.report_arrays import ReportArrays
from hushcall.mechanisms.tallies import SparseTally
from hushcall.protocol.seeds import report_seed
from hushcall_lab.data import archive_synthesis
from hushcall_lab.proofs.statistics import one_thread
from hushcall_lab.usage import Note, best_of, peak_mb, silent

LOOP = 20_000
"""Reports of the loop over single reports, which is slow."""
MAX_EXPONENT = 1.05
"""Ten times the reports take at most 11.2 times the time."""
TIMES = 3


def profile_for(epsilon: float) -> Profile:
    return replace(PROFILES["strong"], epsilon=epsilon)


def _core_seconds(work: Callable[[], Any]) -> float:
    return best_of(TIMES, work, time.process_time)


def _invent_bucket(folder: str, reports: int, epsilon: float) -> ArchivedRound:
    return archive_synthesis.invent(folder, reports, profile_for(epsilon), 1, areas=1, workers=0)[0]


def stages(reports: int = 200_000, epsilon: float = 3.5, note: Note = silent) -> dict[str, Any]:
    """One bucket on one core: each stage alone, all of them together, and a loop over single reports."""
    with tempfile.TemporaryDirectory() as folder, one_thread():
        note("inventing a bucket")
        return _stages(Address(folder), _invent_bucket(folder, reports, epsilon), note)


def _stages(address: Address, archived: ArchivedRound, note: Note) -> dict[str, Any]:
    task, bucket, seed = next(tasks_of(address, archived)), archived.buckets[0], bytes.fromhex(archived.seed)
    aggregator: Any = task.bucket.aggregator
    b, n = aggregator.mechanism.bits, bucket.reports

    def read() -> ReportArrays:
        parts = [part for file in bucket.files for part in read_file(address, archived.folder, file)]
        return ReportArrays(np.concatenate([p.tickets for p in parts]), np.concatenate([p.bodies for p in parts]))

    arrays = read()
    seeds, tally = arrays.seeds(seed), aggregator.tally_arrays(seed, arrays)
    rows, cells = tally.rows.astype(np.uint32), np.zeros(1 << 24, np.int32)
    few = ReportArrays(arrays.tickets[:LOOP], arrays.bodies[:LOOP])
    work: dict[str, tuple[int, Callable[[], Any]]] = {
        "read Parquet": (n, read),
        "seeds": (n, lambda: arrays.seeds(seed)),
        "matrices": (n, lambda: report_rows(seeds, b, 24)),
        "arrays to sparse tally": (n, lambda: aggregator.tally_arrays(seed, arrays)),
        "sparse to dense tally": (n, lambda: walsh.accumulate(cells, rows, tally.values)),
        "archive to sparse tally": (n, task.tallies),
        "archive to dense tally": (n, lambda: to_dense(task, cells)),
        "one report at a time": (min(LOOP, n), lambda: one_at_a_time(aggregator, seed, few, cells)),
    }
    rates = {}
    for name, (count, call) in work.items():
        note(name)
        call()  # compiled, and in the cache where it fits
        rates[name] = count / _core_seconds(call)
    return {
        "reports": n,
        "bits": b,
        "reports_a_second": {name: round(rate) for name, rate in rates.items()},
        "times_the_loop": round(rates["archive to dense tally"] / rates["one report at a time"], 1),
    }


def to_dense(task: DecodeTask, cells: Any) -> None:
    """Everything up to one integer per number. Large buckets are tallied into such integers as they are read."""
    tally = task.tallies()[0].tally
    if isinstance(tally, SparseTally):
        walsh.accumulate(cells, tally.rows.astype(np.uint32), tally.values)


def one_at_a_time(aggregator: Any, seed: bytes, arrays: ReportArrays, cells: Any) -> None:
    """Single reports: hashlib, the client's own parser and matrix, then the same kernel."""
    mechanism = aggregator.mechanism
    pairs = [(ticket.tobytes(), body.tobytes()) for ticket, body in zip(arrays.tickets, arrays.bodies, strict=True)]
    values = np.array([mechanism.parse(body) for _, body in pairs], np.uint32)
    rows = np.array([mechanism.rows(report_seed(seed, ticket)) for ticket, _ in pairs], np.uint32)
    walsh.accumulate(cells, rows, values)


def sizes_up_to(largest: float) -> list[int]:
    """10⁵ and on in steps of √10.

    >>> sizes_up_to(1e6)
    [100000, 316228, 1000000]
    """
    steps = math.floor(2 * math.log10(largest / 1e5) + 1e-9)
    return [round(10 ** (5 + step / 2)) for step in range(steps + 1)]


def exponent(points: Sequence[tuple[float, float]]) -> float | None:
    """The slope of the least-squares line through (log size, log seconds). None for a single size.

    >>> round(exponent([(1, 3), (10, 30), (100, 300)]), 9)
    1.0
    """
    sizes, seconds = ([math.log(value) for value in column] for column in zip(*points, strict=True))
    return statistics.linear_regression(sizes, seconds).slope if len(set(sizes)) > 1 else None


def growth(sizes: Sequence[int], epsilon: float = 3.5, note: Note = silent) -> dict[str, Any]:
    """One bucket of each size, from archive to dense tally, and the exponent over all of them."""
    rows = list[dict[str, Any]]()
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            note(f"one bucket of {size:,} reports")
            _invent_bucket(folder, size, epsilon)
            backend = ProcessBackend(1)
            rows += backend.each(feed, [folder])
            backend.close()
    slope = exponent([(row["reports"], row["core_seconds"]) for row in rows])
    return {"rows": rows, "exponent": slope and round(slope, 3), "promised": MAX_EXPONENT}


def feed(url: str) -> dict[str, Any]:
    address = Address(url)
    archived = address.round(None)
    task, (bucket,), cells = next(tasks_of(address, archived)), archived.buckets, np.zeros(1 << 24, np.int32)
    seconds = _core_seconds(lambda: to_dense(task, cells))
    peak = peak_mb()
    return {
        "reports": bucket.reports,
        "core_seconds": round(seconds, 4),
        "reports_a_second": round(bucket.reports / seconds),
        "peak_mb": round(peak),
    }


def rounds(sizes: Sequence[int], epsilon: float = 3.5, workers: int = 2, note: Note = silent) -> dict[str, Any]:
    """Complete rounds over every area code: seconds, peak memory of a worker, planted numbers found."""
    rows = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            note(f"inventing {size:,} reports")
            archived, planted = archive_synthesis.invent(folder, size, profile_for(epsilon), 20, workers=workers)
            note(f"decoding {size:,} reports")
            rows.append(_decode_round(Address(folder), archived, planted, workers))
    return {"workers": workers, "epsilon": epsilon, "rounds": rows}


def _decode_round(address: Address, archived: ArchivedRound, planted: list[str], workers: int) -> dict[str, Any]:
    backend = ProcessBackend(workers)
    list(backend.each(abs, range(4 * workers)))
    before, began, own = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), time.process_time()
    findings = learn(address, archived, backend)
    seconds, own = time.perf_counter() - began, time.process_time() - own
    peak = max(backend.each(_worker_peak, range(4 * workers)))
    backend.close()  # only processes that have ended are in the figures below
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    core = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime + own
    listed = {row["number"] for row in findings.listed}
    return {
        "reports": findings.reports,
        "buckets": len(archived.buckets),
        "seconds": round(seconds, 2),
        "core_seconds": round(core, 2),
        "reports_a_second": round(findings.reports / seconds),
        "worker_peak_mb": round(peak),
        "planted": len(planted),
        "found": len(listed & set(planted)),
        "others": len(listed - set(planted)),
    }


def _worker_peak(_: int) -> float:
    return peak_mb()
