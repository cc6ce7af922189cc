"""The rules that parameters obey, each in one place, each failing with a named error."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from hushcall.errors import InvalidParameter


def positive(field: str, value: float | Fraction) -> None:
    """``value`` is a finite number above zero.

    >>> positive("epsilon", float("nan"))
    Traceback (most recent call last):
        ...
    hushcall.errors.InvalidParameter: epsilon must be a positive finite number, got nan
    """
    number = isinstance(value, int | float | Fraction) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:
        raise InvalidParameter(field, "be a positive finite number", value)


def whole(field: str, value: int, least: int, most: int | None = None) -> None:
    rule = f"be a whole number of at least {least}" + ("" if most is None else f" and at most {most}")
    # ``type`` rather than ``isinstance``: True is no count, and numpy's integers become ours at the border.
    if type(value) is not int or value < least or (most is not None and value > most):
        raise InvalidParameter(field, rule, value)


def one_of(field: str, value: str, choices: Iterable[str]) -> None:
    names = list(choices)
    if value not in names:
        raise InvalidParameter(field, f"be one of {', '.join(names)}", value)


def power_of_two(field: str, value: int, most: int) -> None:
    if type(value) is not int or value < 1 or value > most or value & (value - 1):
        raise InvalidParameter(field, f"be a power of two from 1 to {most}", value)


def probability(field: str, value: float) -> None:
    if not isinstance(value, int | float) or not 0 < value < 1:
        raise InvalidParameter(field, "lie strictly between 0 and 1", value)


def length(field: str, value: bytes, size: int) -> None:
    if not isinstance(value, bytes) or len(value) != size:
        raise InvalidParameter(field, f"be exactly {size} bytes", value)
