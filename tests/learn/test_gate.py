"""U_{l,n}, η and K: the paper's own figures, an exact rational reference, and bad input."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushcall.errors import InvalidParameter
from hushcall.learn import gate, occupancy


def exact_fill(bins: int, balls: int) -> Fraction:
    """The inclusion-exclusion sum in whole numbers."""
    ways = sum((-1) ** j * math.comb(bins, j) * (bins - j) ** balls for j in range(bins + 1))
    return Fraction(ways, bins**balls)


@given(st.integers(1, 40), st.integers(0, 300))
def test_fill_probability_is_right_to_the_last_digits(bins: int, balls: int) -> None:
    assert occupancy.fill_probability(bins, balls) == pytest.approx(float(exact_fill(bins, balls)), rel=1e-14, abs=0)


@given(st.integers(1, 12), st.integers(1, 60))
def test_filled_bins_is_a_distribution(bins: int, balls: int) -> None:
    law = occupancy.filled_bins(bins, balls)
    assert sum(law) == pytest.approx(1, rel=1e-12)
    assert law[bins] == occupancy.fill_probability(bins, balls)


def test_the_work_does_not_grow_with_the_balls() -> None:
    """Whoever threw them one by one would not come back from this."""
    assert occupancy.fill_probability(32, 10**15) == 1.0


def test_the_papers_tau_list_is_u_with_31_bins() -> None:
    assert [occupancy.nearest_count(31, p / 100) for p in (75, 80, 85, 90, 95)] == [143, 151, 161, 174, 195]
    # With 24 or 32 bins it would be other lists: the paper's own text does not say which l it used.
    assert [occupancy.nearest_count(24, p / 100) for p in (75, 80, 85, 90, 95)] != [143, 151, 161, 174, 195]
    assert [occupancy.nearest_count(32, p / 100) for p in (75, 80, 85, 90, 95)] != [143, 151, 161, 174, 195]


def test_the_papers_other_counts() -> None:
    assert occupancy.smallest_count(24, 0.80) == 111
    assert occupancy.smallest_count(34, 0.80) == 170
    assert occupancy.fill_probability(24, 84) < 0.5 < occupancy.fill_probability(24, 85)
    assert round(1 - 111 / 170, 3) == 0.347  # "about a 34.7 % reduction"


def test_the_papers_eta() -> None:
    eta = occupancy.eta(epsilon=15, beta=0.751, rounds=2, domain=10**7, users=1000)
    assert round(eta, 3) == 0.023
    assert math.ceil(eta * 1000) == 23


@given(st.integers(0, 10**6), st.integers(1, 1000), st.integers(1, 4))
def test_k_is_the_smallest_power_of_two_that_keeps_pairs_apart(users: int, tau: int, rounds: int) -> None:
    channels = occupancy.channels_for(users, tau, rounds)
    most = users // tau
    pairs = most * (most - 1) // 2
    assert pairs == 0 or pairs < 0.05 * channels**rounds
    assert channels == 1 or pairs >= 0.05 * (channels // 2) ** rounds


def test_only_buckets_above_tau_run() -> None:
    assert [gate.more_than_tau(users, 143) for users in (143, 144, 0)] == [False, True, False]


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: occupancy.fill_probability(0, 5), "bins"),
        (lambda: occupancy.fill_probability(5, -1), "balls"),
        (lambda: occupancy.smallest_count(5, 1.0), "probability"),
        (lambda: occupancy.smallest_count(5, math.nan), "probability"),
        (lambda: occupancy.eta(0, 0.5, 2, 10, 10), "epsilon"),
        (lambda: occupancy.eta(1, 0.5, 0, 10, 10), "T"),
        (lambda: occupancy.eta(1, 1.5, 2, 10, 10), "beta"),
        (lambda: occupancy.channels_for(-1, 143), "users"),
        (lambda: occupancy.channels_for(10, 0), "tau"),
        (lambda: occupancy.channels_for(10, 143, 0), "T"),
        (lambda: gate.more_than_tau(-1, 143), "users"),
    ],
)
def test_bad_input_names_the_field(call, field) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidParameter) as caught:
        call()
    assert caught.value.field == field
