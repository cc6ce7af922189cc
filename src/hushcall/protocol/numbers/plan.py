"""Phone numbers, and a numbering plan: which numbers exist, how they are written and how they are dialled.

A number is an area code and a suffix. Where all suffixes have one length, a suffix is its value. Elsewhere 123 and 0123
are two numbers, so it is its bijective numeral: all texts of one digit first, then all of two, each in order. Up to
eight digits fit 27 bits.

>>> from hushcall.protocol.numbers import NANP
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
from functools import cached_property
from itertools import accumulate

from hushcall.errors import InvalidNumber, InvalidParameter
from hushcall.protocol.randomness import WORD_BYTES, ByteSource, read, uniform, words

HOME_IN, HOME_OF = 2, 5
"""Two of five unwanted callers show the area code of the called number (39.9 % of the FTC's complaints of 2020)."""
_INTERNATIONAL = re.compile(r"\s*(?:tel:)?\s*[+\uff0b]", re.IGNORECASE)
_ABROAD = re.compile(r"^\s*00(?=[ ./()-]*[1-9])")
SHORTEST_TAIL = 4
"""The fewest digits that stand for a number without its area code. Fewer are service numbers."""

# Codes that end in a star or hash have two or three digits; a star alone is followed by two.
_CODE = re.compile(r"^\s*(?:[*#]{1,2}[0-9]{2,3}[*#]+|\*[0-9]{2}(?![*#0-9]*[*#]))[\s.-]*(?=.*[0-9])")
_KEYS_AFTER = re.compile(r"(?<=[0-9])\s*(?:[pPwWtT,;].*|#)\s*$", re.DOTALL)


def first_of_length(length: int) -> int:
    """The numeral of so many zeros."""
    return int((10**length - 10) // 9)


def numeral(digits: str) -> int:
    """The index of these digits among all texts of digits, the shorter ones first.

    >>> [numeral(digits) for digits in ("0", "9", "00", "01", "99999999")]
    [0, 9, 10, 11, 111111109]
    """
    return int(digits) + first_of_length(len(digits))


def digits_of(item: int) -> str:
    """The inverse of :func:`numeral`.

    >>> [digits_of(item) for item in (0, 10, 111111109)]
    ['0', '00', '99999999']
    """
    length = 1
    while item >= first_of_length(length + 1):
        length += 1
    return f"{item - first_of_length(length):0{length}d}"


def without_codes(text: str) -> str:
    """The dialled number without service codes and without digits typed after a pause.

    ``*67`` and ``#31#`` hide the own number, ``*82`` and ``*31#`` show it, ``1167`` is ``*67`` on a rotary telephone,
    ``10-10-220`` or ``01033`` chooses a carrier.

    >>> without_codes("*67 202 555 0143"), without_codes("*31#+12025550143"), without_codes("*31*2025550143#")
    ('202 555 0143', '+12025550143', '2025550143')
    """
    if not isinstance(text, str) or not re.search(r"[*#pwtPWT]", text):
        return text
    return _KEYS_AFTER.sub("", _CODE.sub("", text))


def endings(text: str) -> Iterator[str]:
    """The endings of the dialled digits that may be the number: without the first digit, and so on.

    >>> list(endings("10-10-220 5550"))[:3]
    ['0102205550', '102205550', '02205550']
    """
    digits = "".join(char for char in without_codes(text) if char.isdecimal())
    for start in range(1, len(digits) - SHORTEST_TAIL):
        yield digits[start:]


def tail(text: str) -> str:
    """The last digits of the full number, if it was dialled without its area code. Otherwise "".

    >>> tail("555-0143"), tail("911"), tail("+44 20 7946 0958")
    ('5550143', '', '')
    """
    bare = without_codes(text).strip()
    digits = "".join(char for char in bare if char.isdecimal())
    complete = bare.startswith(("+", "0")) or not SHORTEST_TAIL <= len(digits) <= 9
    return "" if complete else digits


def _plain(text: str) -> str:
    return "".join(str(int(char)) for char in text if char.isdecimal())


@dataclass(frozen=True, slots=True, order=True)
class Number:
    """One valid number of a plan. Made by :meth:`NumberingPlan.parse` or :meth:`NumberingPlan.number`.

    ``suffix`` is a value of ``suffix_digits`` digits or, if that is 0, a :func:`numeral`.
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


@dataclass(frozen=True)
class NumberingPlan:
    """The numbers that exist in one region.

    ``name`` carries a year or a digest. The order of ``area_codes`` is part of the protocol where a number is reported
    whole (a report holds the *index* of its area code), so a changed list is a new plan with a new name.

    An area code is the first ``area_digits`` digits. The suffix has ``suffix_digits`` digits. If that is 0, ``lengths``
    has a bit for each length that an area code allows, in the order of ``area_codes``.
    """

    name: str
    country_code: int
    region: str
    area_codes: tuple[int, ...] = field(repr=False)
    suffix_digits: int
    first_suffix: int  # the smallest that a subscriber can have
    complaints: tuple[int, ...] = field(default=(), repr=False)  # by area code, for caller_like
    area_digits: int = 3
    lengths: tuple[int, ...] = field(default=(), repr=False)
    national_prefix: str = ""  # dialled before a number without its country code
    whole_from: int = 0  # without that prefix, fewer digits are a local number, dialled without its area code

    def __post_init__(self) -> None:
        if self.complaints and len(self.complaints) != len(self.area_codes):
            raise InvalidParameter("complaints", "have one count an area code", len(self.complaints))

    @property
    def suffixes(self) -> int:
        """The number of suffixes, valid or not: D = 10⁷ in North America."""
        return first_of_length(self._longest + 1) if self.lengths else int(10**self.suffix_digits)

    @property
    def valid_suffixes(self) -> int:
        return self.suffixes - self.first_suffix

    @cached_property
    def _longest(self) -> int:
        return max((mask.bit_length() - 1 for mask in self.lengths), default=self.suffix_digits)

    def suffix_is_valid(self, suffix: int) -> bool:
        return self.first_suffix <= suffix < self.suffixes

    @cached_property
    def area_index(self) -> dict[int, int]:
        return {area: place for place, area in enumerate(self.area_codes)}

    def lengths_of(self, area: int) -> tuple[int, ...]:
        if not self.lengths:
            return (self.suffix_digits,)
        mask = self.lengths[self.area_index[area]]
        return tuple(length for length in range(mask.bit_length()) if mask >> length & 1)

    def number(self, area: int, suffix: int) -> Number:
        if type(area) is not int or area not in self.area_index:
            raise InvalidNumber("area code", f"be one of plan {self.name}", area)
        if type(suffix) is not int or not self.suffix_is_valid(suffix):
            rule = f"lie from {self.first_suffix} to {self.suffixes - 1}"
            raise InvalidNumber("suffix", rule, suffix)
        if self.lengths and len(digits_of(suffix)) not in self.lengths_of(area):
            raise InvalidNumber("suffix", "have as many digits as its area code allows", digits_of(suffix))
        return Number(self.country_code, area, suffix, self.suffix_digits, self.area_digits)

    def existing(self, area: int, suffix: int) -> Number | None:
        try:
            return self.number(area, suffix)
        except InvalidNumber:
            return None

    def parse(self, text: str) -> Number:
        """Reads a number in any usual notation. Hidden, short, foreign and impossible ones are errors.

        ``00`` in front counts as ``+``, as most of the world dials it. Codes that hide or show the own number
        (``*67``, ``#31#``) are ignored. Where numbers have no fixed length and a prefix is dialled before the area code
        (Germany's 0), a number without it is refused: it is a local one, whose area code is unknown.
        """
        e164 = self._e164.fullmatch(text) if isinstance(text, str) and not self.lengths else None
        if e164 and (area := int(e164[1])) in self.area_index:
            return self.number(area, int(e164[2]))
        import phonenumbers  # takes half as long to import as the whole client

        try:
            bare = _ABROAD.sub("+", without_codes(text))
            parsed = phonenumbers.parse(bare, self.region)
        except (phonenumbers.NumberParseException, TypeError, AttributeError):
            raise InvalidNumber("number", "be a dialable phone number", text) from None
        digits = phonenumbers.national_significant_number(parsed)
        complete = _INTERNATIONAL.match(bare) or _plain(bare).startswith(self.national_prefix)
        if not complete and len(digits) < self.whole_from:
            raise InvalidNumber("number", f"start with {self.national_prefix}, + or 00", text)
        suffix = digits[self.area_digits :]
        fits = suffix if self.lengths else len(suffix) == self.suffix_digits
        if parsed.country_code != self.country_code or not fits or len(digits) > self.max_digits:
            raise InvalidNumber("number", self._rule, text)
        return self.number(int(digits[: self.area_digits]), numeral(suffix) if self.lengths else int(suffix))

    @cached_property
    def _e164(self) -> re.Pattern[str]:
        area, suffix = self.area_digits, self.suffix_digits
        return re.compile(rf"\+{self.country_code}([1-9][0-9]{{{area - 1}}})([0-9]{{{suffix}}})")

    @property
    def _rule(self) -> str:
        if self.lengths:
            return f"be a number of country code +{self.country_code} with at most {self.max_digits} digits"
        return f"be a {self.max_digits}-digit number of country code +{self.country_code}"

    @property
    def max_digits(self) -> int:
        return self.area_digits + self._longest

    @cached_property
    def _weights(self) -> tuple[int, ...]:
        """Running sums of the complaints, plus one for each area code, so that none is impossible."""
        return tuple(accumulate(count + 1 for count in self.complaints or (0,) * len(self.area_codes)))

    def caller_like(self, rand: ByteSource, home: int | None = None) -> Number:
        """A made-up caller whose area code is as likely as an unwanted caller's. A client without calls announces it.

        With probability 2/5 it is ``home``, the owner's own area code, if the owner has named one. Otherwise the plan's
        complaints decide. The law belongs to the plan and never to a server, which could choose one that tells made-up
        callers from real ones. Always takes 24 bytes. Exact but for 2⁻⁴⁰, which costs no privacy.
        """
        own, place, suffix = words(read(rand, 3 * WORD_BYTES))
        if home is not None and uniform(own, HOME_OF) < HOME_IN:
            area = home
        else:
            area = self.area_codes[bisect_right(self._weights, uniform(place, self._weights[-1]))]
        return self._in_area(area, suffix)

    def reached(self, dialled: str) -> frozenset[Number]:
        """The numbers that an owner may have reached by dialling this. They are never reported, so too many are better.

        >>> from hushcall.protocol.numbers import NANP
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

    def dummy(self, rand: ByteSource, within: int | None = None) -> Number:
        """A uniformly random valid number, in the area code ``within`` if one was announced. Always takes 16 bytes."""
        drawn, suffix = words(read(rand, 16))
        area = self.area_codes[uniform(drawn, len(self.area_codes))] if within is None else within
        return self._in_area(area, suffix)

    def _in_area(self, area: int, word: int) -> Number:
        if not self.lengths or area not in self.area_index:
            return self.number(area, self.first_suffix + uniform(word, self.valid_suffixes))
        place = uniform(word, sum(10**length for length in self.lengths_of(area)))
        for length in self.lengths_of(area):
            if place < 10**length:
                return self.number(area, first_of_length(length) + place)
            place -= 10**length
        raise AssertionError("a place lies in one of the lengths")
