"""The server side of OLH: estimates how many clients hold given numbers.

OLH cannot find numbers: that takes the whole domain (see ``subspace``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import prange
from numpy.typing import NDArray

from hushcall.mechanisms import tallies
from hushcall.mechanisms.decision import HeavyHitter, Support, judge, law_of
from hushcall.mechanisms.kernels.compiled import kernel
from hushcall.mechanisms.local_hashing.client import HASH_BITS, LocalHashing
from hushcall.mechanisms.report_arrays import hash_words, matrix, read_values, refuse
from hushcall.mechanisms.tallies import HashTally

ORACLE_SHAPES = {"seeds": (tallies.REPORTS, 2), "values": (tallies.REPORTS,)}
"""Of a tally's arrays."""


def support_counts(tally: HashTally, items: Sequence[int], size: int) -> NDArray[np.int64]:
    a, b = (np.ascontiguousarray(column) for column in tally.rows.T)
    return _count_matches(a, b, tally.values, size, np.asarray(items, dtype=np.uint64))


@kernel(parallel=True)
def _count_matches(
    a: NDArray[np.uint64], b: NDArray[np.uint64], values: NDArray[np.uint32], size: int, items: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """One item a thread, all reports for it: ``MultiplyShift.below`` in machine words."""
    counts = np.empty(len(items), dtype=np.int64)
    drop, keep, wide = np.uint64(64 - HASH_BITS), np.uint64(HASH_BITS), np.uint64(size)
    for place in prange(len(items)):
        item, count = items[place], 0
        for j in range(len(values)):
            count += (((a[j] * item + b[j]) >> drop) * wide >> keep) == values[j]
        counts[place] = count
    return counts


@dataclass(frozen=True)
class LocalHashingAggregator:
    """OLH over ``domain``."""

    mechanism: LocalHashing
    domain: range

    @cached_property
    def made_by(self) -> bytes:
        return tallies.fingerprint(self.mechanism)

    def tally(self, reports: Iterable[tuple[bytes, bytes]]) -> HashTally:
        pairs = list(reports)
        bodies = matrix(self.mechanism, [report for _, report in pairs])
        values = read_values(bodies)
        refuse(self.mechanism, bodies, values >= self.mechanism.size)
        return HashTally(self.made_by, hash_words([public for public, _ in pairs]), values)

    def from_bytes(self, data: bytes) -> HashTally:
        arrays = tallies.shaped(tallies.unpack(self.made_by, data), **ORACLE_SHAPES)
        return HashTally(self.made_by, arrays["seeds"].astype(np.uint64), arrays["values"].astype(np.uint32))

    def law(self, reports: int) -> Support:
        return law_of(self.mechanism, reports)

    def estimate(self, tally: HashTally, items: Sequence[int]) -> NDArray[np.float64]:
        counts = support_counts(tally, items, self.mechanism.size)
        return np.asarray(self.law(tally.count).estimate(counts.astype(np.float64)))

    def judge(self, tally: HashTally, items: Sequence[int], tau: float, tolerance: int = 0) -> list[HeavyHitter]:
        counts = support_counts(tally, items, self.mechanism.size)
        return judge(self.law(tally.count), items, counts, tau, tolerance)

    def find(self, tally: HashTally, tau: float) -> list[HeavyHitter]:
        return self.judge(tally, self.domain, tau)
