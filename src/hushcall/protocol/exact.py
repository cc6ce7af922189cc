"""Bounds on e^ε in rational arithmetic, so that rounding always falls on the side of privacy.

ε is the exact value of its float or fraction: 8.8 is 8.800000000000000710…, and four channels of 8.8/4 add up to it
exactly.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

from hushcall import checks
from hushcall.errors import InvalidParameter

_DIGITS = 60  # 2⁶⁴ has 20 digits: forty to spare
MAX_EPSILON = 40.0
"""Above this the smallest weight out of 2⁶⁴ would be zero or one, and the odds could not be held."""


def epsilon_value(field: str, epsilon: float | Fraction) -> Fraction:
    checks.positive(field, epsilon)
    if epsilon > MAX_EPSILON:
        raise InvalidParameter(field, f"be at most {MAX_EPSILON:g}", epsilon)
    return Fraction(epsilon)


@lru_cache(maxsize=1024)
def exp_below(exponent: Fraction) -> Fraction:
    """A rational just below e^exponent: at most it, and within 10⁻⁵⁰ of it.

    >>> exp_below(Fraction(0)) <= 1, float(exp_below(Fraction(3)))
    (True, 20.085536923187668)
    """
    context = Context(prec=_DIGITS, rounding=ROUND_FLOOR)
    rounded = context.exp(context.divide(Decimal(exponent.numerator), Decimal(exponent.denominator)))
    return Fraction(rounded) * (1 - Fraction(1, 10**50))  # the margin covers the rounding of both steps


def ceil_divide(numerator: int, divisor: Fraction) -> int:
    """⌈numerator / divisor⌉ in whole numbers."""
    return -(-numerator * divisor.denominator // divisor.numerator)
