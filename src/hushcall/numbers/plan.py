"""A phone number as the protocol sees it: an area code, sent in clear, and a suffix, protected.

>>> from hushcall.numbers import NANP
>>> number = NANP.parse("(202) 555-0143")
>>> number.area, number.suffix, str(number)
(202, 5550143, '+12025550143')
>>> NANP.parse("not a number")
Traceback (most recent call last):
    ...
hushcall.errors.InvalidNumber: number must be a dialable phone number, got 'not a number'
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import phonenumbers

from hushcall.errors import InvalidNumber
from hushcall.numbers.dialled import endings, without_codes
from hushcall.privacy.coins import ByteSource, read, uniform, words

_ABROAD = re.compile(r"^\s*00(?=[ ./()-]*[1-9])")


@dataclass(frozen=True, slots=True, order=True)
class Number:
    """One valid number of a plan. Made by :meth:`NumberingPlan.parse` or :meth:`NumberingPlan.number`."""

    country_code: int
    area: int
    suffix: int
    suffix_digits: int = 7

    def __str__(self) -> str:
        """E.164, as a blocklist prints it."""
        return f"+{self.country_code}{self.area}{self.suffix:0{self.suffix_digits}d}"

    @property
    def national(self) -> int:
        """The ten digits as one integer, which is what the original protocol encodes in 34 bits."""
        return int(self.area * 10**self.suffix_digits + self.suffix)


@dataclass(frozen=True)
class NumberingPlan:
    """Which numbers exist: a value, so that another country is another constant and not other code.

    ``name`` carries a year. The order of ``area_codes`` is part of the protocol where a number is reported
    whole (a report holds the *index* of its area code), so a changed list is a new plan with a new name.
    """

    name: str
    country_code: int
    region: str
    area_codes: tuple[int, ...]
    suffix_digits: int
    first_suffix: int  # below it, the exchange would start with a digit that no exchange starts with

    @property
    def suffixes(self) -> int:
        """How many suffixes can be written, valid or not: D = 10⁷ in North America."""
        return int(10**self.suffix_digits)

    @property
    def suffix_bits(self) -> int:
        """ℓ, the bits that hold a suffix: 24 in North America."""
        return (self.suffixes - 1).bit_length()

    @property
    def area_bits(self) -> int:
        """The bits that hold the index of an area code: 9 in North America."""
        return (len(self.area_codes) - 1).bit_length()

    @property
    def valid_suffixes(self) -> int:
        """How many suffixes a subscriber can have."""
        return self.suffixes - self.first_suffix

    def suffix_is_valid(self, suffix: int) -> bool:
        """Whether a subscriber can have this suffix."""
        return self.first_suffix <= suffix < self.suffixes

    @cached_property
    def area_index(self) -> dict[int, int]:
        """Area code → its place in the plan."""
        return {area: place for place, area in enumerate(self.area_codes)}

    def number(self, area: int, suffix: int) -> Number:
        """The number with these parts, or :class:`InvalidNumber`."""
        if type(area) is not int or area not in self.area_index:
            raise InvalidNumber("area code", f"be one of plan {self.name}", area)
        if type(suffix) is not int or not self.suffix_is_valid(suffix):
            rule = f"lie from {self.first_suffix} to {self.suffixes - 1}"
            raise InvalidNumber("suffix", rule, suffix)
        return Number(self.country_code, area, suffix, self.suffix_digits)

    def parse(self, text: str) -> Number:
        """Read a number in any usual notation; hidden, short, foreign and impossible ones are errors.

        ``00`` in front is what most of the world dials for ``+``, and what a router over there writes into its log.
        Codes that hide or show the own number (``*67``, ``#31#``) are no part of a number.
        """
        try:
            parsed = phonenumbers.parse(_ABROAD.sub("+", without_codes(text)), self.region)
        except (phonenumbers.NumberParseException, TypeError, AttributeError):
            raise InvalidNumber("number", "be a dialable phone number", text) from None
        digits = phonenumbers.national_significant_number(parsed)
        if parsed.country_code != self.country_code or len(digits) != 3 + self.suffix_digits:
            rule = f"be a {3 + self.suffix_digits}-digit number of country code +{self.country_code}"
            raise InvalidNumber("number", rule, text)
        return self.number(int(digits[:3]), int(digits[3:]))

    def reached(self, dialled: str) -> frozenset[Number]:
        """Whom an owner who dialled this may have reached: too many rather than too few, for they are never reported.

        >>> [str(number) for number in NANP.reached("10-10-220 202 555 0143")]
        ['+12025550143']
        """
        try:
            return frozenset((self.parse(dialled),))
        except InvalidNumber:
            return frozenset(self._at_the_end(dialled))

    def _at_the_end(self, dialled: str) -> Iterator[Number]:
        for ending in endings(dialled):
            with contextlib.suppress(InvalidNumber):
                yield self.parse(ending)

    def dummy(self, coins: ByteSource) -> Number:
        """A random valid number, for a phone with nothing to report. Takes 16 bytes, always.

        It goes through the randomiser like any other number, so its slight unevenness (2⁻⁴⁰) costs no
        privacy, and its report costs the same ε as a real one: the paper's "0" for it is a slip.
        """
        area, suffix = words(read(coins, 16))
        return self.number(
            self.area_codes[uniform(area, len(self.area_codes))],
            self.first_suffix + uniform(suffix, self.valid_suffixes),
        )
