"""Formulas of the paper, its slips, and the tuned randomiser: every number that the text states."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushcall.decoding.planning import smallest_found
from hushcall.mechanisms import randomisers
from hushcall.mechanisms.succinct_histogram import theory
from hushcall.mechanisms.succinct_histogram.client import SuccinctHistogram
from hushcall_lab.proofs.statistics import hard_decoding
from hushcall_lab.study import paper_formulas


def test_epsilon_hh_gives_the_papers_probabilities_for_the_basic_randomiser() -> None:
    """0.95, 0.90, 0.85, 0.80, 0.75 for ε_HH = 12, 8.8, 7, 5.6, 4.4 (T = 2): true of basic, not of extended."""
    kept = [randomisers.basic(Fraction(e) / 4).probabilities[0] for e in (12.0, 8.8, 7.0, 5.6, 4.4)]
    assert [round(p, 2) for p in kept] == [0.95, 0.90, 0.85, 0.80, 0.75]
    extended = [randomisers.extended(Fraction(e) / 4).probabilities[0] for e in (12.0, 8.8, 7.0, 5.6, 4.4)]
    assert [round(p, 2) for p in extended] == [0.91, 0.82, 0.74, 0.67, 0.60]


@given(st.floats(0.1, 6), st.integers(0, 1000))
def test_basic_variance_is_the_papers_equation(epsilon: float, holders: int) -> None:
    c = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    variance = paper_formulas.channel_variance(randomisers.basic(epsilon), 1000, holders)
    assert variance == pytest.approx(1000 * c * c - holders, rel=1e-9)


@given(st.floats(0.1, 6), st.integers(0, 1000))
def test_extended_variance_is_the_papers_equation(epsilon: float, holders: int) -> None:
    t, f = math.exp(epsilon), holders / 1000
    printed = f * 3 / (t - 1) + 2 * (t + 2) / (t - 1) ** 2
    p, q = t / (t + 2), 1 / (t + 2)
    c = 1 / (p - q)
    lemma = f * (c * c * (p + q) - 1) + (1 - f) * 2 * c * c * q
    assert paper_formulas.channel_variance(randomisers.extended(epsilon), 1000, holders) == pytest.approx(
        1000 * lemma, rel=1e-9
    )
    assert printed == pytest.approx(lemma, rel=1e-9)


@given(st.floats(0, 0.95))
def test_the_proposition_holds_with_the_corrected_root(frequency: float) -> None:
    """At the corrected ε both variances are equal; at the printed one they are not."""

    def gap(epsilon: float) -> float:
        basic, extended = randomisers.basic(epsilon), randomisers.extended(epsilon)
        holders = 1000 * frequency
        return paper_formulas.channel_variance(extended, 1000, holders) - paper_formulas.channel_variance(
            basic, 1000, holders
        )

    root = paper_formulas.lower_variance_from(frequency)
    assert gap(root) == pytest.approx(0, abs=1e-6 * paper_formulas.channel_variance(randomisers.basic(root), 1000, 0))
    assert gap(root * 1.05) < 0 < gap(root * 0.95)
    assert paper_formulas.lower_variance_from(frequency, as_printed=True) == pytest.approx(root + math.log(2))


def test_extended_does_not_minimise_the_maximum_that_the_paper_says_it_does() -> None:
    """max{c²(p+q), 2c²θ} is smaller for basic; what extended minimises is the noise of those who hold nothing."""
    for epsilon in (0.5, 1.1, 2.2, 3.0):
        basic, extended = randomisers.basic(epsilon), randomisers.extended(epsilon)

        def terms(r: randomisers.ChannelRandomiser) -> tuple[float, float]:
            p, q, theta = r.probabilities
            return r.scale**2 * (p + q), 2 * r.scale**2 * theta

        assert max(terms(basic)) < max(terms(extended))
        if epsilon > paper_formulas.lower_variance_from(0.0):
            assert terms(extended)[1] < terms(basic)[1]


def test_tuned_variance_is_far_below_extended_at_equal_exact_cost() -> None:
    for budget, tuned_expected, extended_expected in ((12.0, 60, 145), (8.8, 168, 398), (4.4, 1043, 2716)):
        keep = theory.best_keep(Fraction(budget) / 2, 1000, 150)
        tuned = paper_formulas.channel_variance(randomisers.tuned(Fraction(budget) / 2, keep), 1000, 150)
        extended = paper_formulas.channel_variance(randomisers.extended(Fraction(budget) / 4), 1000, 150)
        assert (round(tuned), round(extended)) == (tuned_expected, extended_expected)
        assert extended / tuned > 2.2


@given(st.floats(0.2, 12), st.integers(50, 50_000), st.floats(0, 1))
def test_best_keep_is_a_minimum(epsilon: float, users: int, share: float) -> None:
    tau = users * share / 2
    keep = theory.best_keep(epsilon, users, tau)
    best = paper_formulas.channel_variance(randomisers.tuned(epsilon, keep), users, tau)
    for other in (keep * 99 // 100, keep * 9 // 10):
        assert best <= paper_formulas.channel_variance(randomisers.tuned(epsilon, other), users, tau) * (1 + 1e-6)


def test_bit_sums_is_a_law_with_the_right_moments() -> None:
    randomiser = randomisers.extended(2.2)
    law = theory.bit_sums(randomiser, 300, 150, 32)
    p, q, theta = randomiser.probabilities
    mean = sum((k - 300) * mass for k, mass in enumerate(law))
    assert sum(law) == pytest.approx(1)
    assert mean == pytest.approx(150 * (p - q) / 32)
    square = sum((k - 300) ** 2 * mass for k, mass in enumerate(law)) - mean**2
    expected = 150 * ((p + q) / 32 - ((p - q) / 32) ** 2) + 150 * 2 * theta / 32
    assert square == pytest.approx(expected)


@pytest.mark.slow
def test_predicted_finds_agree_with_the_real_code() -> None:
    """Prediction against 150 runs of real phones; 4 standard errors are 0.15, and bits are not quite independent."""
    for kind, budget in (("extended", 8.8), ("basic", 12.0)):
        mechanism = SuccinctHistogram.with_budget(kind, budget, 3.0, channels=64)
        once = theory.reconstruction_probability(mechanism.randomiser, 300, 150)
        assert hard_decoding(kind, budget, 150).rate == pytest.approx(1 - (1 - once) ** 2, abs=0.15)


def test_more_holders_are_found_more_often() -> None:
    mechanism = SuccinctHistogram.with_budget("extended", 8.8, 3.0, channels=64)
    chances = [theory.found_probability(mechanism, 1000, holders, 143) for holders in (50, 150, 250, 400)]
    assert chances == sorted(chances)
    count = smallest_found(lambda holders: theory.found_probability(mechanism, 1000, holders, 143), 1000)
    assert count is not None
    assert theory.found_probability(mechanism, 1000, count, 143) >= 0.9
    assert theory.found_probability(mechanism, 1000, count - 1, 143) < 0.9
