"""The server, last step: how many reports support a number comes in, whether to list it leaves, with its certainty.

Every frequency oracle here boils down to one count: C(x), the reports that *support* x. A phone that holds x
supports it with probability p, any other with probability q (the hash is pairwise independent), so

    C(x) ~ Binomial(c, p) + Binomial(n − c, q)     for a number held by c of n phones,

and everything below (estimate, p-value, interval, threshold, power) is computed from that law itself, not from a
normal approximation. No estimate is clipped or renormalised before the decision: that would amplify poisoning.

Some phones lie. A fake supports its victim for sure, so a decision may set aside a *tolerance* f: a number is listed
only if it would still be, with any f of its supporting reports taken away, C − f among n − f. f fakes then list nobody
more often than noise does, whatever they do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from hushcall import checks
from hushcall.errors import InvalidParameter


@dataclass(frozen=True, slots=True, order=True)
class HeavyHitter:
    """One number that many phones reported: how many (with an interval), and how likely this is noise.

    The interval covers the true count at its level whatever that is; *among listed numbers* those that barely passed
    the threshold were helped by luck, so their estimates run high. The p-value is what is left of the evidence once
    the rule's tolerance is set aside; ``length`` is over how many rounds the evidence was gathered.
    """

    item: int
    estimate: float
    low: float
    high: float
    p_value: float
    length: int = 1
    implausible: bool = False
    """Not even all phones together would make so many supporting reports (:data:`IMPLAUSIBLE`). A sign of forgery."""

    @property
    def clamped(self) -> float:
        """The estimate within its interval, which knows that no more phones report a number than take part."""
        return min(max(self.estimate, self.low), self.high)


IMPLAUSIBLE = 0.003
"""Honest phones do it at most so often, by the exact law: if *every* one of them holds the number; else next to never.

Fakes support for sure, honest phones with p: so fakes that are nearly all of a bucket stand out, and others do not. At
ε = 4 it takes 26 supporting reports of 29.
"""


@dataclass(frozen=True, slots=True)
class Support:
    """The law of C(x) among ``reports`` reports: holders support with ``p``, the others with ``q``."""

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

    def without(self, some: int) -> Support:
        """The law of what is left once so many reports are taken away."""
        return Support(max(self.reports - some, 0), self.p, self.q)

    def p_value(self, count: int) -> float:
        """P(C ≥ count) for a number that nobody holds: an exact binomial tail."""
        return _binomial_tail(count, self.reports, self.q)

    def tail(self, count: int, holders: int) -> float:
        """P(C ≥ count) for a number with that many holders: the exact convolution of two binomials."""
        if count <= 0:
            return 1.0
        first, mine = _mass(holders, self.p)
        second, others = _mass(self.reports - holders, self.q)
        mass = _convolved(mine, others)
        return float(min(1.0, mass[max(count - first - second, 0) :].sum()))

    def interval(self, count: int, level: float = 0.95) -> tuple[float, float]:
        """All holder counts that a two-sided test at ``level`` would not reject (exact, by inversion)."""
        checks.probability("level", level)
        side = (1 - level) / 2
        # Where not even all phones explain the count, nothing is left but all of them.
        low = min(_first(lambda c: self.tail(count, c) > side, 0, self.reports), self.reports)
        high = _first(lambda c: 1 - self.tail(count + 1, c) <= side, low, self.reports) - 1
        return float(low), float(min(max(low, high), self.reports))

    def threshold(self, level: float, hypotheses: float) -> int:
        """The smallest C whose p-value, times all the hypotheses tested, is at most ``level`` (Bonferroni)."""
        checks.probability("level", level)
        return _threshold(self.reports, self.q, level / hypotheses)

    def needed(self, tau: float) -> int:
        """The smallest C whose estimate is above τ."""
        return max(math.floor(self.reports * self.q + tau * (self.p - self.q)) + 1, 0)

    def power(self, holders: int, threshold: int) -> float:
        """The chance that a number with that many holders reaches the threshold."""
        return self.tail(threshold, holders)

    def detectable(self, threshold: int, power: float = 0.9) -> int:
        """The smallest holder count that reaches ``threshold`` with that power; n + 1 if none does."""
        checks.probability("power", power)
        return _first(lambda c: self.power(c, threshold) >= power, 0, self.reports)

    def implausible(self, count: int) -> bool:
        """Whether not even all phones together would make so many supporting reports, if they were honest."""
        return self.tail(count, self.reports) <= IMPLAUSIBLE

    def hitter(self, item: int, count: int, level: float = 0.95, tolerance: int = 0) -> HeavyHitter:
        """What we say about one number that ``count`` reports support, ``tolerance`` of which may be lies."""
        low, high = self.interval(count, level)
        evidence = self.without(tolerance).p_value(count - tolerance)
        return HeavyHitter(item, float(self.estimate(count)), low, high, evidence, implausible=self.implausible(count))


def lies_over(rounds: int, tolerance: int) -> int:
    """How many reports a tolerance of f phones sets aside in so many rounds: who lies does so in each of them."""
    return rounds * tolerance


def _binomial_tail(count: int, trials: int, chance: float) -> float:
    """P(Binomial ≥ count): the regularised incomplete beta function, which keeps its digits where the tail is tiny."""
    if count <= 0:
        return 1.0
    return float(special.betainc(count, trials - count + 1, chance)) if count <= trials else 0.0


@lru_cache(maxsize=1 << 16)
def _threshold(trials: int, chance: float, share: float) -> int:
    """The smallest count whose tail is at most ``share``. Rounds ask for the same ones over and over."""
    return _first(lambda count: _binomial_tail(count, trials, chance) <= share, 0, trials)


def above(hitters: Iterable[HeavyHitter], tau: float) -> list[HeavyHitter]:
    """The paper's decision: f̂ > τ. Largest first, ties by number, so that the order is reproducible."""
    return sorted((h for h in hitters if h.estimate > tau), key=lambda h: (-h.estimate, h.item))


def judge(
    law: Support, items: Sequence[int], counts: NDArray[np.int64], tau: float, tolerance: int = 0
) -> list[HeavyHitter]:
    """The candidates with f̂ > τ, tolerance set aside; largest first. Intervals take time, so only these get one."""
    estimates = np.asarray(law.without(tolerance).estimate(counts.astype(np.float64) - tolerance))
    chosen = np.flatnonzero(estimates > tau).tolist()
    return above((law.hitter(items[place], int(counts[place]), tolerance=tolerance) for place in chosen), tau)


class Law(Protocol):
    """What a rule asks of the law of a count, of one round or of several."""

    def without(self, some: int) -> Law:
        """The law of what is left once so many reports are taken away."""

    def threshold(self, level: float, hypotheses: float) -> int:
        """The smallest count that is significant at the level, by the exact tail."""

    def needed(self, tau: float) -> int:
        """The smallest count whose estimate can be above τ."""


class Control(Enum):
    """Which error the significance level bounds."""

    FAMILY_WISE = "family-wise"
    """The chance that *any* number that nobody holds is listed (Bonferroni over all numbers and buckets)."""
    FALSE_DISCOVERY = "fdr"
    """The expected share of such numbers among those listed (Benjamini and Hochberg 1995)."""


_DEEPEST = 10_000


@dataclass(frozen=True, slots=True)
class Rule:
    """What it takes to be listed: significant over all ``hypotheses`` (numbers × buckets), and more than τ reports.

    Both must hold with any ``tolerance`` supporting reports taken away.
    """

    tau: float = 0.0
    level: float = 1e-3
    hypotheses: int = 1
    control: Control = Control.FAMILY_WISE
    tolerance: int = 0

    def __post_init__(self) -> None:
        checks.probability("level", self.level)
        checks.whole("tolerance", self.tolerance, 0)
        checks.whole("hypotheses", self.hypotheses, 1)
        if not math.isfinite(self.tau):
            raise InvalidParameter("tau", "be a finite number", self.tau)

    @property
    def loosest(self) -> float:
        """The largest p-value that could be listed: candidates above it need not be looked at.

        For the false discovery rate this allows ten thousand detections a decision.
        """
        deepest = _DEEPEST if self.control is Control.FALSE_DISCOVERY else 1
        return min(self.level, self.level * deepest / self.hypotheses)

    def over(self, rounds: int) -> Rule:
        """The same rule for what so many rounds hold together."""
        return replace(self, tolerance=lies_over(rounds, self.tolerance))

    def least(self, law: Law) -> int:
        """The smallest C that is listed: significant among all hypotheses (family-wise), and estimated above τ."""
        left = law.without(self.tolerance)
        return self.tolerance + max(left.threshold(self.level, self.hypotheses), left.needed(self.tau))

    def select(self, p_values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which of the candidates are significant, given the p-values of *all* that pass :attr:`loosest`."""
        if self.control is Control.FAMILY_WISE:
            return np.asarray(p_values * self.hypotheses <= self.level)
        order = np.argsort(p_values, kind="stable")
        steps = self.level * np.arange(1, len(p_values) + 1) / self.hypotheses
        passed = np.flatnonzero(p_values[order] <= steps)
        chosen = np.zeros(len(p_values), dtype=np.bool_)
        chosen[order[: passed[-1] + 1 if len(passed) else 0]] = True
        return chosen

    def decide(self, hitters: Iterable[HeavyHitter]) -> list[HeavyHitter]:
        """The ones to list, largest first."""
        all_of_them = list(hitters)
        chosen = self.select(np.array([h.p_value for h in all_of_them], dtype=np.float64))
        return above((h for h, yes in zip(all_of_them, chosen, strict=True) if yes), self.tau)


def _convolved(mine: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """The law of a sum: directly where that is quick, by Fourier transform where it is not."""
    if len(mine) * len(others) < 10**7:
        return np.convolve(mine, others)
    from scipy import signal  # slow to import and rarely needed: a server should start at once

    return np.asarray(signal.fftconvolve(mine, others))


@lru_cache(maxsize=1 << 12)
def _mass(trials: int, chance: float) -> tuple[int, NDArray[np.float64]]:
    """Where a binomial's mass lies, but for 10⁻¹⁶ on either side, and that mass. Searches ask for the same again."""
    if trials == 0 or chance >= 1:
        return trials if chance >= 1 else 0, np.ones(1)
    low = int(stats.binom.ppf(1e-16, trials, chance))
    high = int(stats.binom.isf(1e-16, trials, chance))
    mass = np.asarray(stats.binom.pmf(np.arange(low, high + 1), trials, chance), dtype=np.float64)
    mass.flags.writeable = False  # it is kept
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
