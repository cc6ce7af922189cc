"""What the counts of several rounds say together: their laws come in, thresholds, p-values and verdicts leave.

C = Σ C_d. A number that nobody holds has C ~ Σ Binomial(n_d, q_d), whose tail is computed exactly by convolution:
rounds with different b are no obstacle. The plain sum is close to the best weighting: a supporting report is p/q ≈ e^ε
times likelier from a holder in every round, whatever b was. Rounds with equal odds are one binomial.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from hushcall.learn.decision import IMPLAUSIBLE, HeavyHitter, Rule, Support

Trials: TypeAlias = tuple[tuple[int, float], ...]
"""(how many, with which chance) of independent trials."""
_SIDES = 1.96  # of a normal law, at 95 %


@dataclass(frozen=True)
class PooledSupport:
    """The law of the sum of several rounds' counts. :meth:`of` makes it: one part for each pair of odds."""

    parts: tuple[Support, ...]

    @classmethod
    def of(cls, laws: Iterable[Support]) -> PooledSupport:
        """Rounds with equal odds added up; the smallest q first, which is the order in which lies weigh."""
        sizes: dict[tuple[float, float], int] = {}
        for law in laws:
            sizes[law.q, law.p] = sizes.get((law.q, law.p), 0) + law.reports
        return cls(tuple(Support(n, p, q) for (q, p), n in sorted(sizes.items())))

    @property
    def reports(self) -> int:
        """Reports n over all rounds of the window: the size that the pooled law has."""
        return sum(part.reports for part in self.parts)

    def without(self, some: int) -> PooledSupport:
        """The law once so many reports are taken away, in the worst way for a number: those that noise seldom makes.

        What is left has the largest tail that any choice of them leaves, because a trial with a larger q is likelier to
        succeed.
        """
        left = []
        for part in self.parts:
            taken = min(some, part.reports)
            some -= taken
            left.append(part.without(taken))
        return PooledSupport(tuple(left))

    @property
    def _noise(self) -> Trials:
        return tuple((part.reports, part.q) for part in self.parts)

    def p_value(self, count: int) -> float:
        """P(C ≥ count) for a number that nobody holds, exactly."""
        if len(self.parts) == 1:
            return self.parts[0].p_value(count)
        return _tail(self._noise, count)

    def threshold(self, level: float, hypotheses: float) -> int:
        """The smallest C whose p-value, times all the hypotheses tested, is at most ``level``."""
        if len(self.parts) == 1:
            return self.parts[0].threshold(level, hypotheses)
        start, tails = _tails(self._noise)
        return start + int(np.count_nonzero(tails > level / hypotheses))

    def needed(self, tau: float) -> int:
        """A count below which no estimate is above τ; with one pair of odds, the smallest whose estimate is."""
        weight = min(part.p - part.q for part in self.parts)
        noise = sum(part.reports * part.q / (part.p - part.q) for part in self.parts)
        return max(math.floor((tau + noise) * weight) + 1, 0)

    def implausible(self, count: int) -> bool:
        """Whether not even all phones of all rounds would make so many supporting reports, if they were honest."""
        return _tail(tuple((part.reports, part.p) for part in self.parts), count) <= IMPLAUSIBLE

    def estimate(self, counts: Sequence[int]) -> float:
        """Σ f̂_d, from the counts of each part."""
        return sum(float(part.estimate(count)) for part, count in zip(self.parts, counts, strict=True))

    def least_estimate(self, counts: Sequence[int], some: int) -> float:
        """What the estimate is at least, once any so many supporting reports are taken away."""
        heaviest = max((1 - part.q) / (part.p - part.q) for part in self.parts)
        return self.estimate(counts) - some * heaviest

    def hitter(self, item: int, counts: Sequence[int], tolerance: int) -> HeavyHitter:
        """Estimate, interval and p-value. The interval is exact where all rounds share their odds.

        Otherwise it is that of a normal law: which of the rounds a holder reported in is not known.
        """
        if len(self.parts) == 1:
            return self.parts[0].hitter(item, counts[0], tolerance=tolerance)
        estimate, total, variance = self.estimate(counts), sum(counts), 0.0
        for part, count in zip(self.parts, counts, strict=True):
            variance += part.variance(min(max(float(part.estimate(count)), 0.0), part.reports))
        reach, most = _SIDES * math.sqrt(variance), float(self.reports)
        low, high = (min(max(edge, 0.0), most) for edge in (estimate - reach, estimate + reach))
        evidence = self.without(tolerance).p_value(total - tolerance)
        return HeavyHitter(item, estimate, low, high, evidence, implausible=self.implausible(total))


@dataclass(frozen=True)
class Span:
    """One decision: the rounds of one length added up, and the rule for them."""

    length: int
    law: PooledSupport
    rule: Rule

    @cached_property
    def least(self) -> int:
        """No smaller C is listed."""
        return self.rule.least(self.law)

    @property
    def noise(self) -> float:
        """The chance that a number that nobody holds gets that far."""
        return self.law.p_value(self.least)

    def lists(self, counts: Sequence[int]) -> bool:
        """Whether a number is listed that so many reports of each part of the law support."""
        if sum(counts) < self.least:
            return False
        return len(counts) == 1 or self.law.least_estimate(counts, self.rule.tolerance) > self.rule.tau

    def verdict(self, item: int, counts: Sequence[int]) -> HeavyHitter | None:
        """What is said about a number that so many reports of each part of the law support; None: not listed."""
        if not self.lists(counts):
            return None
        return replace(self.law.hitter(item, counts, self.rule.tolerance), length=self.length)


def _tail(trials: Trials, count: int) -> float:
    start, tails = _tails(trials)
    return float(min(tails[count - start], 1.0)) if start <= count < start + len(tails) else float(count < start)


@lru_cache(maxsize=1 << 12)
def _tails(trials: Trials) -> tuple[int, NDArray[np.float64]]:
    """(first count, P(C ≥ first), P(C ≥ first + 1), …)."""
    start, mass = 0, np.ones(1)
    for count, chance in trials:
        mean = count * chance
        reach = 16 * math.sqrt(mean * (1 - chance)) + 80  # beyond it lies less than 10⁻⁴⁰
        low, high = max(int(mean - reach), 0), min(int(mean + reach), count)
        here = np.asarray(stats.binom.pmf(np.arange(low, high + 1), count, chance))
        # Direct, not by Fourier: every term is positive, so even a tail of 10⁻³⁰ keeps its digits.
        start, mass = start + low, np.convolve(mass, here)
    return start, np.cumsum(mass[::-1])[::-1]
