"""The decision: whether a number is listed, with what certainty, and whether a bucket can find anything at all.

Every frequency oracle here comes down to one count: C(x), the reports that *support* x. A client that holds x supports
it with probability p, any other with probability q (the hash is pairwise independent), so

    C(x) ~ Binomial(c, p) + Binomial(n − c, q)     for a number held by c of n clients,

and estimate, p-value, interval, threshold and power are computed from that law itself. No estimate is clipped before
the decision: that would amplify poisoning.

A fake supports its victim for sure. So with a *tolerance* f, a number is listed only if it would still be with any f of
its supporting reports removed, C − f among n − f. Then f fakes list nobody more often than noise does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.mechanisms.mechanism import OneResponse
from hushcall.protocol.randomness import ONE

POWER = 0.9
"""The power at which something counts as found, here and in every plan."""


@dataclass(frozen=True, slots=True, order=True)
class HeavyHitter:
    """One number that many clients reported: how many (with an interval), and how likely this is noise.

    The interval covers the true count at its level. *Among listed numbers* those that barely passed the threshold were
    helped by luck, so their estimates run high. The p-value is that of the evidence without the rule's tolerance.
    ``length`` is the number of rounds of the evidence, ``strict`` the fewest rounds that pass the rule of blocking (0:
    none do). ``hinted``: 2 if it was found only because a hint named it, 1 if ``strict`` would be another without.
    """

    item: int
    estimate: float
    low: float
    high: float
    p_value: float
    length: int = 1
    strict: int = 1
    hinted: int = 0
    implausible: bool = False
    """All clients together would hardly make so many supporting reports (:data:`IMPLAUSIBLE`). A sign of forgery."""

    @property
    def clamped(self) -> float:
        """The estimate within its interval, which is bounded by the number of clients."""
        return min(max(self.estimate, self.low), self.high)


IMPLAUSIBLE = 0.003
"""Honest clients do it at most so often, by the exact law, if *every* one holds the number. Otherwise next to never.

Fakes support for sure, honest clients with p, so fakes that are nearly all of a bucket stand out. At ε = 4 it takes 26
supporting reports of 29.
"""


@dataclass(frozen=True, slots=True)
class Support:
    """The law of C(x) among ``reports`` reports: holders support with ``p``, non-holders with ``q``."""

    reports: int
    p: float
    q: float

    def __post_init__(self) -> None:
        checks.whole("reports", self.reports, 0)
        if not 0 < self.q < self.p <= 1:
            raise InvalidParameter("p and q", "obey 0 < q < p ≤ 1", (self.p, self.q))

    def estimate(self, count: float | NDArray[np.float64]) -> float | NDArray[np.float64]:
        """f̂ = (C − nq)/(p − q): unbiased (Wang et al. 2017, equation 2)."""
        return (count - self.reports * self.q) / (self.p - self.q)

    def variance(self, holders: float) -> float:
        """Var f̂ = [c·p(1−p) + (n−c)·q(1−q)]/(p−q)²."""
        p, q = self.p, self.q
        spread = holders * p * (1 - p) + (self.reports - holders) * q * (1 - q)
        return spread / (p - q) ** 2

    def without(self, removed: int) -> Support:
        return Support(max(self.reports - removed, 0), self.p, self.q)

    def p_value(self, count: int) -> float:
        """P(C ≥ count) for a number without a holder: an exact binomial tail."""
        return _binomial_tail(count, self.reports, self.q)

    def tail(self, count: int, holders: int) -> float:
        """P(C ≥ count) for a number with that many holders: the exact convolution of two binomials."""
        if count <= 0:
            return 1.0
        first, mass = self.mass(holders)
        return float(min(1.0, mass[max(count - first, 0) :].sum()))

    def mass(self, holders: int) -> tuple[int, NDArray[np.float64]]:
        """(first count, P(C = first), P(C = first + 1), …), but for 10⁻¹⁶ on either side."""
        first, holder_mass = _mass(holders, self.p)
        second, noise_mass = _mass(self.reports - holders, self.q)
        return first + second, convolved(holder_mass, noise_mass)

    def interval(self, count: int, level: float = 0.95) -> tuple[float, float]:
        """All holder counts that a two-sided test at ``level`` would not reject (exact, by inversion)."""
        checks.probability("level", level)
        side = (1 - level) / 2
        # If not even all clients explain the count, the interval is all of them.
        low = min(_first(lambda c: self.tail(count, c) > side, 0, self.reports), self.reports)
        high = _first(lambda c: 1 - self.tail(count + 1, c) <= side, low, self.reports) - 1
        return float(low), float(min(max(low, high), self.reports))

    def threshold(self, level: float, hypotheses: float) -> int:
        """The smallest C whose p-value, times all the hypotheses tested, is at most ``level`` (Bonferroni)."""
        checks.probability("level", level)
        return _threshold(self.reports, self.q, level / hypotheses)

    def needed(self, tau: float) -> int:
        """The smallest count whose estimate is above τ."""
        return max(math.floor(self.reports * self.q + tau * (self.p - self.q)) + 1, 0)

    def power(self, holders: int, threshold: int) -> float:
        return self.tail(threshold, holders)

    def detectable(self, threshold: int, power: float = 0.9) -> int:
        """The smallest holder count that reaches ``threshold`` with that power. n + 1 if none does."""
        checks.probability("power", power)
        return _first(lambda c: self.power(c, threshold) >= power, 0, self.reports)

    def implausible(self, count: int) -> bool:
        return self.tail(count, self.reports) <= IMPLAUSIBLE

    def hitter(self, item: int, count: int, level: float = 0.95, tolerance: int = 0) -> HeavyHitter:
        low, high = self.interval(count, level)
        evidence = self.without(tolerance).p_value(count - tolerance)
        return HeavyHitter(item, float(self.estimate(count)), low, high, evidence, implausible=self.implausible(count))


def law_of(mechanism: OneResponse, reports: int) -> Support:
    """Holders support their item with the odds of the truth, others with exactly 1/g: 2^−b in a subspace."""
    return Support(reports, mechanism.response.keep / ONE, 1 / mechanism.size)


def _binomial_tail(count: int, trials: int, chance: float) -> float:
    """P(Binomial ≥ count): the regularised incomplete beta function, which keeps its digits where the tail is tiny."""
    if count <= 0:
        return 1.0
    return float(special.betainc(count, trials - count + 1, chance)) if count <= trials else 0.0


@lru_cache(maxsize=1 << 16)
def _threshold(trials: int, chance: float, share: float) -> int:
    return _first(lambda count: _binomial_tail(count, trials, chance) <= share, 0, trials)


def above(hitters: Iterable[HeavyHitter], tau: float) -> list[HeavyHitter]:
    """The paper's decision: f̂ > τ. Largest first, ties by number."""
    return sorted((h for h in hitters if h.estimate > tau), key=lambda h: (-h.estimate, h.item))


def judge(
    law: Support, items: Sequence[int], counts: NDArray[np.int64], tau: float, tolerance: int = 0
) -> list[HeavyHitter]:
    """The candidates with f̂ > τ, tolerance set aside, largest first. Intervals take time, so only these get one."""
    estimates = np.asarray(law.without(tolerance).estimate(counts.astype(np.float64) - tolerance))
    chosen = np.flatnonzero(estimates > tau).tolist()
    return above((law.hitter(items[place], int(counts[place]), tolerance=tolerance) for place in chosen), tau)


class Law(Protocol):
    """The law of a count, of one round or of several, as a rule uses it."""

    def without(self, removed: int) -> Law: ...

    def threshold(self, level: float, hypotheses: float) -> int: ...

    def needed(self, tau: float) -> int: ...


@dataclass(frozen=True, slots=True)
class Rule:
    """What it takes to be listed: significant over all ``hypotheses`` (numbers × buckets), and more than τ reports.

    Both must hold with any ``tolerance`` supporting reports removed. ``rounds_per_day`` and ``place`` are the newest
    round's, as in its profile.
    """

    tau: float = 0.0
    level: float = 1e-3
    hypotheses: int = 1
    tolerance: int = 0
    rounds_per_day: int = 1
    place: int = 0

    def __post_init__(self) -> None:
        checks.probability("level", self.level)
        checks.whole("tolerance", self.tolerance, 0)
        checks.whole("hypotheses", self.hypotheses, 1)
        if not math.isfinite(self.tau):
            raise InvalidParameter("tau", "be a finite number", self.tau)

    def over(self, ages: Iterable[int]) -> Rule:
        """For rounds of these ages together, the newest of age 0. A liar lies on each of their days, in one round."""
        days = {(self.place - age) // self.rounds_per_day for age in ages}
        return replace(self, tolerance=len(days) * self.tolerance)

    def least(self, law: Law) -> int:
        """The smallest C that is listed: significant among all hypotheses (family-wise) and estimated above τ."""
        reduced = law.without(self.tolerance)
        return self.tolerance + max(reduced.threshold(self.level, self.hypotheses), reduced.needed(self.tau))

    def decide(self, hitters: Iterable[HeavyHitter]) -> list[HeavyHitter]:
        return above((h for h in hitters if h.p_value * self.hypotheses <= self.level), self.tau)


def more_than_tau(users: int, tau: int, tolerance: int = 0) -> bool:
    """The gate of histograms (the paper's rule) and rivals: more than τ clients report, liars set aside."""
    checks.whole("users", users, 0)
    checks.whole("tau", tau, 0)
    return users - tolerance > tau


def convolved(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """The law of a sum: directly where that is quick, by Fourier transform where it is not."""
    if len(first) * len(second) < 10**7:
        return np.convolve(first, second)
    from scipy import signal  # slow to import and rarely needed: a server should start at once

    return np.asarray(signal.fftconvolve(first, second))


@lru_cache(maxsize=1 << 12)
def _mass(trials: int, chance: float) -> tuple[int, NDArray[np.float64]]:
    """(first count, the mass from there) of a binomial, but for 10⁻¹⁶ on either side."""
    if trials == 0 or chance >= 1:
        return trials if chance >= 1 else 0, np.ones(1)
    low = int(stats.binom.ppf(1e-16, trials, chance))
    high = int(stats.binom.isf(1e-16, trials, chance))
    mass = np.asarray(stats.binom.pmf(np.arange(low, high + 1), trials, chance), dtype=np.float64)
    mass.flags.writeable = False  # it is cached
    return low, mass


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The first integer of [low, high] from which a monotone condition holds; high + 1 if it never does."""
    end = high + 1
    while low < end:
        middle = (low + end) // 2
        if holds(middle):
            end = middle
        else:
            low = middle + 1
    return low
