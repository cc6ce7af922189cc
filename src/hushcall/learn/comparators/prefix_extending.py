"""The server's half of PEM: randomised hashes of prefixes come in, the k numbers that most phones hold leave.

Group by group, the best prefixes are extended by every continuation that the domain allows, and the next
group's reports decide which of them are kept (Wang, Li and Jha 2019). Groups before the last
only find; the last one, which reports all bits, also counts. Its counts are scaled up to all phones, so PEM
pays for searching with √groups times the noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
from numba import prange
from numpy.typing import NDArray

from hushcall import checks
from hushcall.learn import tally_codec as files
from hushcall.learn.comparators.outlook import described, staged_chance
from hushcall.learn.comparators.splitting import best, check_domain, extend, judge, pieces, roots, scaled, shares
from hushcall.learn.compiled import kernel
from hushcall.learn.decision import HeavyHitter, Support, above
from hushcall.learn.gate import more_than_tau
from hushcall.learn.learner import InOnePart, Progress, Reported, matrix, quiet, refuse, seeds, valid_suffixes
from hushcall.learn.local_hashing import ORACLE_SHAPES, law_of, read_values, same_maker
from hushcall.numbers import NumberingPlan
from hushcall.profiles import Profile
from hushcall.report.hashing import HASH_BITS
from hushcall.report.prefix_extending import GROUP_PIECE, PrefixExtending


@dataclass(frozen=True)
class PrefixTally:
    """All reports, as (a, b, group, value): they cannot be summed, only sorted."""

    made_by: bytes
    seeds: NDArray[np.uint64] = field(repr=False)
    groups: NDArray[np.uint8] = field(repr=False)
    values: NDArray[np.uint32] = field(repr=False)

    @property
    def count(self) -> int:
        """How many reports went in."""
        return len(self.values)

    def merge(self, other: PrefixTally) -> PrefixTally:
        """The rows of both, one behind the other; made by other parameters, they are refused."""
        same_maker(self.made_by, other.made_by)
        return PrefixTally(
            self.made_by,
            np.concatenate([self.seeds, other.seeds]),
            np.concatenate([self.groups, other.groups]),
            np.concatenate([self.values, other.values]),
        )

    def to_bytes(self) -> bytes:
        """In canonical order, versioned and checksummed."""
        order = np.lexsort((self.values, self.groups, self.seeds[:, 1], self.seeds[:, 0]))
        return files.pack(
            self.made_by,
            {"groups": self.groups[order], "seeds": self.seeds[order], "values": self.values[order]},
        )

    def size(self, group: int) -> int:
        """How many reports a group has."""
        return int(np.count_nonzero(self.groups == group))


@dataclass(frozen=True)
class PrefixExtendingLearner(InOnePart[PrefixTally]):
    """PEM's server, told that ``k`` numbers are wanted; it keeps ``breadth``·k prefixes of each length.

    PEM itself keeps k. More costs time only, and loses fewer numbers on the way.
    """

    mechanism: PrefixExtending
    domain: range
    k: int = 10
    breadth: int = 8

    def __post_init__(self) -> None:
        check_domain(self.domain, self.mechanism.item_bits)
        checks.whole("k", self.k, 1, 1 << 16)
        checks.whole("breadth", self.breadth, 1, 1 << 10)

    @cached_property
    def made_by(self) -> bytes:
        """Names the parameters in a tally's header: a tally of others is refused."""
        return files.fingerprint(self.mechanism)

    def tally(self, reports: Iterable[Reported]) -> PrefixTally:
        """Collect the reports, each with the group that its public seed put it into."""
        pairs = list(reports)
        publics, plain = [public for public, _ in pairs], [report for _, report in pairs]
        values = read_values(matrix(self.mechanism, plain))
        refuse(self.mechanism, plain, values >= self.mechanism.size)
        groups = shares(pieces(publics), GROUP_PIECE, self.mechanism.groups)
        return PrefixTally(self.made_by, seeds(publics), groups.astype(np.uint8), values)

    def from_bytes(self, data: bytes) -> PrefixTally:
        """Read a tally back; one of other parameters is an :class:`InvalidTally`."""
        arrays = files.shaped(files.unpack(self.made_by, data), groups=(files.REPORTS,), **ORACLE_SHAPES)
        return PrefixTally(
            self.made_by,
            arrays["seeds"].astype(np.uint64),
            arrays["groups"].astype(np.uint8),
            arrays["values"].astype(np.uint32),
        )

    def support(self, tally: PrefixTally, group: int, prefixes: NDArray[np.int64]) -> NDArray[np.int64]:
        """C of each prefix: the group's reports whose own hash sends it to the value that they hold."""
        mine = tally.groups == group
        a, b = np.ascontiguousarray(tally.seeds[mine].T)
        values = tally.values[mine].astype(np.uint64)
        return _support(a, b, values, np.uint64(self.mechanism.size), prefixes.astype(np.uint64))

    def law(self, reports: int) -> Support:
        """The oracle's p and q."""
        return law_of(self.mechanism.oracle, reports)

    def estimate(self, tally: PrefixTally, items: Sequence[int]) -> NDArray[np.float64]:
        """f̂ = n/n_last · (C − n_last/g)/(p − 1/g), from the last group's reports; 0 if it has none."""
        last = self.mechanism.groups - 1
        part = tally.size(last)
        if part == 0:
            return np.zeros(len(items))
        counts = self.support(tally, last, np.asarray(items, dtype=np.int64))
        return np.asarray(scaled(self.law(tally.count), part).estimate(counts.astype(np.float64)))

    def candidates(self, tally: PrefixTally) -> NDArray[np.int64]:
        """The items that the last group is asked about."""
        lengths, bits = self.mechanism.lengths, self.mechanism.item_bits
        prefixes = roots(lengths[0], bits, self.domain)
        for group, (length, longer) in enumerate(pairwise(lengths)):
            kept = best(self.support(tally, group, prefixes), self.breadth * self.k)
            prefixes = extend(prefixes[kept], length, longer, bits, self.domain)
        return prefixes

    def find(self, tally: PrefixTally, tau: float, progress: Progress = quiet) -> list[HeavyHitter]:
        """The k best items, of those with f̂ > τ."""
        last = self.mechanism.groups - 1
        part, law = tally.size(last), self.law(tally.count)
        if part == 0:
            return []
        items = self.candidates(tally)
        counts = self.support(tally, last, items)
        chosen = best(counts, self.k)
        return above((judge(law, part, int(items[i]), int(counts[i])) for i in chosen), tau)

    def stage(self, law: Support, nodes: int, *, last: bool) -> tuple[int, int]:
        """The cut is where noise fills the places in expectation."""
        kept = self.k * self.breadth
        places = self.k if last else kept
        return law.threshold(0.5, max(nodes / (2 * places), 1)), kept

    def chance(self, users: int, tau: float) -> Callable[[int], float]:
        """That every group keeps it."""
        return staged_chance(self, users, tau)

    @property
    def setting(self) -> str:
        """How many groups the phones are split into, for tables."""
        return described(self.mechanism.groups)


def open_bucket(
    profile: Profile, plan: NumberingPlan, users: int, seed: bytes, buckets: int
) -> PrefixExtendingLearner | None:
    """Behind the histograms' gate, and told to seek the ten largest."""
    if not more_than_tau(users, profile.tau):
        return None
    return PrefixExtendingLearner(PrefixExtending(profile.epsilon, item_bits=plan.suffix_bits), valid_suffixes(plan))


def resume(profile: Profile, plan: NumberingPlan, mechanism: PrefixExtending, buckets: int) -> PrefixExtendingLearner:
    """With the parameters that the phones were given."""
    return PrefixExtendingLearner(mechanism, valid_suffixes(plan))


@kernel(parallel=True)
def _support(
    a: NDArray[np.uint64],
    b: NDArray[np.uint64],
    values: NDArray[np.uint64],
    size: np.uint64,
    items: NDArray[np.uint64],
) -> NDArray[np.int64]:
    """For every item, count the reports with h(item) = value: h as in ``report.hashing.MultiplyShift.below``."""
    out = np.empty(items.size, np.int64)
    shift, down = np.uint64(64 - HASH_BITS), np.uint64(HASH_BITS)
    for i in prange(items.size):
        count = 0
        for j in range(a.size):
            count += ((a[j] * items[i] + b[j]) >> shift) * size >> down == values[j]
        out[i] = count
    return out
