"""The server, over several days: their tallies come in, numbers that stay under every daily threshold leave.

One decision on the sum of the days' support counts, C = Σ_d C_d. A number that nobody holds has C ~ Σ_d Binomial(n_d,
2^−b_d), whose tail is computed exactly by convolution; days with different b are no obstacle. The plain sum is close to
the best weighting: a supporting report is p/q ≈ e^ε times likelier from a holder on every day, whatever b was. Days
with equal parameters are merged first, so a week costs one transform per distinct b.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from hushcall.errors import InvalidParameter
from hushcall.learn import walsh
from hushcall.learn.decision import HeavyHitter, Rule, Support
from hushcall.learn.subspace import SparseTally, SubspaceLearner

Day = tuple[SubspaceLearner, SparseTally]


@dataclass(frozen=True)
class PooledSupport:
    """The law of the sum of several days' counts."""

    parts: tuple[Support, ...]

    @cached_property
    def _null(self) -> tuple[int, NDArray[np.float64]]:
        """(first count, P(C ≥ first), P(C ≥ first + 1), …) of a number that nobody holds."""
        start, mass = 0, np.ones(1)
        for part in self.parts:
            mean = part.reports * part.q
            reach = 16 * math.sqrt(mean * (1 - part.q)) + 80  # beyond it lies less than 10⁻⁴⁰
            low, high = max(int(mean - reach), 0), min(int(mean + reach), part.reports)
            here = np.asarray(stats.binom.pmf(np.arange(low, high + 1), part.reports, part.q))
            # Direct, not by Fourier: every term is positive, so even a tail of 10⁻³⁰ keeps its digits.
            start, mass = start + low, np.convolve(mass, here)
        return start, np.cumsum(mass[::-1])[::-1]

    def p_value(self, count: int) -> float:
        """P(C ≥ count) for a number that nobody holds, exactly."""
        start, tails = self._null
        return float(min(tails[count - start], 1.0)) if start <= count < start + len(tails) else float(count < start)

    def threshold(self, level: float, hypotheses: float) -> int:
        """The smallest C whose p-value, times all the hypotheses tested, is at most ``level``."""
        start, tails = self._null
        return start + int(np.count_nonzero(tails > level / hypotheses))


def merge_days(days: Iterable[Day]) -> list[Day]:
    """Days with equal parameters, added up."""
    groups: dict[bytes, list[Day]] = {}
    for learner, tally in days:
        groups.setdefault(learner.made_by, []).append((learner, tally))
    return [(group[0][0], reduce(SparseTally.merge, (tally for _, tally in group))) for group in groups.values()]


def find_in_window(days: Sequence[Day], tau: float = 0.0, level: float = 1e-3, buckets: int = 1) -> list[HeavyHitter]:
    """Every number whose reports over all the days are significant, and more than τ in all; largest first.

    The interval is at 95 %: exact where all days share their parameters, from the normal law of the sum of estimates
    otherwise.
    """
    merged = [(learner, tally) for learner, tally in merge_days(days) if tally.count]
    if not merged:
        return []
    domains = {(learner.domain, learner.mechanism.item_bits) for learner, _ in merged}
    if len(domains) > 1:
        raise InvalidParameter("days", "share one domain", f"{len(domains)} domains")
    domain, _ = domains.pop()
    rule = Rule(tau, level, len(domain) * buckets)
    law = PooledSupport(tuple(learner.law(tally.count) for learner, tally in merged))
    counts = merged[0][0].support(merged[0][1])
    for learner, tally in merged[1:]:
        counts += learner.support(tally)
    items = walsh.at_least(counts, law.threshold(level, rule.hypotheses), domain.start, domain.stop)
    return rule.decide(_hitter(int(item), int(counts[item]), law, merged) for item in items)


def _hitter(item: int, count: int, law: PooledSupport, merged: list[Day]) -> HeavyHitter:
    if len(merged) == 1:
        return law.parts[0].hitter(item, count)
    parts = [
        (part, float(learner.estimate(tally, [item])[0]))
        for part, (learner, tally) in zip(law.parts, merged, strict=True)
    ]
    estimate = sum(each for _, each in parts)
    spread = 1.96 * math.sqrt(sum(part.variance(min(max(each, 0.0), part.reports)) for part, each in parts))
    return HeavyHitter(item, estimate, max(estimate - spread, 0.0), estimate + spread, law.p_value(count))
