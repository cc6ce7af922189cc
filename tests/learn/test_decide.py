"""The decision: exact laws against brute force, intervals that cover, and the two kinds of error control."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hushcall.errors import InvalidParameter
from hushcall.learn.decision import Control, HeavyHitter, Rule, Support, above
from hushcall.learn.pooled import PooledSupport


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


def test_intervals_cover_at_their_level() -> None:
    """400 draws: 95 % intervals miss at most 5 %; more than 9 % misses has probability below 10⁻³."""
    law, generator = Support(400, 0.5, 1 / 21), np.random.default_rng(5)
    missed = 0
    for holders in generator.integers(0, 400, 400):
        count = generator.binomial(holders, law.p) + generator.binomial(400 - holders, law.q)
        low, high = law.interval(int(count))
        missed += not low <= holders <= high
    assert missed / 400 < 0.09
    assert missed / 400 > 0.01  # and they are not so wide as to say nothing


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
    assert rule.loosest == pytest.approx(1e-5)


@given(st.lists(st.floats(0, 0.02), max_size=40), st.integers(1, 200))
def test_fdr_control_is_benjamini_hochberg(p_values: list[float], more: int) -> None:
    """Against the textbook definition: the largest k with p_(k) ≤ k·level/m, and everything up to it."""
    total = len(p_values) + more
    rule = Rule(level=0.05, hypotheses=total, control=Control.FALSE_DISCOVERY)
    ordered = sorted(p_values)
    last = max((k for k, p in enumerate(ordered, 1) if p <= k * 0.05 / total), default=0)
    chosen = rule.select(np.array(p_values))
    assert int(chosen.sum()) == last
    assert sorted(np.array(p_values)[chosen]) == ordered[:last]


def test_fdr_keeps_its_promise() -> None:
    """40 true and 960 null p-values, 400 times: the mean share of wrong ones stays at or below the level."""
    generator, shares = np.random.default_rng(7), []
    rule = Rule(level=0.1, hypotheses=1000, control=Control.FALSE_DISCOVERY)
    for _ in range(400):
        p_values = np.concatenate([generator.uniform(0, 1e-4, 40), generator.uniform(0, 1, 960)])
        chosen = rule.select(p_values)
        shares.append(chosen[40:].sum() / max(chosen.sum(), 1))
    assert np.mean(shares) <= 0.1 + 4 * np.std(shares) / 20
    assert np.mean(shares) > 0.05  # with power: it is not simply refusing everything


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
