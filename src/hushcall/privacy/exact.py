"""Bounds on e^ε in rational arithmetic, so that rounding always falls on the side of privacy.

ε is read as the exact value of the float or fraction given: 8.8 is 8.800000000000000710…, and four channels of
8.8/4 add up to it exactly.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

from hushcall import checks
from hushcall.errors import InvalidParameter

_DIGITS = 60  # 2⁶⁴ has 20 digits: forty to spare
MOST_EPSILON = 40.0
"""Above this the smallest weight out of 2⁶⁴ would be zero or one, and the odds could not be held."""


def epsilon_value(field: str, epsilon: float | Fraction) -> Fraction:
    """The exact value of an ε that was given as a float or a fraction."""
    checks.positive(field, epsilon)
    if epsilon > MOST_EPSILON:
        raise InvalidParameter(field, f"be at most {MOST_EPSILON:g}", epsilon)
    return Fraction(epsilon)


@lru_cache(maxsize=1024)
def exp_below(exponent: Fraction) -> Fraction:
    """A rational just below e^exponent: at most it, and within 10⁻⁵⁰ of it.

    >>> exp_below(Fraction(0)) <= 1, float(exp_below(Fraction(3)))
    (True, 20.085536923187668)
    """
    return _exp(exponent, ROUND_FLOOR) * (1 - Fraction(1, 10**50))


@lru_cache(maxsize=1024)
def exp_above(exponent: Fraction) -> Fraction:
    """A rational just above e^exponent."""
    return _exp(exponent, ROUND_CEILING) * (1 + Fraction(1, 10**50))


def _exp(exponent: Fraction, rounding: str) -> Fraction:
    # Decimal's exp is correctly rounded; the margin of the callers covers it and the division both.
    context = Context(prec=_DIGITS, rounding=rounding)
    return Fraction(context.exp(context.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))))


def log(ratio: Fraction) -> float:
    """The natural logarithm of a positive rational, for display."""
    return math.log(ratio.numerator) - math.log(ratio.denominator)


def ceil_divide(numerator: int, divisor: Fraction) -> int:
    """⌈numerator / divisor⌉ in whole numbers."""
    return -(-numerator * divisor.denominator // divisor.numerator)
