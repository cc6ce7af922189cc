"""U_{l,n}, η and K: the paper's own figures, an exact rational reference, and bad input."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushcall.errors import InvalidParameter
from hushcall.mechanisms import decision
from hushcall.mechanisms.succinct_histogram import theory
from hushcall_lab.study import paper_formulas


def exact_fill(bins: int, balls: int) -> Fraction:
    """The inclusion-exclusion sum in whole numbers."""
    ways = sum((-1) ** j * math.comb(bins, j) * (bins - j) ** balls for j in range(bins + 1))
    return Fraction(ways, bins**balls)


@given(st.integers(1, 40), st.integers(0, 300))
def test_fill_probability_is_right_to_the_last_digits(bins: int, balls: int) -> None:
    assert theory.fill_probability(bins, balls) == pytest.approx(float(exact_fill(bins, balls)), rel=1e-14, abs=0)


def test_the_work_does_not_grow_with_the_balls() -> None:
    """Whoever threw them one by one would not come back from this."""
    assert theory.fill_probability(32, 10**15) == 1.0


def smallest_count(bins: int, probability: float) -> int:
    """The smallest n with U_{l,n} ≥ probability."""
    return next(count for count in range(bins, 1000) if theory.fill_probability(bins, count) >= probability)


def nearest_count(bins: int, probability: float) -> int:
    """The n whose U_{l,n} lies nearest to probability: how the paper's list of τ was rounded."""
    above = smallest_count(bins, probability)
    return min((above, above - 1), key=lambda count: abs(theory.fill_probability(bins, count) - probability))


def test_the_papers_tau_list_is_u_with_31_bins() -> None:
    assert [nearest_count(31, p / 100) for p in (75, 80, 85, 90, 95)] == [143, 151, 161, 174, 195]
    # With 24 or 32 bins it would be other lists: the paper's own text does not say which l it used.
    assert [nearest_count(24, p / 100) for p in (75, 80, 85, 90, 95)] != [143, 151, 161, 174, 195]
    assert [nearest_count(32, p / 100) for p in (75, 80, 85, 90, 95)] != [143, 151, 161, 174, 195]


def test_a_repaired_bit_does_not_explain_the_papers_tau() -> None:
    """143 reports fill at least 31 of 32 bins with 0.958, not with 0.75."""
    all_but_one = 32 * Fraction(31, 32) ** 143 * exact_fill(31, 143)
    assert float(exact_fill(32, 143) + all_but_one) == pytest.approx(0.958, abs=5e-4)
    assert theory.fill_probability(31, 143) == pytest.approx(0.746, abs=5e-4)


def test_the_papers_other_counts() -> None:
    assert smallest_count(24, 0.80) == 111
    assert smallest_count(34, 0.80) == 170
    assert theory.fill_probability(24, 84) < 0.5 < theory.fill_probability(24, 85)
    assert round(1 - 111 / 170, 3) == 0.347  # "about a 34.7 % reduction"


def test_the_papers_eta() -> None:
    eta = paper_formulas.eta(epsilon=15, beta=0.751, rounds=2, domain=10**7, users=1000)
    assert round(eta, 3) == 0.023
    assert math.ceil(eta * 1000) == 23


@given(st.integers(0, 10**6), st.integers(1, 1000), st.integers(1, 4))
def test_k_is_the_smallest_power_of_two_that_keeps_pairs_apart(users: int, tau: int, rounds: int) -> None:
    channels = theory.channels_for(users, tau, rounds)
    most = users // tau
    pairs = most * (most - 1) // 2
    assert pairs == 0 or pairs < 0.05 * channels**rounds
    assert channels == 1 or pairs >= 0.05 * (channels // 2) ** rounds


def test_only_buckets_above_tau_run() -> None:
    assert [decision.more_than_tau(users, 143) for users in (143, 144, 0)] == [False, True, False]


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: theory.fill_probability(0, 5), "bins"),
        (lambda: theory.fill_probability(5, -1), "balls"),
        (lambda: paper_formulas.eta(0, 0.5, 2, 10, 10), "epsilon"),
        (lambda: paper_formulas.eta(1, 0.5, 0, 10, 10), "T"),
        (lambda: paper_formulas.eta(1, 1.5, 2, 10, 10), "beta"),
        (lambda: theory.channels_for(-1, 143), "users"),
        (lambda: theory.channels_for(10, 0), "tau"),
        (lambda: theory.channels_for(10, 143, 0), "T"),
        (lambda: decision.more_than_tau(-1, 143), "users"),
    ],
)
def test_bad_input_names_the_field(call, field) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidParameter) as caught:
        call()
    assert caught.value.field == field
