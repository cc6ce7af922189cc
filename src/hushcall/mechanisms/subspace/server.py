"""The server side of the subspace mechanism.

``walsh`` counts C(x) for all 2²⁴ suffixes at once: n·2^b + 24·2²⁴ steps instead of n·10⁷. C(x) of a number without a
holder is exactly Binomial(n, 2^−b), so the decision needs no calibration. A bucket is stored as a sparse tally. Shards
of a large round add up dense ones. Both decode to the same counts.

In whole-number mode the area code is protected too. With A = [A_hi | A_lo] and a number written as (t, σ), t the index
of its area code: A·x = y exactly when A_lo·σ = y ⊕ A_hi·t. So every report counts in every area code, with its value
shifted by A_hi·t. A few reports are tallied into one area code after the other, in the memory of one. Many reports
share their updates between all area codes (``spectrum``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hushcall import checks
from hushcall.errors import InvalidTally
from hushcall.mechanisms import tallies
from hushcall.mechanisms.aggregator import PoolingAggregator, Progress, Reported, quiet
from hushcall.mechanisms.decision import POWER, HeavyHitter, Rule, Support, above, law_of
from hushcall.mechanisms.kernels import walsh
from hushcall.mechanisms.kernels.shake256 import report_rows
from hushcall.mechanisms.mechanism import least_bits
from hushcall.mechanisms.profiles import Profile
from hushcall.mechanisms.registry import spec_of
from hushcall.mechanisms.report_arrays import ReportArrays, bodies, matrix, read_values, refuse
from hushcall.mechanisms.subspace.client import MAX_BITS, Subspace
from hushcall.mechanisms.subspace.spectrum import GROUP, LOW_BITS, Characters
from hushcall.mechanisms.tallies import DenseTally, PooledTally, SparseTally
from hushcall.protocol.items import SUFFIX
from hushcall.protocol.numbers.plan import NumberingPlan
from hushcall.protocol.seeds import SEED_BYTES

DENSE_FROM = 1_000_000
"""Buckets with more users are tallied into one integer per number: 64 MB, however many reports there are."""


@dataclass(frozen=True)
class SubspaceAggregator(PoolingAggregator[PooledTally]):
    """The decoder of one bucket. ``buckets`` is how many are decided together. It tests every item of its domain.

    In whole-number mode ``areas`` is the number of area codes, and ``domain`` holds the suffixes that exist. An item is
    the index of an area code above ``suffix_bits`` bits of suffix. In a bucket of one area code the index is 0.
    """

    mechanism: Subspace
    domain: range
    level: float = 1e-3
    buckets: int = 1
    tolerance: int = 0
    warn_level: float = 0.0
    areas: int = 1
    rounds_per_day: int = 1
    place: int = 0

    def __post_init__(self) -> None:
        checks.whole("suffix_bits", self.suffix_bits, 1, 28)
        checks.whole("buckets", self.buckets, 1)

    @property
    def pooling(self) -> Self:
        return self

    @property
    def numbers(self) -> int:
        return len(self.domain) * self.areas

    @property
    def hypotheses(self) -> int:
        """How many are tested together. The error level covers all of them."""
        return self.numbers * self.buckets

    @property
    def suffix_bits(self) -> int:
        """The spectrum of one area code has 2^suffix_bits cells."""
        return self.mechanism.item_bits if self.areas == 1 else (self.domain.stop - 1).bit_length()

    @cached_property
    def made_by(self) -> bytes:
        return tallies.fingerprint(self.mechanism)

    @property
    def setting(self) -> str:
        return f"b={self.mechanism.bits}"

    def rule(self, tau: float) -> Rule:
        strict = self.strict_rule(tau)
        return replace(strict, level=self.warn_level, tolerance=0) if self.warn_level else strict

    def strict_rule(self, tau: float) -> Rule:
        """The rule of blocking. The same where there is one tier."""
        return Rule(tau, self.level, self.hypotheses, self.tolerance, self.rounds_per_day, self.place)

    def over(self, rounds: int) -> Self:
        """The same aggregator with the tolerance of so many rounds."""
        return replace(self, tolerance=self.strict_rule(0).over(range(rounds)).tolerance)

    def law(self, reports: int) -> Support:
        return law_of(self.mechanism, reports)

    def tally(self, reports: Iterable[Reported]) -> SparseTally:
        pairs = list(reports)
        for public, _ in pairs:
            checks.length("public", public, SEED_BYTES)
        seeds = np.frombuffer(b"".join(public for public, _ in pairs), np.uint8).reshape(len(pairs), SEED_BYTES)
        return self._sparse(seeds, matrix(self.mechanism, [report for _, report in pairs]))

    def tally_arrays(self, round_seed: bytes, reports: ReportArrays) -> SparseTally:
        return self._sparse(reports.seeds(round_seed), bodies(self.mechanism, reports.bodies))

    def _sparse(self, seeds: NDArray[np.uint8], sent: NDArray[np.uint8]) -> SparseTally:
        values = read_values(sent)
        refuse(self.mechanism, sent, values >= self.mechanism.size)
        return SparseTally(self.made_by, report_rows(seeds, self.mechanism.bits, self.mechanism.item_bits), values)

    def compact(self, tally: PooledTally, users: int) -> PooledTally:
        return tally if self.grows(users) or isinstance(tally, DenseTally) else self.dense(tally)

    def grows(self, users: int) -> bool:
        return users <= DENSE_FROM or self.areas > 1  # every area code needs all reports

    def from_bytes(self, data: bytes) -> PooledTally:
        arrays, (item_bits, bits) = tallies.unpack(self.made_by, data), (self.mechanism.item_bits, self.mechanism.bits)
        if "cells" in arrays and self.areas == 1:
            tallies.shaped(arrays, cells=(1 << item_bits,), count=(1,))
            return DenseTally(self.made_by, arrays["cells"].astype(np.int32), int(arrays["count"][0]))
        tallies.shaped(arrays, rows=(tallies.REPORTS, bits), values=(tallies.REPORTS,))
        rows, values = arrays["rows"].astype(np.uint64), arrays["values"].astype(np.uint32)
        for name, array, width in (("rows", rows, item_bits), ("values", values, bits)):
            if array.size and (largest := int(array.max())) >> width:
                raise InvalidTally(f"array {name}", f"have at most {width} bits each", largest)
        return SparseTally(self.made_by, rows, values)

    def dense(self, tally: SparseTally) -> DenseTally:
        """The dense form. Its kind depends on b alone, so that all shards of a round agree."""
        cells = np.zeros(1 << self.mechanism.item_bits, dtype=np.int32)
        add = walsh.count_members if self._counts_directly else walsh.accumulate
        add(cells, tally.rows.astype(np.uint32), tally.values)
        return DenseTally(self.made_by, cells, tally.count)

    @property
    def _counts_directly(self) -> bool:
        return 2 * self.mechanism.bits > self.mechanism.item_bits

    def areas_of(self, part: int, parts: int) -> range:
        """The area codes that one of so many parts decodes.

        Whole groups where there are enough of them, so that no group is computed twice.
        """
        groups = -(-self.areas // GROUP)
        size = GROUP if groups >= parts else 1
        return range(*(min(-(-self.areas // size) * place // parts * size, self.areas) for place in (part, part + 1)))

    def in_area(self, tally: PooledTally, area: int) -> PooledTally:
        """The same reports as reports of the suffixes of one area code: the values shifted by A_hi·t."""
        if self.areas == 1 or isinstance(tally, DenseTally):
            checks.whole("area", area, 0, 0)
            return tally
        high = np.bitwise_count((tally.rows >> np.uint64(self.suffix_bits)) & np.uint64(area)).astype(np.uint32)
        shift = ((high & np.uint32(1)) << np.arange(tally.rows.shape[1], dtype=np.uint32)).sum(axis=1, dtype=np.uint32)
        low = np.uint64((1 << self.suffix_bits) - 1)
        return replace(tally, rows=tally.rows & low, values=tally.values ^ shift)

    def support(self, tally: PooledTally) -> NDArray[np.int32]:
        """C(x), the number of supporting reports, of all 2^suffix_bits suffixes of one area code's tally."""
        if isinstance(tally, SparseTally):
            return walsh.support(tally.rows.astype(np.uint32), tally.values, self.suffix_bits)
        if self._counts_directly:
            return tally.cells
        counts = tally.cells.copy()
        walsh.transform(counts)
        counts >>= self.mechanism.bits
        return counts

    def supports(self, tally: PooledTally, items: Sequence[int]) -> NDArray[np.int64]:
        if isinstance(tally, SparseTally):
            return few_supports(tally, items)
        return self.support(tally)[np.asarray(items, dtype=np.int64)].astype(np.int64)

    def estimate(self, tally: PooledTally, items: Sequence[int]) -> NDArray[np.float64]:
        return np.asarray(self.law(tally.count).estimate(self.supports(tally, items).astype(np.float64)))

    def shares_updates(self, reports: int, areas: int) -> bool:
        """Whether making the characters once is cheaper than tallying every area code by itself."""
        updates = reports << self.mechanism.bits
        direct = reports << max(self.suffix_bits - self.mechanism.bits, 0)
        cheaper = updates * -(-areas // GROUP) <= min(updates, direct) * areas
        possible = areas > 1 and self.suffix_bits >= LOW_BITS and 1 << 22 <= updates < 1 << 31
        return possible and cheaper

    def spectra(self, tally: PooledTally, areas: Sequence[int]) -> Iterator[tuple[int, NDArray[np.int32], int]]:
        """(area, counts, s) of each area code: the counts of every suffix times 2^s. The next step overwrites them."""
        if isinstance(tally, SparseTally) and self.shares_updates(tally.count, len(areas)):
            return self.by_groups(tally, areas)
        return self.one_by_one(tally, areas)

    def one_by_one(self, tally: PooledTally, areas: Iterable[int]) -> Iterator[tuple[int, NDArray[np.int32], int]]:
        """Every report into every area code: in little memory, and the only way where sums would overflow."""
        for area in areas:
            yield area, self.support(self.in_area(tally, area)), 0

    def by_groups(self, tally: SparseTally, areas: Iterable[int]) -> Iterator[tuple[int, NDArray[np.int32], int]]:
        """Sixteen area codes at a time, from characters that are made once."""
        characters = Characters.of(tally.rows, tally.values, self.suffix_bits, self.mechanism.item_bits)
        spectra = np.empty((GROUP, 1 << self.suffix_bits), np.int32)
        for group, members in groupby(sorted(areas), key=lambda area: area // GROUP):
            characters.group(group, spectra)
            for area in members:
                counts = spectra[area % GROUP]
                walsh.transform(counts)
                yield area, counts, self.mechanism.bits

    def find_in(self, tally: PooledTally, tau: float, areas: Iterable[int]) -> Iterator[list[HeavyHitter]]:
        """The heavy hitters of one area code after the other, so that a caller can show progress or stop early."""
        rule, law = self.rule(tau), self.law(tally.count)
        least, strict = rule.least(law), self.strict_rule(tau).least(law)
        for area, counts, shift in self.spectra(tally, list(areas)):
            places = walsh.at_least(counts, least << shift, self.domain.start, self.domain.stop)
            passed = ((area << self.suffix_bits | int(place), int(counts[place]) >> shift) for place in places)
            yield rule.decide(
                replace(law.hitter(item, count, tolerance=rule.tolerance), strict=int(count >= strict))
                for item, count in passed
            )

    def find(self, tally: PooledTally, tau: float = 0.0, progress: Progress = quiet) -> list[HeavyHitter]:
        hitters: list[HeavyHitter] = []
        if tally.count:
            for done, in_area in enumerate(self.find_in(tally, tau, range(self.areas)), 1):
                hitters += in_area
                progress(done, self.areas)
        return above(hitters, tau)

    def chance(self, users: int, tau: float) -> Callable[[int], float]:
        law = self.law(users)
        threshold = self.rule(tau).least(law)
        return lambda holders: law.power(holders, threshold)

    def wrong(self, users: int, tau: float) -> float:
        law, rule = self.law(users), self.rule(tau)
        return law.p_value(rule.least(law)) * rule.hypotheses


def open_bucket(
    profile: Profile, plan: NumberingPlan, users: int, seed: bytes, buckets: int
) -> SubspaceAggregator | None:
    """With the best b for the longest window of ``users`` clients. None if that window does not pass the gate.

    The gate: a number that *all* these clients report would be blocked with 90 % power. Where nothing could be blocked,
    a few liars would be most of a bucket. The b is that of the smallest sum of the reports that it takes to warn and
    to block, and best for blocking where the gate asks for that.
    """

    def build(bits: int) -> SubspaceAggregator:
        mechanism = profile.spec.client(profile.epsilon, bits, profile.spec.items.bits(plan))
        return resume(profile, plan, mechanism, buckets)

    own, profile = profile, profile.closing  # the same b in all rounds of a day: they add up best
    rounds, hypotheses = max(profile.windows), build(1).hypotheses
    reports = users * rounds * (100 - profile.hundreds) // 100  # those about numbers
    if not reports:
        return None
    level, lies = profile.share, build(1).over(rounds).tolerance
    for warn_level in dict.fromkeys((profile.warn_share, 0.0)):
        bits = bits_for(reports, profile.epsilon, hypotheses, level, profile.tau, lies, warn_level)
        aggregator = build(max(bits, least_bits(profile.epsilon)))  # clients take part in nothing less
        law, rule = aggregator.law(reports), aggregator.strict_rule(profile.tau).over(range(rounds))
        if law.power(reports, rule.least(law)) >= POWER:
            return resume(own, plan, aggregator.mechanism, buckets)
    return None


def resume(profile: Profile, plan: NumberingPlan, mechanism: Subspace, buckets: int) -> SubspaceAggregator:
    """Whole numbers are one bucket. Their noise is that of all reports, which is the price of this mode."""
    together, areas = (buckets, 1) if profile.bucketed else (1, len(plan.area_codes))
    tiers = (profile.share, together, profile.tolerance, profile.warn_share)
    day = (profile.rounds_per_day, profile.place)
    items = spec_of(mechanism).items if profile.bucketed else SUFFIX
    return SubspaceAggregator(mechanism, items.domain(plan), *tiers, areas, *day)


def few_supports(tally: SparseTally, items: Sequence[int]) -> NDArray[np.int64]:
    places = np.arange(tally.rows.shape[1], dtype=np.uint32)
    counts = np.empty(len(items), dtype=np.int64)
    for place, item in enumerate(items):
        parities = np.bitwise_count(tally.rows & np.uint64(item)).astype(np.uint32) & np.uint32(1)
        hashed = (parities << places).sum(axis=1, dtype=np.uint32)
        counts[place] = np.count_nonzero(hashed == tally.values)
    return counts


# The choice of b. OLH's g = e^ε + 1 minimises the variance of numbers without a holder. What matters here is the
# smallest count that is found with 90 % power: at large ε the holders' own noise c·p(1−p) counts too, and a larger g
# pays.


@lru_cache(maxsize=4096)
def detectable(users: int, epsilon: float, bits: int, hypotheses: int, level: float = 1e-3, tolerance: int = 0) -> int:
    """The smallest number of holders found with 90 % power. users + 1 if all of them are not enough."""
    law = law_of(Subspace(epsilon, bits), users)
    return law.detectable(tolerance + law.without(tolerance).threshold(level, hypotheses), POWER)


@lru_cache(maxsize=4096)
def best_bits(users: int, epsilon: float, hypotheses: int, level: float = 1e-3, tolerance: int = 0) -> int:
    """The b with the smallest detectable count. Among equals the smallest b, since it is the cheapest to send."""
    checks.whole("users", users, 1)
    checks.positive("epsilon", epsilon)

    def count(bits: int) -> int:
        return detectable(users, epsilon, bits, hypotheses, level, tolerance)

    best = min(max(math.ceil(epsilon / math.log(2)), 1), MAX_BITS)
    smallest = count(best)
    for step in (1, -1):
        # A plateau two wide must not stop the walk: counts are whole numbers and often tie.
        bits, stalled = best + step, 0
        while 1 <= bits <= MAX_BITS and stalled < 2:
            here = count(bits)
            if here < smallest or (here == smallest and bits < best):
                best, smallest, stalled = bits, here, 0
            else:
                stalled += 1
            bits += step
    return best


@lru_cache(maxsize=4096)
def bits_for_threshold(users: int, epsilon: float, hypotheses: int, level: float, tau: int, tolerance: int = 0) -> int:
    """The b for a round that lists numbers above τ.

    Where every number above τ is significant anyway, f̂ decides which side of τ a number is on. Then the b with the
    least variance at τ is best, among those that still detect τ. Elsewhere :func:`best_bits`.
    """
    best = best_bits(users, epsilon, hypotheses, level, tolerance=tolerance)

    def finds(bits: int) -> bool:
        return detectable(users, epsilon, bits, hypotheses, level, tolerance) <= tau

    if tau >= users or not finds(best):
        return best

    def variance(bits: int) -> float:
        return law_of(Subspace(epsilon, bits), users).variance(tau)

    for step in (1, -1):
        bits = best + step
        while 1 <= bits <= MAX_BITS and variance(bits) < variance(best) and finds(bits):
            best, bits = bits, bits + step
    return best


def bits_for(
    users: int,
    epsilon: float,
    hypotheses: int,
    level: float = 1e-3,
    tau: int = 0,
    tolerance: int = 0,
    warn_level: float = 0.0,
) -> int:
    """The b for the next size up in steps of 10 %, so that a round of 400 buckets needs a few dozen calculations.

    With a ``warn_level`` of its own: of the b from the best for one tier to the best for the other, that of the
    smallest sum of both tiers' counts.
    """
    checks.whole("users", users, 1)
    size = max(math.ceil(1.1 ** math.ceil(math.log(users) / math.log(1.1) - 1e-9)), users)
    tiers = [(level, tolerance), *([(warn_level, 0)] if warn_level else [])]
    best = [bits_for_threshold(size, epsilon, hypotheses, share, tau, lies) for share, lies in tiers]

    def needed(bits: int) -> int:
        return sum(detectable(size, epsilon, bits, hypotheses, share, lies) for share, lies in tiers)

    return min(range(min(best), max(best) + 1), key=needed)
