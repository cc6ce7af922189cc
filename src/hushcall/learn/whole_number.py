"""The server's half of whole-number mode: reports of all ten digits come in, heavy hitters of every area code leave.

With A = [A_hi | A_lo] and a number written as (t, σ), t the index of its area code: A·x = y exactly when A_lo·σ = y ⊕
A_hi·t. So every report counts in *every* area code, with its value shifted by A_hi·t, and the 24-bit decoder of
``subspace`` does the rest. Few reports are tallied into one area code after the other, in the memory of one; many share
their updates between all area codes (``whole_spectrum``). No announce phase, no bucket count: nothing is in the clear.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby

import numpy as np
from numpy.typing import NDArray

from hushcall.learn import tally_codec as files
from hushcall.learn import walsh
from hushcall.learn.decision import HeavyHitter, above
from hushcall.learn.learner import Progress, quiet, valid_suffixes
from hushcall.learn.subspace import EveryNumberTested, SparseTally, few_supports, settled, sparse
from hushcall.learn.whole_spectrum import GROUP, SUFFIX_BITS, Characters
from hushcall.numbers import NumberingPlan
from hushcall.profiles import Profile
from hushcall.protocol.items import PLACED
from hushcall.report.subspace import WholeNumber

_LOW = np.uint64((1 << SUFFIX_BITS) - 1)


@dataclass(frozen=True)
class WholeNumberLearner(EveryNumberTested):
    """The decoder of a whole round. ``domain`` holds the valid suffixes, ``areas`` how many area codes the plan has."""

    mechanism: WholeNumber
    domain: range
    areas: int
    level: float = 1e-3
    tolerance: int = 0

    @property
    def hypotheses(self) -> int:
        """Every number of the plan. The noise is that of all reports, not of one bucket's: the price of this mode."""
        return len(self.domain) * self.areas

    @property
    def bits_in_area(self) -> int:
        """A suffix: one area code is decoded after the other."""
        return SUFFIX_BITS

    def compact(self, tally: SparseTally, users: int) -> SparseTally:
        """The reports themselves: every area code needs them all."""
        return tally

    def grows(self, users: int) -> bool:
        """With every report."""
        return True

    def from_bytes(self, data: bytes) -> SparseTally:
        """Read a tally back; one of other parameters is an :class:`InvalidTally`."""
        return sparse(self.made_by, files.unpack(self.made_by, data), self.mechanism)

    def estimate(self, tally: SparseTally, items: Sequence[int]) -> NDArray[np.float64]:
        """f̂ of given numbers, as items of 33 bits."""
        return np.asarray(self.law(tally.count).estimate(few_supports(tally, items).astype(np.float64)))

    def supports(self, tally: SparseTally, items: Sequence[int]) -> NDArray[np.int64]:
        """C(x) of a few given numbers."""
        return few_supports(tally, items)

    def in_area(self, tally: SparseTally, area: int) -> SparseTally:
        """The same reports as reports of suffixes of one area code: values shifted by A_hi·t."""
        high = np.bitwise_count((tally.rows >> np.uint64(SUFFIX_BITS)) & np.uint64(area)).astype(np.uint32)
        shift = ((high & np.uint32(1)) << np.arange(tally.rows.shape[1], dtype=np.uint32)).sum(axis=1, dtype=np.uint32)
        return replace(tally, rows=tally.rows & _LOW, values=tally.values ^ shift)

    def find_in(self, tally: SparseTally, tau: float, areas: Iterable[int]) -> Iterator[list[HeavyHitter]]:
        """One area code after the other, so that a caller can show progress or stop early."""
        rule, law = self.rule(tau), self.law(tally.count)
        least = rule.least(law)
        for area, counts, shift in self.spectra(tally, list(areas)):
            places = walsh.at_least(counts, least << shift, self.domain.start, self.domain.stop)
            found = ((area << SUFFIX_BITS | int(place), int(counts[place]) >> shift) for place in places)
            yield rule.decide(law.hitter(item, count, tolerance=self.tolerance) for item, count in found)

    def spectra(self, tally: SparseTally, areas: Sequence[int]) -> Iterator[tuple[int, NDArray[np.int32], int]]:
        """(area code, counts, s): the counts of every suffix, times 2^s; good until the next one is asked for."""
        if updates_are_shared(tally.count, self.mechanism.bits, len(areas)):
            yield from self.by_groups(tally, areas)
        else:
            yield from self.one_by_one(tally, areas)

    def one_by_one(self, tally: SparseTally, areas: Iterable[int]) -> Iterator[tuple[int, NDArray[np.int32], int]]:
        """Every report into every area code: in little memory, and the only way where sums would overflow."""
        for area in areas:
            local = self.in_area(tally, area)
            yield area, walsh.support(local.rows.astype(np.uint32), local.values, SUFFIX_BITS), 0

    def by_groups(self, tally: SparseTally, areas: Iterable[int]) -> Iterator[tuple[int, NDArray[np.int32], int]]:
        """Sixteen area codes at a time, from characters that are made once."""
        characters = Characters.of(tally.rows, tally.values)
        spectra = np.empty((GROUP, 1 << SUFFIX_BITS), np.int32)
        for group, some in groupby(sorted(areas), key=lambda area: area // GROUP):
            characters.group(group, spectra)
            for area in some:
                counts = spectra[area % GROUP]
                walsh.transform(counts)
                yield area, counts, self.mechanism.bits

    def find(self, tally: SparseTally, tau: float = 0.0, progress: Progress = quiet) -> list[HeavyHitter]:
        """Every number of the plan that is significant and above τ, largest first."""
        found: list[HeavyHitter] = []
        if tally.count:
            for done, some in enumerate(self.find_in(tally, tau, range(self.areas)), 1):
                found += some
                progress(done, self.areas)
        return above(found, tau)

    def find_part(self, tally: SparseTally, tau: float, part: int, parts: int) -> list[HeavyHitter]:
        """Those of neighbouring area codes: whole groups, so that no group is worked out twice."""
        areas = part_of(self.areas, part, parts)
        return above(chain.from_iterable(self.find_in(tally, tau, areas)), tau) if tally.count and areas else []


def part_of(areas: int, part: int, parts: int) -> range:
    """The area codes of one of so many parts: whole groups where there are enough of them, as evenly as they can be."""
    groups = -(-areas // GROUP)
    size = GROUP if groups >= parts else 1
    return range(*(min(-(-areas // size) * place // parts * size, areas) for place in (part, part + 1)))


def updates_are_shared(reports: int, bits: int, areas: int) -> bool:
    """Whether making the characters once is cheaper than tallying every area code by itself.

    A group costs about as much as a sixteenth of its updates more; the sums must stay below 2³¹, and below a few
    thousand reports nothing is worth a gigabyte.
    """
    updates = reports << bits
    direct = reports << max(SUFFIX_BITS - bits, 0)
    return areas > 1 and 1 << 22 <= updates < 1 << 31 and updates * -(-areas // GROUP) <= min(updates, direct) * areas


def open_bucket(
    profile: Profile, plan: NumberingPlan, users: int, seed: bytes, buckets: int
) -> WholeNumberLearner | None:
    """The learner of a whole round; None: too few phones to find anything, even in the longest window."""
    learner = partial(resume, profile, plan, buckets=buckets)
    hypotheses, most = len(valid_suffixes(plan)) * len(plan.area_codes), users * max(profile.windows)
    width = PLACED.bits(plan)
    return settled(profile, most, hypotheses, lambda bits: learner(WholeNumber(profile.epsilon, bits, width)))


def resume(profile: Profile, plan: NumberingPlan, mechanism: WholeNumber, buckets: int) -> WholeNumberLearner:
    """With the b that the phones were given."""
    domain, areas = valid_suffixes(plan), len(plan.area_codes)
    return WholeNumberLearner(mechanism, domain, areas, profile.share, profile.tolerance)
