"""The decision: exact laws against brute force, intervals that cover, and the two kinds of error control."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hushcall.decoding.pooled import PooledSupport
from hushcall.errors import InvalidParameter
from hushcall.mechanisms.decision import HeavyHitter, Rule, Support, above


def brute_tail(law: Support, count: int, holders: int) -> float:
    """P(C ≥ count) by summing over every pair."""
    return sum(
        float(stats.binom.pmf(a, holders, law.p) * stats.binom.pmf(b, law.reports - holders, law.q))
        for a in range(holders + 1)
        for b in range(law.reports - holders + 1)
        if a + b >= count
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 30), st.integers(0, 30), st.integers(0, 31), st.floats(0.3, 0.99), st.floats(0.01, 0.29))
def test_tail_is_the_convolution(reports: int, holders: int, count: int, p: float, q: float) -> None:
    law = Support(reports, p, q)
    holders = min(holders, reports)
    assert law.tail(count, holders) == pytest.approx(brute_tail(law, count, holders), abs=1e-12)
    assert law.p_value(count) == pytest.approx(brute_tail(law, count, 0), rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(10, 5000), st.sampled_from([0.5, 0.125, 1 / 64]), st.sampled_from([1e-3, 0.05]))
def test_threshold_is_the_smallest_that_keeps_the_level(reports: int, q: float, level: float) -> None:
    law = Support(reports, 0.9, q)
    threshold = law.threshold(level, 10**7)
    assert law.p_value(threshold) * 10**7 <= level
    assert threshold == 0 or law.p_value(threshold - 1) * 10**7 > level


def test_detectable_is_the_smallest_count_with_the_power() -> None:
    law = Support(1000, 0.3, 1 / 32)
    threshold = law.threshold(1e-3, 10**7)
    count = law.detectable(threshold)
    assert law.power(count, threshold) >= 0.9 > law.power(count - 1, threshold)
    assert Support(5, 0.5, 0.4).detectable(100) == 6  # no count would do: n + 1


@pytest.mark.parametrize("law", [Support(60, 0.5, 1 / 21), Support(40, 0.9, 1 / 2), Support(90, 0.3, 1 / 16)])
def test_intervals_cover_at_their_level(law: Support) -> None:
    """For every number of holders, by the exact law: either edge misses with 2.5 % at most."""
    edges = [law.interval(count) for count in range(law.reports + 1)]
    beyond = []
    for holders in range(law.reports + 1):
        first, mass = law.mass(holders)
        laid = list(zip(edges[first : first + len(mass)], mass, strict=True))
        missed = [sum(chance for (low, _), chance in laid if holders < low)]
        missed.append(sum(chance for (_, high), chance in laid if high < holders))
        assert max(missed) <= 0.025 + 1e-12
        beyond += missed
    assert max(beyond) > 0.02  # and they are not so wide as to say nothing


def test_a_count_that_nothing_explains_has_the_nearest_interval() -> None:
    law = Support(200, 0.9, 1 / 2)
    assert [law.interval(count) for count in (60, 200)] == [(0, 0), (200, 200)]


def test_estimate_is_unbiased_and_variance_is_right() -> None:
    law, generator = Support(500, 0.4, 1 / 16), np.random.default_rng(6)
    counts = generator.binomial(120, law.p, 200_000) + generator.binomial(380, law.q, 200_000)
    estimates = np.asarray(law.estimate(counts.astype(np.float64)))
    assert abs(estimates.mean() - 120) < 4 * math.sqrt(law.variance(120) / 200_000)
    assert estimates.var() == pytest.approx(law.variance(120), rel=0.02)


def hitter(item: int, estimate: float, p_value: float) -> HeavyHitter:
    return HeavyHitter(item, estimate, 0, 0, p_value)


def test_family_wise_control_is_bonferroni() -> None:
    rule = Rule(tau=10, level=0.01, hypotheses=1000)
    chosen = rule.decide([hitter(1, 50, 1e-5), hitter(2, 50, 1.1e-5), hitter(3, 9, 1e-9)])
    assert [h.item for h in chosen] == [1]


def test_largest_first_ties_by_number() -> None:
    assert [h.item for h in above([hitter(9, 20, 0), hitter(4, 20, 0), hitter(1, 30, 0), hitter(2, 5, 0)], 5)] == [
        1,
        4,
        9,
    ]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 25), st.sampled_from([0.5, 0.25, 0.125])), min_size=1, max_size=3))
def test_pooled_p_values_are_the_convolution(parts: list[tuple[int, float]]) -> None:
    law = PooledSupport(tuple(Support(n, 0.9, q) for n, q in parts))
    mass = np.ones(1)
    for n, q in parts:
        mass = np.convolve(mass, stats.binom.pmf(np.arange(n + 1), n, q))
    for count in range(len(mass) + 2):
        assert law.p_value(count) == pytest.approx(mass[count:].sum(), rel=1e-9, abs=1e-300)
    threshold = law.threshold(0.01, 1)
    assert law.p_value(threshold) <= 0.01
    assert threshold == 0 or law.p_value(threshold - 1) > 0.01


def test_pooled_of_equal_days_is_one_long_day() -> None:
    week = PooledSupport(tuple(Support(3000, 0.2, 1 / 64) for _ in range(7)))
    long = Support(21_000, 0.2, 1 / 64)
    for count in (300, 400, 450, 500):
        assert week.p_value(count) == pytest.approx(long.p_value(count), rel=1e-8)
    assert week.threshold(1e-3, 10**7) == long.threshold(1e-3, 10**7)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Support(10, 0.1, 0.5),
        lambda: Support(-1, 0.5, 0.1),
        lambda: Support(10, 0.5, 0.1).interval(3, 1.0),
        lambda: Support(10, 0.5, 0.1).detectable(3, 0.0),
        lambda: Rule(level=0),
        lambda: Rule(hypotheses=0),
        lambda: Rule(tau=math.nan),
    ],
)
def test_bad_input_is_refused(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidParameter):
        call()
