"""A phone number as the protocol sees it: an area code, sent in clear (but in whole-number mode), and a suffix.

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
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

from hushcall.errors import InvalidNumber, InvalidParameter
from hushcall.numbers.dialled import endings, without_codes
from hushcall.numbers.suffixes import digits_of, first_of_length, numeral
from hushcall.privacy.coins import WORD_BYTES, ByteSource, read, uniform, words

HOME_IN, HOME_OF = 2, 5
"""Two of five unwanted callers show the area code of whom they call (39.9 % of the FTC's complaints of 2020)."""
_WHOLE = re.compile(r"\s*(?:tel:)?\s*[+\uff0b]", re.IGNORECASE)
_ABROAD = re.compile(r"^\s*00(?=[ ./()-]*[1-9])")


def _plain(text: str) -> str:
    return "".join(str(int(char)) for char in text if char.isdecimal())


@dataclass(frozen=True, slots=True, order=True)
class Number:
    """One valid number of a plan. Made by :meth:`NumberingPlan.parse` or :meth:`NumberingPlan.number`.

    ``suffix`` is what goes through a randomiser: where all suffixes have ``suffix_digits`` digits their value,
    elsewhere (``suffix_digits`` is 0) their numeral, which tells the length too (:mod:`~hushcall.numbers.suffixes`).
    """

    country_code: int
    area: int
    suffix: int
    suffix_digits: int = 7
    area_digits: int = 3

    def __str__(self) -> str:
        """E.164, as a blocklist prints it."""
        return f"+{self.country_code}{self.digits}"

    @property
    def digits(self) -> str:
        """The national number as it is written after the country code: Italy's begin with a zero."""
        suffix = f"{self.suffix:0{self.suffix_digits}d}" if self.suffix_digits else digits_of(self.suffix)
        return f"{self.area:0{self.area_digits}d}{suffix}"

    @property
    def national(self) -> int:
        """Those digits as one integer, which is what the original protocol encodes in 34 bits."""
        return int(self.digits)


@dataclass(frozen=True)
class NumberingPlan:
    """Which numbers exist: a value, so that another country is another constant and not other code.

    ``name`` carries a year or a digest. The order of ``area_codes`` is part of the protocol where a number is reported
    whole (a report holds the *index* of its area code), so a changed list is a new plan with a new name.

    An area code is the first ``area_digits`` digits. What follows has ``suffix_digits`` digits, or in a plan where that
    is 0, as many as ``lengths`` says for the area code (a bit for each length, in the order of ``area_codes``).
    """

    name: str
    country_code: int
    region: str
    area_codes: tuple[int, ...] = field(repr=False)  # hundreds, which nobody wants to read in a help text
    suffix_digits: int
    first_suffix: int  # below it, the exchange would start with a digit that no exchange starts with
    complaints: tuple[int, ...] = field(
        default=(), repr=False
    )  # about callers of each area code, where that was counted: see caller_like
    area_digits: int = 3
    lengths: tuple[int, ...] = field(default=(), repr=False)
    national_prefix: str = ""  # what is dialled before a number without its country code
    whole_from: int = 0  # without that prefix, fewer digits are a neighbour's number, dialled without its area code

    def __post_init__(self) -> None:
        if self.complaints and len(self.complaints) != len(self.area_codes):
            raise InvalidParameter("complaints", "have one count an area code", len(self.complaints))

    @property
    def suffixes(self) -> int:
        """How many suffixes can be written, valid or not: D = 10⁷ in North America."""
        return first_of_length(self._longest + 1) if self.lengths else int(10**self.suffix_digits)

    @property
    def suffix_bits(self) -> int:
        """ℓ, the bits that hold a suffix: 24 in North America, 27 where it may have up to eight digits."""
        return (self.suffixes - 1).bit_length()

    @property
    def area_bits(self) -> int:
        """The bits that hold the index of an area code: 9 in North America."""
        return (len(self.area_codes) - 1).bit_length()

    @property
    def valid_suffixes(self) -> int:
        """How many suffixes a subscriber can have, in some area code."""
        return self.suffixes - self.first_suffix

    @cached_property
    def _longest(self) -> int:
        return max(mask.bit_length() - 1 for mask in self.lengths)

    def suffix_is_valid(self, suffix: int) -> bool:
        """Whether a subscriber can have this suffix, in some area code."""
        return self.first_suffix <= suffix < self.suffixes

    @cached_property
    def area_index(self) -> dict[int, int]:
        """Area code → its place in the plan."""
        return {area: place for place, area in enumerate(self.area_codes)}

    def lengths_of(self, area: int) -> tuple[int, ...]:
        """How many digits may follow an area code."""
        if not self.lengths:
            return (self.suffix_digits,)
        mask = self.lengths[self.area_index[area]]
        return tuple(length for length in range(mask.bit_length()) if mask >> length & 1)

    def number(self, area: int, suffix: int) -> Number:
        """The number with these parts, or :class:`InvalidNumber`."""
        if type(area) is not int or area not in self.area_index:
            raise InvalidNumber("area code", f"be one of plan {self.name}", area)
        if type(suffix) is not int or not self.suffix_is_valid(suffix):
            rule = f"lie from {self.first_suffix} to {self.suffixes - 1}"
            raise InvalidNumber("suffix", rule, suffix)
        if self.lengths and len(digits_of(suffix)) not in self.lengths_of(area):
            raise InvalidNumber("suffix", "have as many digits as its area code allows", digits_of(suffix))
        return Number(self.country_code, area, suffix, self.suffix_digits, self.area_digits)

    def existing(self, area: int, suffix: int) -> Number | None:
        """The number with these parts, or None where nobody can have it."""
        try:
            return self.number(area, suffix)
        except InvalidNumber:
            return None

    def parse(self, text: str) -> Number:
        """Read a number in any usual notation; hidden, short, foreign and impossible ones are errors.

        ``00`` in front is what most of the world dials for ``+``, and what a router over there writes into its log.
        Codes that hide or show the own number (``*67``, ``#31#``) are no part of a number. Where numbers have no fixed
        length and a prefix is dialled before the area code (Germany's 0), a number without it is a neighbour's, dialled
        without the area code: nobody can tell whose.
        """
        written = self._written.fullmatch(text) if isinstance(text, str) and not self.lengths else None
        if written and (area := int(written[1])) in self.area_index:  # as this library writes it: nothing to guess
            return self.number(area, int(written[2]))
        import phonenumbers  # half as long to import as all of a phone

        try:
            bare = _ABROAD.sub("+", without_codes(text))
            parsed = phonenumbers.parse(bare, self.region)
        except (phonenumbers.NumberParseException, TypeError, AttributeError):
            raise InvalidNumber("number", "be a dialable phone number", text) from None
        digits = phonenumbers.national_significant_number(parsed)
        whole = _WHOLE.match(bare) or _plain(bare).startswith(self.national_prefix)
        if not whole and len(digits) < self.whole_from:
            raise InvalidNumber("number", f"start with {self.national_prefix}, + or 00", text)
        if parsed.country_code != self.country_code or not self._fits(len(digits)):
            raise InvalidNumber("number", self._rule, text)
        suffix = digits[self.area_digits :]
        return self.number(int(digits[: self.area_digits]), numeral(suffix) if self.lengths else int(suffix))

    @cached_property
    def _written(self) -> re.Pattern[str]:
        """A number of a plan with fixed lengths, in E.164."""
        area, suffix = self.area_digits, self.suffix_digits
        return re.compile(rf"\+{self.country_code}([1-9][0-9]{{{area - 1}}})([0-9]{{{suffix}}})")

    def _fits(self, length: int) -> bool:
        if self.lengths:
            return self.area_digits < length <= self.area_digits + self._longest
        return length == self.area_digits + self.suffix_digits

    @property
    def _rule(self) -> str:
        if self.lengths:
            return f"be a number of country code +{self.country_code} with at most {self.most_digits} digits"
        return f"be a {self.most_digits}-digit number of country code +{self.country_code}"

    @property
    def most_digits(self) -> int:
        """How many digits the longest number has after the country code."""
        return self.area_digits + (self._longest if self.lengths else self.suffix_digits)

    @cached_property
    def _weights(self) -> tuple[int, ...]:
        """Running sums of the complaints, one more for each area code: none is impossible."""
        return tuple(accumulate(count + 1 for count in self.complaints or (0,) * len(self.area_codes)))

    def caller_like(self, coins: ByteSource, home: int | None = None) -> Number:
        """A made-up caller whose area code is as likely as an unwanted caller's: what a phone without calls announces.

        With probability 2/5 it is ``home``, the owner's own area code, where the owner has named one; otherwise one by
        the plan's complaints. The law belongs to the plan and never to a server, which could choose one that tells
        made-up callers from real ones. Takes 24 bytes, always; exact but for 2⁻⁴⁰, which costs no privacy.
        """
        own, place, suffix = words(read(coins, 3 * WORD_BYTES))
        if home is not None and uniform(own, HOME_OF) < HOME_IN:
            area = home
        else:
            area = self.area_codes[bisect_right(self._weights, uniform(place, self._weights[-1]))]
        return self._in_area(area, suffix)

    def caller_law(self, home: int | None = None) -> dict[int, Fraction]:
        """The exact law of :meth:`caller_like`'s area codes."""
        share = Fraction(HOME_IN, HOME_OF) if home is not None else Fraction(0)
        steps = (after - before for before, after in zip((0, *self._weights), self._weights, strict=False))
        law = {area: (1 - share) * step / self._weights[-1] for area, step in zip(self.area_codes, steps, strict=True)}
        if home is not None:
            if home not in law:
                raise InvalidNumber("area code", f"be one of plan {self.name}", home)
            law[home] += share
        return law

    def reached(self, dialled: str) -> frozenset[Number]:
        """Whom an owner who dialled this may have reached: too many rather than too few, for they are never reported.

        >>> from hushcall.numbers import NANP
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

    def dummy(self, coins: ByteSource, within: int | None = None) -> Number:
        """A uniformly random valid number: a stand-in of which only the suffix counts. Takes 16 bytes, always.

        ``within`` is the area code where one was announced. It goes through the randomiser like any other number, so
        its slight unevenness (2⁻⁴⁰) costs no privacy, and its report costs the same ε as a real one: the paper's "0"
        for it is a slip.
        """
        drawn, suffix = words(read(coins, 16))
        area = self.area_codes[uniform(drawn, len(self.area_codes))] if within is None else within
        return self._in_area(area, suffix)

    def _in_area(self, area: int, word: int) -> Number:
        """The number of an area code that a random word chooses, all of them alike."""
        if not self.lengths or area not in self.area_index:
            return self.number(area, self.first_suffix + uniform(word, self.valid_suffixes))
        place = uniform(word, sum(10**length for length in self.lengths_of(area)))
        for length in self.lengths_of(area):
            if place < 10**length:
                return self.number(area, first_of_length(length) + place)
            place -= 10**length
        raise AssertionError("a place lies in one of the lengths")
