"""The server side of PEM (Wang, Li and Jha 2019), which finds the k numbers with most holders.

The last group, which reports all bits, also counts. Its counts are scaled up to all clients, so PEM pays for searching
with √groups times the noise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcall import checks
from hushcall.mechanisms import tallies as files
from hushcall.mechanisms.aggregator import Aggregator, Progress, Reported, quiet
from hushcall.mechanisms.decision import HeavyHitter, Support, above, law_of, more_than_tau
from hushcall.mechanisms.local_hashing.server import ORACLE_SHAPES, support_counts
from hushcall.mechanisms.profiles import Profile
from hushcall.mechanisms.report_arrays import hash_words, matrix, read_values, refuse
from hushcall.mechanisms.tallies import HashTally, same_maker
from hushcall.protocol.items import SUFFIX
from hushcall.protocol.numbers import NumberingPlan
from hushcall_lab.rivals.prefix_extending.client import GROUP_PIECE, PrefixExtending
from hushcall_lab.rivals.splitting_server import StagedSearch, best, check_domain, judge, pieces, shares

KINDS = {"groups": np.uint8, "seeds": np.uint64, "values": np.uint32}


@dataclass(frozen=True)
class PrefixTally:
    """All reports: ``seeds`` (a, b), ``groups`` and ``values``. They cannot be summed."""

    made_by: bytes
    arrays: dict[str, NDArray[Any]] = field(repr=False)

    @property
    def count(self) -> int:
        return len(self.arrays["values"])

    def merge(self, other: PrefixTally) -> PrefixTally:
        same_maker(self.made_by, other.made_by)
        return replace(self, arrays={name: np.concatenate([self.arrays[name], other.arrays[name]]) for name in KINDS})

    def to_bytes(self) -> bytes:
        groups, seeds, values = (self.arrays[name] for name in KINDS)
        order = np.lexsort((values, groups, seeds[:, 1], seeds[:, 0]))
        return files.pack(self.made_by, {name: self.arrays[name][order] for name in KINDS})

    def size(self, group: int) -> int:
        return int(np.count_nonzero(self.arrays["groups"] == group))


@dataclass(frozen=True)
class PrefixExtendingAggregator(StagedSearch, Aggregator[PrefixTally]):
    """Looks for ``k`` numbers, and extends ``breadth``·k prefixes of each length. The paper extends k."""

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
        return files.fingerprint(self.mechanism)

    def tally(self, reports: Iterable[Reported]) -> PrefixTally:
        pairs = list(reports)
        publics = [public for public, _ in pairs]
        bodies = matrix(self.mechanism, [report for _, report in pairs])
        values = read_values(bodies)
        refuse(self.mechanism, bodies, values >= self.mechanism.size)
        groups = shares(pieces(publics), GROUP_PIECE, self.mechanism.groups).astype(np.uint8)
        return PrefixTally(self.made_by, {"groups": groups, "seeds": hash_words(publics), "values": values})

    def from_bytes(self, data: bytes) -> PrefixTally:
        arrays = files.shaped(files.unpack(self.made_by, data), groups=(files.REPORTS,), **ORACLE_SHAPES)
        return PrefixTally(self.made_by, {name: arrays[name].astype(kind) for name, kind in KINDS.items()})

    def counts(self, tally: PrefixTally, group: int, prefixes: NDArray[np.int64]) -> NDArray[np.int64]:
        members = tally.arrays["groups"] == group
        hashes = HashTally(self.made_by, tally.arrays["seeds"][members], tally.arrays["values"][members])
        return support_counts(hashes, prefixes.tolist(), self.mechanism.size)

    def law(self, reports: int) -> Support:
        return law_of(self.mechanism.oracle, reports)

    def extended(self, counts: NDArray[np.int64], reports: int) -> NDArray[np.int64]:
        return best(counts, self.breadth * self.k)

    def find(self, tally: PrefixTally, tau: float, progress: Progress = quiet) -> list[HeavyHitter]:
        last = self.mechanism.groups - 1
        part, law = tally.size(last), self.law(tally.count)
        if part == 0:
            return []
        items = self.candidates(tally)
        counts = self.counts(tally, last, items)
        chosen = best(counts, self.k)
        return above((judge(law, part, int(items[i]), int(counts[i])) for i in chosen), tau)

    def stage(self, law: Support, nodes: int, *, last: bool) -> tuple[int, int]:
        """The cut is where noise fills the places in expectation."""
        extended = self.k * self.breadth
        places = self.k if last else extended
        return law.threshold(0.5, max(nodes / (2 * places), 1)), extended


def open_bucket(
    profile: Profile, plan: NumberingPlan, users: int, seed: bytes, buckets: int
) -> PrefixExtendingAggregator | None:
    """Behind the histograms' gate, for the ten largest."""
    if not more_than_tau(users, profile.tau):
        return None
    return resume(profile, plan, PrefixExtending(profile.epsilon, item_bits=SUFFIX.bits(plan)), buckets)


def resume(
    profile: Profile, plan: NumberingPlan, mechanism: PrefixExtending, buckets: int
) -> PrefixExtendingAggregator:
    return PrefixExtendingAggregator(mechanism, SUFFIX.domain(plan))
