"""How the way from archive to tally grows: sizes come in, processor seconds, memory and their exponent leave.

All reports are of one bucket, which is the hardest case: a sum that copied what it has at every step would show here
and nowhere else. Each size is fed in a fresh process with one thread, so that its peak memory is its own, beside a loop
over single reports and beside a plain copy of as many bytes, in that same process.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hushcall.archive.manifest import Address
from hushcall.archive.reader import read_file
from hushcall.engines.archive_evidence import evidence_of
from hushcall.engines.local import LocalEngine
from hushcall.lab.bench.scale import LOOP, Note, best_of, one_at_a_time, profile_for, to_dense
from hushcall.lab.data import archive_synthesis
from hushcall.lab.usage import peak_mb
from hushcall.protocol.tickets import TICKET_BYTES

PROMISED = 1.05
"""The exponent is at most that: ten times the reports take at most 11.2 times the time."""
TIMES = 3


def sizes_up_to(largest: float) -> list[int]:
    """10⁵ and on in steps of √10, two a decade.

    >>> sizes_up_to(1e6)
    [100000, 316228, 1000000]
    """
    steps = math.floor(2 * math.log10(largest / 1e5) + 1e-9)
    return [round(10 ** (5 + step / 2)) for step in range(steps + 1)]


def exponent(points: Sequence[tuple[float, float]]) -> float | None:
    """The slope of the least-squares line through (log size, log seconds); None where two points do not differ.

    >>> round(exponent([(1, 3), (10, 30), (100, 300)]), 9)
    1.0
    """
    logs = [(math.log(size), math.log(seconds)) for size, seconds in points]
    middle = [sum(column) / len(logs) for column in zip(*logs, strict=True)]
    spread = sum((x - middle[0]) ** 2 for x, _ in logs)
    return sum((x - middle[0]) * (y - middle[1]) for x, y in logs) / spread if spread else None


def growth(
    sizes: Sequence[int], epsilon: float = 3.5, folder: Path | None = None, note: Note = lambda _: None
) -> dict[str, Any]:
    """One bucket of each size, from archive to dense tally; and the exponent over all of them."""
    rows = list[dict[str, Any]]()
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            note(f"one bucket of {size:,} reports")
            archive_synthesis.invent(place, size, profile_for(epsilon), 1, areas=1, workers=0)
            engine = LocalEngine(1)
            rows += engine.each(fed, [place])
            engine.close()
    slope = exponent([(row["reports"], row["core_seconds"]) for row in rows])
    return {"rows": rows, "exponent": slope and round(slope, 3), "promised": PROMISED}


def fed(url: str) -> dict[str, Any]:
    """One archive of one bucket, fed on this core: the cheapest of a few runs, and the most memory that it took."""
    address = Address(url)
    found = address.round(None)
    evidence, (bucket,), cells = next(evidence_of(address, found)), found.buckets, np.zeros(1 << 24, np.int32)
    seconds = best_of(TIMES, lambda: to_dense(evidence, cells))
    peak = peak_mb()
    few = next(read_file(address, found, bucket.files[0], LOOP))
    looped = best_of(TIMES, lambda: one_at_a_time(evidence.learner, bytes.fromhex(found.seed), few, cells)) / len(few)
    plain = np.ones((bucket.reports, TICKET_BYTES + few.bodies.shape[1]), np.uint8)
    return {
        "reports": bucket.reports,
        "core_seconds": round(seconds, 4),
        "reports_a_second": round(bucket.reports / seconds),
        "peak_mb": round(peak),
        "times_the_loop": round(looped * bucket.reports / seconds, 1),
        "copies_of_its_bytes": round(seconds / best_of(TIMES, plain.copy), 1),
    }
