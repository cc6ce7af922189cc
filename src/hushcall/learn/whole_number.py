"""The server's half of whole-number mode: reports of all ten digits come in, heavy hitters of every area code leave.

With A = [A_hi | A_lo] and a number written as (t, σ), t the index of its area code: A·x = y exactly when A_lo·σ = y ⊕
A_hi·t. So every report is tallied into *every* area code with its value shifted by A_hi·t, and the 24-bit decoder of
``subspace`` runs unchanged on one area code after the other, in the memory of one. No announce phase, no bucket count:
nothing is in the clear.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from hushcall.learn import tally_codec as files
from hushcall.learn import walsh
from hushcall.learn.decision import HeavyHitter, above
from hushcall.learn.gate import all_of_them_found
from hushcall.learn.learner import Progress, quiet, valid_suffixes
from hushcall.learn.subspace import EveryNumberTested, SparseTally, few_supports, sparse
from hushcall.learn.subspace_tuning import bits_for
from hushcall.numbers import NumberingPlan
from hushcall.profiles import Profile
from hushcall.report.subspace import WholeNumber

SUFFIX_BITS = 24
_LOW = np.uint64((1 << SUFFIX_BITS) - 1)


@dataclass(frozen=True)
class WholeNumberLearner(EveryNumberTested):
    """The decoder of a whole round. ``domain`` holds the valid suffixes, ``areas`` how many area codes the plan has."""

    mechanism: WholeNumber
    domain: range
    areas: int
    level: float = 1e-3

    @property
    def hypotheses(self) -> int:
        """Every number of the plan. The noise is that of all reports, not of one bucket's: the price of this mode."""
        return len(self.domain) * self.areas

    def compact(self, tally: SparseTally, users: int) -> SparseTally:
        """The reports themselves: every area code needs them all."""
        return tally

    def from_bytes(self, data: bytes) -> SparseTally:
        """Read a tally back."""
        return sparse(self.made_by, files.unpack(self.made_by, data))

    def estimate(self, tally: SparseTally, items: Sequence[int]) -> NDArray[np.float64]:
        """f̂ of given numbers, as items of 33 bits."""
        return np.asarray(self.law(tally.count).estimate(few_supports(tally, items).astype(np.float64)))

    def in_area(self, tally: SparseTally, area: int) -> SparseTally:
        """The same reports as reports of suffixes of one area code: values shifted by A_hi·t."""
        high = np.bitwise_count((tally.rows >> np.uint64(SUFFIX_BITS)) & np.uint64(area)).astype(np.uint32)
        shift = ((high & np.uint32(1)) << np.arange(tally.rows.shape[1], dtype=np.uint32)).sum(axis=1, dtype=np.uint32)
        return replace(tally, rows=tally.rows & _LOW, values=tally.values ^ shift)

    def find_in(self, tally: SparseTally, tau: float, areas: Iterable[int]) -> Iterator[list[HeavyHitter]]:
        """One area code after the other, so that a caller can show progress or stop early."""
        rule, law = self.rule(tau), self.law(tally.count)
        least = rule.least(law)
        for area in areas:
            local = self.in_area(tally, area)
            counts = walsh.support(local.rows.astype(np.uint32), local.values, SUFFIX_BITS)
            places = walsh.at_least(counts, least, self.domain.start, self.domain.stop)
            yield rule.decide(law.hitter(area << SUFFIX_BITS | int(p), int(counts[p])) for p in places)

    def find(self, tally: SparseTally, tau: float = 0.0, progress: Progress = quiet) -> list[HeavyHitter]:
        """Every number of the plan that is significant and above τ, largest first."""
        found: list[HeavyHitter] = []
        if tally.count:
            for done, some in enumerate(self.find_in(tally, tau, range(self.areas)), 1):
                found += some
                progress(done, self.areas)
        return above(found, tau)

    def find_part(self, tally: SparseTally, tau: float, part: int, parts: int) -> list[HeavyHitter]:
        """Those of every so many-th area code."""
        if not tally.count:
            return []
        return above(chain.from_iterable(self.find_in(tally, tau, range(part, self.areas, parts))), tau)


def open_bucket(
    profile: Profile,
    plan: NumberingPlan,
    users: int,
    seed: bytes,
    buckets: int,
) -> WholeNumberLearner | None:
    """The learner of a whole round; None: too few phones to find anything."""
    domain, areas = valid_suffixes(plan), len(plan.area_codes)
    bits = bits_for(users, profile.epsilon, len(domain) * areas, profile.level, profile.tau)
    learner = WholeNumberLearner(WholeNumber(profile.epsilon, bits), domain, areas, profile.level)
    return learner if all_of_them_found(learner.law(users), learner.rule(profile.tau)) else None


def resume(profile: Profile, plan: NumberingPlan, mechanism: WholeNumber, buckets: int) -> WholeNumberLearner:
    """With the b that the phones were given."""
    return WholeNumberLearner(mechanism, valid_suffixes(plan), len(plan.area_codes), profile.level)
