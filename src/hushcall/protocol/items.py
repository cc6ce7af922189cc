"""What of a number goes through a randomiser, and back: the suffix, the ten digits, or an index of the area code too.

>>> number = NANP.parse("+12025550143")
>>> item_of(number, "subspace", NANP), item_of(number, "sh-original", NANP)
(5550143, 2025550143)
"""

from __future__ import annotations

from hushcall.numbers import NANP, Number, NumberingPlan

WHOLE = 0
"""The one bucket of a round in which nothing travels in the clear."""
UNBUCKETED = ("whole-number", "sh-original")
"""The mechanisms that protect a number whole: phones announce no area code."""


def bucket_of(number: Number, mechanism: str) -> int:
    """What a phone announces: its caller's area code, or nothing."""
    return WHOLE if mechanism in UNBUCKETED else number.area


def item_of(number: Number, mechanism: str, plan: NumberingPlan = NANP) -> int:
    """What of a number goes through the randomiser."""
    if mechanism == "whole-number":
        return plan.area_index[number.area] << plan.suffix_bits | number.suffix
    return number.national if mechanism == "sh-original" else number.suffix


def number_of(item: int, bucket: int, mechanism: str, plan: NumberingPlan = NANP) -> Number | None:
    """The inverse of :func:`item_of`; None for what the original protocol spells out but nobody can have."""
    if mechanism == "whole-number":
        return plan.number(plan.area_codes[item >> plan.suffix_bits], item & ((1 << plan.suffix_bits) - 1))
    if mechanism == "sh-original":
        first, rest = divmod(item, plan.suffixes)
        return plan.number(first, rest) if first in plan.area_index and plan.suffix_is_valid(rest) else None
    return plan.number(bucket, item)
