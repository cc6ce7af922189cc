"""The server's half of OLH: randomised hashes come in, how many phones hold a given number leaves.

OLH answers questions about *given* numbers; it cannot find them (that takes the whole domain: see ``subspace``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numba import prange
from numpy.typing import NDArray

from hushcall.errors import InvalidTally
from hushcall.learn import tally_codec as files
from hushcall.learn.compiled import kernel
from hushcall.learn.decision import HeavyHitter, Support, judge
from hushcall.learn.learner import Reported, matrix, refuse, seeds
from hushcall.privacy.coins import ONE
from hushcall.report.hashing import HASH_BITS
from hushcall.report.local_hashing import LocalHashing

ORACLE_SHAPES = {"seeds": (files.REPORTS, 2), "values": (files.REPORTS,)}
"""Of a tally's arrays: the two words of each report's hash, and its value."""


@dataclass(frozen=True)
class HashTally:
    """All reports, as (a, b, value) triples: they cannot be summed, only sorted."""

    made_by: bytes
    seeds: NDArray[np.uint64] = field(repr=False)
    values: NDArray[np.uint32] = field(repr=False)

    @property
    def count(self) -> int:
        """n, the reports in it."""
        return len(self.values)

    def merge(self, other: HashTally) -> HashTally:
        """The rows of both, one behind the other; made by other parameters, they are refused."""
        same_maker(self.made_by, other.made_by)
        return HashTally(
            self.made_by,
            np.concatenate([self.seeds, other.seeds]),
            np.concatenate([self.values, other.values]),
        )

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """In canonical order, so that equal tallies have equal bytes."""
        order = np.lexsort((self.values, self.seeds[:, 1], self.seeds[:, 0]))
        return {"seeds": self.seeds[order], "values": self.values[order]}

    def to_bytes(self) -> bytes:
        """Seeds and values, versioned and checksummed: a flipped byte is noticed."""
        return files.pack(self.made_by, self.arrays())


def same_maker(mine: bytes, theirs: bytes) -> None:
    """Tallies of different parameters do not add up."""
    if mine != theirs:
        raise InvalidTally("tally", f"be made by parameters {mine.hex()[:16]} to be merged", theirs.hex()[:16])


def support_counts(tally: HashTally, items: Sequence[int], size: int) -> NDArray[np.int64]:
    """C(x) of each item: the reports whose own hash sends x to the value that they hold."""
    a, b = (np.ascontiguousarray(column) for column in tally.seeds.T)
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
class LocalHashingLearner:
    """OLH over ``domain``. ``find`` looks at every item of it: fine for small domains, not for 10⁷."""

    mechanism: LocalHashing
    domain: range

    @cached_property
    def made_by(self) -> bytes:
        """Names the parameters in a tally's header: a tally of others is refused."""
        return files.fingerprint(self.mechanism)

    def tally(self, reports: Iterable[Reported]) -> HashTally:
        """Collect the seed of every report's hash with its value; tickets never come here."""
        pairs = list(reports)
        bodies = matrix(self.mechanism, [report for _, report in pairs])
        values = read_values(bodies)
        refuse(self.mechanism, [report for _, report in pairs], values >= self.mechanism.size)
        return HashTally(self.made_by, seeds([public for public, _ in pairs]), values)

    def from_bytes(self, data: bytes) -> HashTally:
        """Read a tally back; one of other parameters is an :class:`InvalidTally`."""
        arrays = files.shaped(files.unpack(self.made_by, data), **ORACLE_SHAPES)
        return HashTally(self.made_by, arrays["seeds"].astype(np.uint64), arrays["values"].astype(np.uint32))

    def law(self, reports: int) -> Support:
        """P and q of the estimate."""
        return law_of(self.mechanism, reports)

    def estimate(self, tally: HashTally, items: Sequence[int]) -> NDArray[np.float64]:
        """f̂ = (C − n/g)/(p − 1/g)."""
        counts = support_counts(tally, items, self.mechanism.size)
        return np.asarray(self.law(tally.count).estimate(counts.astype(np.float64)))

    def judge(self, tally: HashTally, items: Sequence[int], tau: float, tolerance: int = 0) -> list[HeavyHitter]:
        """Which of the given candidates have f̂ > τ, with that many supporting reports taken away."""
        counts = support_counts(tally, items, self.mechanism.size)
        return judge(self.law(tally.count), items, counts, tau, tolerance)

    def find(self, tally: HashTally, tau: float) -> list[HeavyHitter]:
        """Every item of the domain with f̂ > τ."""
        return self.judge(tally, self.domain, tau)


def law_of(mechanism: LocalHashing, reports: int) -> Support:
    """Holders support their item with the odds of the truth, others with 1/g."""
    return Support(reports, mechanism.response.keep / ONE, 1 / mechanism.size)


def read_values(bodies: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Big-endian integers of up to four bytes, one a row."""
    value = np.zeros(len(bodies), dtype=np.uint32)
    for column in range(bodies.shape[1]):
        value = (value << np.uint32(8)) | bodies[:, column]
    return value
