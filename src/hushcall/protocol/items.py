"""Items: the part of a number that goes through a randomiser. Its width, its range, and both directions.

An item is a weighted sum of the area code's index in the plan, the area code and the suffix. Nothing else in the
library knows how wide an item is. Pages get the weights as plain data (:meth:`ItemCodec.layout`).

>>> from hushcall.protocol.numbers import NANP
>>> number = NANP.parse("+12025550143")
>>> SUFFIX.item(number, NANP), SUFFIX.bucket(number), PLACED.bucket(number)
(5550143, 202, 0)
>>> HUNDRED.item(number, NANP), HUNDRED.text(HUNDRED.number(55501, 202, NANP))
(55501, '+120255501xx')
>>> [codec.bits(NANP) for codec in (SUFFIX, PLACED, HUNDRED)]
[24, 33, 17]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from hushcall.protocol.numbers.plan import Number, NumberingPlan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WHOLE = 0
"""The one bucket of a round in which nothing travels in the clear."""
OPEN = "x"
"""Stands for any digit."""
T = TypeVar("T", int, "NDArray[np.int64]")


class ItemCodec(ABC):
    open_digits = 0
    """The last digits of a number that its item leaves open: 2 where an item is a hundred of numbers."""
    bucketed = False
    """Whether clients announce an area code and are counted by it. Otherwise the number is protected whole."""

    @property
    def in_the_clear(self) -> str:
        """What of a number travels unprotected, in words."""
        return "the area code" if self.bucketed else "nothing"

    def bucket(self, number: Number) -> int:
        return number.area if self.bucketed else WHOLE

    def buckets(self, plan: NumberingPlan) -> tuple[int, ...]:
        return plan.area_codes if self.bucketed else (WHOLE,)

    @abstractmethod
    def weights(self, plan: NumberingPlan) -> tuple[int, int, int]:
        """(of the area code's index, of the area code, of the suffix) in an item."""

    @abstractmethod
    def number(self, item: int, bucket: int, plan: NumberingPlan) -> Number | None:
        """The number of an item, the first one where several have it. None for an item that is no number."""

    def text(self, number: Number) -> str:
        """The numbers of an item, by the first of them: ``+12025550143``, or ``+120255501xx`` for a hundred."""
        written = str(number)
        return written[: len(written) - self.open_digits] + OPEN * self.open_digits

    def compose(self, place: T, area: T, suffix: T, plan: NumberingPlan) -> T:
        """The item of an area code, its index in the plan and a suffix. Arrays give an array."""
        of_place, of_area, of_suffix = self.weights(plan)
        return of_place * place + of_area * area + of_suffix * suffix

    def item(self, number: Number, plan: NumberingPlan) -> int:
        return self.compose(plan.area_index[number.area], number.area, number.suffix, plan)

    def domain(self, plan: NumberingPlan) -> range:
        """From the smallest to the largest item of a number in one bucket."""
        first, last = plan.area_codes[0], plan.area_codes[-1]
        start = self.compose(0, first, plan.first_suffix, plan)
        return range(start, self.compose(len(plan.area_codes) - 1, last, plan.suffixes - 1, plan) + 1)

    def bits(self, plan: NumberingPlan) -> int:
        return (self.domain(plan).stop - 1).bit_length()

    def layout(self, plan: NumberingPlan) -> dict[str, Any]:
        """All that a page's JavaScript needs to read a number, and to make an item of it."""
        return {
            "country_code": plan.country_code,
            "area_codes": plan.area_codes,
            "area_digits": plan.area_digits,
            "suffix_digits": plan.suffix_digits,
            "first_suffix": plan.first_suffix,
            "end_suffix": plan.suffixes,
            "lengths": plan.lengths,
            "national_prefix": plan.national_prefix,
            "weights": self.weights(plan),
            "item_bits": self.bits(plan),
            "bucketed": self.bucketed,
        }


class _Suffix(ItemCodec):
    """The digits behind the area code, which travels in the clear."""

    bucketed = True

    def weights(self, plan: NumberingPlan) -> tuple[int, int, int]:
        return 0, 0, 1

    def number(self, item: int, bucket: int, plan: NumberingPlan) -> Number | None:
        return plan.existing(bucket, item)


class _Hundred(_Suffix):
    """The same without the last two digits. A suffix of one length or another is a numeral, and so is what remains."""

    open_digits = 2

    def compose(self, place: T, area: T, suffix: T, plan: NumberingPlan) -> T:
        return (suffix + _before_hundreds(plan)) // 100

    def number(self, item: int, bucket: int, plan: NumberingPlan) -> Number | None:
        return plan.existing(bucket, 100 * item - _before_hundreds(plan))


def _before_hundreds(plan: NumberingPlan) -> int:
    """What brings the first suffix of every hundred to a multiple of 100: before 000 are 110 shorter numerals."""
    return 90 if plan.lengths else 0


class _Placed(ItemCodec):
    """The index of the area code, then the suffix: one bit less than the digits, and no gaps between area codes."""

    def weights(self, plan: NumberingPlan) -> tuple[int, int, int]:
        return 1 << SUFFIX.bits(plan), 0, 1

    def number(self, item: int, bucket: int, plan: NumberingPlan) -> Number | None:
        place, suffix = divmod(item, 1 << SUFFIX.bits(plan))
        return plan.existing(plan.area_codes[place], suffix) if place < len(plan.area_codes) else None


SUFFIX: ItemCodec = _Suffix()
HUNDRED: ItemCodec = _Hundred()
PLACED: ItemCodec = _Placed()
