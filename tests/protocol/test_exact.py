"""Bounds on e^x, held against an interval computed from the Taylor series in whole numbers."""

import math
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.exact import exp_above

from hushcall.errors import InvalidParameter
from hushcall.protocol.exact import MAX_EPSILON, ceil_divide, epsilon_value, exp_below
from hushcall_lab.audit.enumeration import log

UNIT = 1 << 400  # fixed point: about 120 digits after the comma, twice what the code under test keeps

exponents = st.one_of(
    st.floats(0, MAX_EPSILON).map(Fraction),
    st.fractions(0, 40),
    st.floats(0, 1e-9).map(Fraction),
)


def taylor(x: Fraction) -> tuple[Fraction, Fraction]:
    """An interval that holds e^x, x ≥ 0: the series, every term rounded down, and rounded up plus its tail."""
    low_term = high_term = low = high = UNIT
    n = 0
    while low_term or n < 2 * x + 2:
        n += 1
        low_term = low_term * x.numerator // (x.denominator * n)
        high_term = -(-high_term * x.numerator // (x.denominator * n))
        low, high = low + low_term, high + high_term
    # Beyond n > 2x every term is at most half of the one before: the tail is at most the last term.
    return Fraction(low, UNIT), Fraction(high + high_term, UNIT)


def test_the_reference_itself_is_narrow_and_right() -> None:
    low, high = taylor(Fraction(1))
    euler = Fraction("2.71828182845904523536028747135266249775724709369995957496696762772407663035354759457138")
    assert low < euler + Fraction(1, 10**86)
    assert euler < high
    assert (high - low) * 10**100 < 1


@settings(deadline=None)
@given(exponents)
@example(Fraction(0))
@example(Fraction(8.8))
@example(Fraction(40))
@example(Fraction(1, 10**60))
def test_the_bounds_enclose_the_exponential_and_are_tight(x: Fraction) -> None:
    low, high = taylor(x)
    assert exp_below(x) <= low
    assert high <= exp_above(x)
    assert exp_below(x) >= high * (1 - Fraction(2, 10**50))
    assert exp_above(x) <= low * (1 + Fraction(2, 10**50))


@settings(deadline=None)
@given(exponents, exponents)
def test_the_bounds_of_a_sum_fit_the_bounds_of_its_parts(x: Fraction, y: Fraction) -> None:
    """E^(x+y) = e^x·e^y, on the safe side both times."""
    assert exp_below(x) * exp_below(y) <= exp_above(x + y)
    assert exp_below(x + y) <= exp_above(x) * exp_above(y)


@given(st.floats(min_value=0, exclude_min=True, max_value=MAX_EPSILON))
def test_an_epsilon_is_read_as_the_exact_value_of_its_float(epsilon: float) -> None:
    assert epsilon_value("epsilon", epsilon) == Fraction(epsilon)


def test_four_quarters_of_a_float_are_the_float() -> None:
    assert 4 * (epsilon_value("epsilon", 8.8) / 4) == Fraction(8.8) != Fraction("8.8")


@pytest.mark.parametrize(
    "bad",
    [0, 0.0, -1, -0.5, float("nan"), float("inf"), -float("inf"), 40.000001, 1e300, Fraction(81, 2), True, "3", None],
)
def test_a_bad_epsilon_is_refused_under_its_own_name(bad: float) -> None:
    with pytest.raises(InvalidParameter, match=r"^epsilon_hh must ") as caught:
        epsilon_value("epsilon_hh", bad)
    assert caught.value.field == "epsilon_hh"


@pytest.mark.parametrize("bad", [10**400, Fraction(10**400)], ids=["integer", "fraction"])
def test_an_epsilon_beyond_all_floats_is_refused_like_any_other(bad: float) -> None:
    with pytest.raises(InvalidParameter, match=r"^epsilon must "):
        epsilon_value("epsilon", bad)


@given(st.integers(0, 1 << 80), st.fractions(Fraction(1, 1 << 40), 1 << 40))
def test_ceil_divide_is_the_least_integer_that_is_enough(numerator: int, divisor: Fraction) -> None:
    result = ceil_divide(numerator, divisor)
    assert result * divisor >= numerator
    assert (result - 1) * divisor < numerator


@given(st.fractions(Fraction(1, 1 << 60), 1 << 60))
def test_log_is_the_natural_logarithm(ratio: Fraction) -> None:
    assert log(ratio) == pytest.approx(math.log(ratio.numerator) - math.log(ratio.denominator), abs=1e-9)


@pytest.mark.parametrize("power", [-400, -308, 299, 301, 400])
def test_log_reaches_beyond_the_range_of_floats(power: int) -> None:
    assert log(Fraction(10) ** power) == pytest.approx(power * math.log(10))
