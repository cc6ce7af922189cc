"""What of a number goes through a randomiser, and back: suffix, all digits, or place of the area code and suffix.

Each is a value with the same five answers; a mechanism's row in the scheme table names the one that it uses.

>>> from hushcall.numbers import NANP
>>> number = NANP.parse("+12025550143")
>>> SUFFIX.item(number, NANP), DIGITS.item(number, NANP), SUFFIX.bucket(number), DIGITS.bucket(number)
(5550143, 2025550143, 202, 0)
>>> [codec.bits(NANP) for codec in (SUFFIX, PLACED, DIGITS)]
[24, 33, 34]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from hushcall.numbers import Number, NumberingPlan

WHOLE = 0
"""The one bucket of a round in which nothing travels in the clear."""


class ItemCodec(ABC):
    """One way to turn a number into an item of so many bits, and back."""

    bucketed = False
    """Whether phones announce an area code and are counted by it; elsewhere the number is protected whole."""

    @property
    def in_the_clear(self) -> str:
        """What of a number travels unprotected, in words."""
        return "the area code" if self.bucketed else "nothing"

    def bucket(self, number: Number) -> int:
        """What a phone announces: its caller's area code, or nothing."""
        return number.area if self.bucketed else WHOLE

    def buckets(self, plan: NumberingPlan) -> tuple[int, ...]:
        """All that a phone may announce."""
        return plan.area_codes if self.bucketed else (WHOLE,)

    def item(self, number: Number, plan: NumberingPlan) -> int:
        """What of a number goes through the randomiser."""
        return int(self.compose(plan.area_index[number.area], number.area, number.suffix, plan))

    @abstractmethod
    def compose(self, place: Any, area: Any, suffix: Any, plan: NumberingPlan) -> Any:
        """The item of an area code, its place in the plan and a suffix: plain arithmetic, so that arrays do too."""

    @abstractmethod
    def number(self, item: int, bucket: int, plan: NumberingPlan) -> Number | None:
        """The inverse of :meth:`item`; None for what can be spelled out but nobody can have."""

    @abstractmethod
    def bits(self, plan: NumberingPlan) -> int:
        """How wide an item is."""


class _Suffix(ItemCodec):
    """The digits behind the area code, which travels in the clear."""

    bucketed = True

    def compose(self, place: Any, area: Any, suffix: Any, plan: NumberingPlan) -> Any:
        return suffix

    def number(self, item: int, bucket: int, plan: NumberingPlan) -> Number | None:
        return plan.existing(bucket, item)

    def bits(self, plan: NumberingPlan) -> int:
        return plan.suffix_bits


class _Digits(ItemCodec):
    """The national number as it is written: the original protocol's 34 bits."""

    def compose(self, place: Any, area: Any, suffix: Any, plan: NumberingPlan) -> Any:
        return area * plan.suffixes + suffix

    def number(self, item: int, bucket: int, plan: NumberingPlan) -> Number | None:
        area, suffix = divmod(item, plan.suffixes)
        return plan.existing(area, suffix)

    def bits(self, plan: NumberingPlan) -> int:
        return ((max(plan.area_codes) + 1) * plan.suffixes - 1).bit_length()


class _Placed(ItemCodec):
    """The area code's place in the plan, then the suffix: one bit less than the digits, and no gaps between areas."""

    def compose(self, place: Any, area: Any, suffix: Any, plan: NumberingPlan) -> Any:
        return place << plan.suffix_bits | suffix

    def number(self, item: int, bucket: int, plan: NumberingPlan) -> Number | None:
        return plan.existing(plan.area_codes[item >> plan.suffix_bits], item & ((1 << plan.suffix_bits) - 1))

    def bits(self, plan: NumberingPlan) -> int:
        return plan.area_bits + plan.suffix_bits


SUFFIX: ItemCodec = _Suffix()
DIGITS: ItemCodec = _Digits()
PLACED: ItemCodec = _Placed()
