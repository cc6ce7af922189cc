"""A phone number as the protocol sees it: an area code, sent in clear, and a suffix, protected.

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


# The area codes of country code 1 that phonenumberslite 9.0 takes for valid, by first digit: geographic,
# toll-free, personal and premium. A test compares the list with the installed library.
_NANP_AREAS = {
    2: (
        "01 02 03 04 05 06 07 08 09 10 12 13 14 15 16 17 18 19 20 23 24 25 26 27 28 29 31 34 35 36 39 40 42 "
        "46 48 49 50 51 52 53 54 56 57 60 62 63 64 67 68 69 70 72 73 74 76 79 81 83 84 89"
    ),
    3: (
        "01 02 03 04 05 06 07 08 09 10 12 13 14 15 16 17 18 19 20 21 23 24 25 26 27 29 30 31 32 34 36 37 39 "
        "40 41 43 45 46 47 50 51 52 53 54 60 61 63 64 65 67 68 69 80 82 85 86"
    ),
    4: (
        "01 02 03 04 05 06 07 08 09 10 12 13 14 15 16 17 18 19 23 24 25 28 30 31 32 34 35 37 38 40 41 42 43 "
        "45 47 48 50 58 63 64 68 69 70 72 73 74 75 78 79 80 84"
    ),
    5: (
        "00 01 02 03 04 05 06 07 08 09 10 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 "
        "34 39 40 41 44 48 51 57 59 61 62 63 64 66 67 70 71 72 73 74 75 77 79 80 81 82 84 85 86 87 88"
    ),
    6: (
        "00 01 02 03 04 05 06 07 08 09 10 12 13 14 15 16 17 18 19 20 22 23 26 28 29 30 31 33 36 39 40 41 45 "
        "46 47 49 50 51 56 57 58 59 60 61 62 64 67 69 70 71 72 78 80 81 82 83 84 86 89"
    ),
    7: (
        "01 02 03 04 05 06 07 08 09 12 13 14 15 16 17 18 19 20 21 24 25 26 27 28 30 31 32 34 37 38 40 42 43 "
        "47 48 53 54 57 58 60 62 63 65 67 69 70 71 72 73 74 75 78 79 80 81 82 84 85 86 87"
    ),
    8: (
        "00 01 02 03 04 05 06 07 08 09 10 12 13 14 15 16 17 18 19 20 21 25 26 28 29 30 31 32 33 35 38 39 40 "
        "43 44 45 47 48 49 50 54 55 56 57 58 59 60 62 63 64 65 66 67 68 69 70 72 73 76 77 78 79 88"
    ),
    9: (
        "00 01 02 03 04 05 06 07 08 09 10 12 13 14 15 16 17 18 19 20 25 28 29 30 31 34 36 37 38 39 40 41 42 "
        "43 45 47 48 49 51 52 54 56 59 70 71 72 73 75 78 79 80 83 84 85 86 89"
    ),
}

NANP = NumberingPlan(
    name="nanp-2026",
    country_code=1,
    region="US",
    area_codes=tuple(100 * first + int(rest) for first, row in _NANP_AREAS.items() for rest in row.split()),
    suffix_digits=7,
    first_suffix=2_000_000,
)
"""North America: 469 area codes; exchanges start with 2 to 9, so suffixes run from 2 000 000 to 9 999 999."""
