"""The exact distribution of several rounds' counts together: thresholds, p-values, intervals.

C = Σ C_d. A number that nobody holds has C ~ Σ Binomial(n_d, q_d), whose tail is computed exactly by convolution:
rounds with different b are no obstacle. Counts are summed as they are, whatever b was. Rounds with equal p and q
are one binomial.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from hushcall.mechanisms.decision import IMPLAUSIBLE, HeavyHitter, Rule, Support, convolved

Trials: TypeAlias = tuple[tuple[int, float], ...]
"""(how many, with which chance) of independent trials."""
LATTICE = 64
"""Steps in a standard deviation of an estimate, on which its law is computed. A step is at least a quarter report."""


@dataclass(frozen=True)
class PooledSupport:
    """The distribution of the sum of several rounds' counts: one part for each pair (p, q)."""

    parts: tuple[Support, ...]

    @classmethod
    def of(cls, laws: Iterable[Support]) -> PooledSupport:
        """Rounds with equal p and q are added up. The smallest q is first: its reports are the strongest evidence."""
        sizes: dict[tuple[float, float], int] = {}
        for law in laws:
            sizes[law.q, law.p] = sizes.get((law.q, law.p), 0) + law.reports
        return cls(tuple(Support(n, p, q) for (q, p), n in sorted(sizes.items())))

    @property
    def reports(self) -> int:
        return sum(part.reports for part in self.parts)

    def without(self, some: int) -> PooledSupport:
        """The law once so many reports are taken away, in the worst way for a number: those with the smallest q."""
        parts = []
        for part in self.parts:
            removed = min(some, part.reports)
            some -= removed
            parts.append(part.without(removed))
        return PooledSupport(tuple(parts))

    @property
    def _noise(self) -> Trials:
        return tuple((part.reports, part.q) for part in self.parts)

    def p_value(self, count: int) -> float:
        return self.parts[0].p_value(count) if len(self.parts) == 1 else _tail(self._noise, count)

    def threshold(self, level: float, hypotheses: float) -> int:
        if len(self.parts) == 1:
            return self.parts[0].threshold(level, hypotheses)
        start, tails = _tails(self._noise)
        return start + int(np.count_nonzero(tails > level / hypotheses))

    def needed(self, tau: float) -> int:
        """A count below which no estimate is above τ. With one part, the smallest whose estimate is."""
        weight = min(part.p - part.q for part in self.parts)
        noise = sum(part.reports * part.q / (part.p - part.q) for part in self.parts)
        return max(math.floor((tau + noise) * weight) + 1, 0)

    def implausible(self, count: int) -> bool:
        return _tail(tuple((part.reports, part.p) for part in self.parts), count) <= IMPLAUSIBLE

    def estimate(self, counts: Sequence[int]) -> float:
        return sum(float(part.estimate(count)) for part, count in zip(self.parts, counts, strict=True))

    def least_estimate(self, counts: Sequence[int], some: int) -> float:
        """A lower bound of the estimate once any ``some`` supporting reports are taken away."""
        heaviest = max((1 - part.q) / (part.p - part.q) for part in self.parts)
        return self.estimate(counts) - some * heaviest

    def hitter(self, item: int, counts: Sequence[int], tolerance: int) -> HeavyHitter:
        if len(self.parts) == 1:
            return self.parts[0].hitter(item, counts[0], tolerance=tolerance)
        estimate, total = self.estimate(counts), sum(counts)
        low, high = _interval(self.parts, estimate)
        evidence = self.without(tolerance).p_value(total - tolerance)
        return HeavyHitter(item, estimate, low, high, evidence, implausible=self.implausible(total))


@dataclass(frozen=True)
class Span:
    """One decision: the rounds of one length added up, and the rule for them. ``length`` is in rounds.

    ``strict``: what it lists may be blocked. ``among``: the items that it is about, None where it is about all.
    """

    length: int
    law: PooledSupport
    rule: Rule
    strict: bool = True
    among: frozenset[int] | None = None
    hinted: bool = False

    @cached_property
    def least(self) -> int:
        return self.rule.least(self.law)

    def lists(self, counts: Sequence[int]) -> bool:
        if sum(counts) < self.least:
            return False
        return len(counts) == 1 or self.law.least_estimate(counts, self.rule.tolerance) > self.rule.tau

    def hitter(self, item: int, counts: Sequence[int]) -> HeavyHitter:
        return replace(self.law.hitter(item, counts, self.rule.tolerance), length=self.length)


@lru_cache(maxsize=1 << 12)
def _interval(parts: tuple[Support, ...], estimate: float) -> tuple[float, float]:
    """All holder counts that a two-sided test of the estimate (at 95 %) would not reject, by inversion of its law.

    Its mean is the number of holders, whatever the rounds in which they reported. Its spread is not, so a count is
    rejected only if it is for every extreme split of the holders over the parts.
    """
    side, reports = (1 - 0.95) / 2, sum(part.reports for part in parts)
    spread = math.sqrt(sum(part.variance(0) for part in parts))
    step = max(spread / LATTICE, 1 / 4)
    guess, first = min(max(round(estimate), 0), reports), max(round(1.5 * spread), 1)

    def accepted(holders: int, *, above: bool) -> bool:
        return any(
            _beyond(parts, split, estimate, step, above=above) > side for split in _extreme_splits(parts, holders)
        )

    low = guess - _reach(lambda distance: accepted(guess - distance, above=True), first, guess)
    high = guess + _reach(lambda distance: accepted(guess + distance, above=False), first, reports - guess)
    return float(low), float(high)


def _reach(accepted: Callable[[int], bool], first: int, most: int) -> int:
    """The largest distance up to ``most`` that is accepted, where nearer ones are too. ``first`` is tried first."""
    low, high = 0, min(first, most)
    while high < most and accepted(high):
        low, high = high, min(2 * high, most)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if accepted(middle) else (low, middle - 1)
    return low


def _extreme_splits(parts: Sequence[Support], holders: int) -> Iterator[tuple[int, ...]]:
    """For each part, the split that fills it first and then the others in their order."""
    for first in range(len(parts)):
        left, split = holders, [0] * len(parts)
        for place in (first, *(place for place in range(len(parts)) if place != first)):
            split[place] = min(left, parts[place].reports)
            left -= split[place]
        yield tuple(split)


def _beyond(parts: Sequence[Support], split: Sequence[int], estimate: float, step: float, *, above: bool) -> float:
    """An upper bound of P(estimate ≥ this one), or ≤, with so many holders in each part, which is rounded to a step."""
    start, mass = 0, np.ones(1)
    for part, holders in zip(parts, split, strict=True):
        first, chances = part.mass(holders)
        counts = np.arange(first, first + len(chances))
        places = np.floor(np.asarray(part.estimate(counts.astype(np.float64))) / step).astype(np.int64)
        here = np.bincount(places - places[0], weights=chances).astype(np.float64)
        start, mass = start + int(places[0]), convolved(mass, here)
    limit = math.floor(estimate / step) - start
    if above:
        return float(mass[max(limit - len(parts), 0) :].sum())
    return float(mass[: max(limit + 1, 0)].sum())


def _tail(trials: Trials, count: int) -> float:
    start, tails = _tails(trials)
    return float(min(tails[count - start], 1.0)) if start <= count < start + len(tails) else float(count < start)


@lru_cache(maxsize=1 << 12)
def _tails(trials: Trials) -> tuple[int, NDArray[np.float64]]:
    start, mass = 0, np.ones(1)
    for count, chance in trials:
        mean = count * chance
        reach = 16 * math.sqrt(mean * (1 - chance)) + 80  # beyond it lies less than 10⁻⁴⁰
        low, high = max(int(mean - reach), 0), min(int(mean + reach), count)
        here = np.asarray(stats.binom.pmf(np.arange(low, high + 1), count, chance))
        # Direct, not by Fourier: every term is positive, so even a tail of 10⁻³⁰ keeps its digits.
        start, mass = start + low, np.convolve(mass, here)
    return start, np.cumsum(mass[::-1])[::-1]
