"""``hushcall plan-of``: a region comes in, its numbering plan leaves, drawn from phonenumberslite's metadata.

The metadata has a regular expression for each type of number. Walked through as automata, they say for each first few
digits how many digits may follow: that is the plan. Where landlines and mobiles have one length, as in France, so has
the plan, and a suffix is seven digits; elsewhere the first three digits are the area code, and up to eight follow.
Numbers that are longer than that (some of Germany's and Austria's, behind a company's exchange) are not in the plan.
"""

from __future__ import annotations

import re._constants as c  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterable, Iterator
from typing import Any

from phonenumbers import COUNTRY_CODE_TO_REGION_CODE, PhoneMetadata

from hushcall.errors import InvalidParameter
from hushcall.numbers.plan_files import FORMAT, NAME_DIGITS, digest_of

TYPES = (
    *("fixed_line", "mobile", "toll_free", "premium_rate", "shared_cost", "voip", "personal_number"),
    *("pager", "uan", "voicemail"),
)
SHORTEST_WHOLE = 9
FIXED_SUFFIX, MOST_SUFFIX, AREA_DIGITS = 7, 8, 3
States = frozenset[int]


def plan_document(region: str, digits: int = NAME_DIGITS) -> dict[str, Any]:
    """A region's plan as plain data, its name with so many ``digits`` of its digest.

    :func:`hushcall.numbers.plan_files.read_plan` makes a plan of it.
    """
    metadata: Any = PhoneMetadata.metadata_for_region(region.upper())
    if metadata is None:
        raise InvalidParameter("region", "be one that phonenumberslite knows, like DE", region)
    usual = {length for kind in ("fixed_line", "mobile") for length in getattr(metadata, kind).possible_length}
    fixed = len(usual) == 1
    width = max(usual) - FIXED_SUFFIX if fixed else AREA_DIGITS
    lengths = sorted(usual) if fixed else range(width + 1, width + MOST_SUFFIX + 1)
    areas = dict(_areas(metadata.country_code, width, lengths))
    document = {
        "format": FORMAT,
        "region": region.upper(),
        "country_code": metadata.country_code,
        "national_prefix": metadata.national_prefix or "",
        "whole_from": _whole_from(metadata.national_prefix, usual),
        "area_digits": width,
        "suffix_digits": FIXED_SUFFIX if fixed else 0,
        "areas": areas,
    }
    return {"name": f"{region.lower()}-{digest_of(document)[:digits]}", **document}


def _whole_from(prefix: str | None, usual: set[int]) -> int:
    """From how many digits on a number without the national prefix is whole.

    Where the shortest numbers have nine digits or more, nothing that is dialled among neighbours is as long. Elsewhere
    a neighbour's number may have as many digits as a whole one, and only the prefix tells.
    """
    if not prefix:
        return 0
    return min(usual) if min(usual) >= SHORTEST_WHOLE else max(usual) + 1


def _areas(country_code: int, width: int, lengths: Iterable[int]) -> Iterator[tuple[str, str]]:
    """Each beginning that some number has, and the lengths of what may follow, as a text of digits."""
    kinds = list(_patterns(country_code))
    for first in range(10**width):
        digits = f"{first:0{width}d}"
        found = {
            length - width
            for automaton, possible in kinds
            for length in automaton.lengths_after(digits, max(lengths))
            if length in possible and length in lengths
        }
        if found:
            yield digits, "".join(map(str, sorted(found)))


def _patterns(country_code: int) -> Iterator[tuple[_Automaton, tuple[int, ...]]]:
    for region in COUNTRY_CODE_TO_REGION_CODE[country_code]:
        metadata = PhoneMetadata.metadata_for_region(region)
        for kind in TYPES if metadata else ():
            described = getattr(metadata, kind)
            if described is not None and described.national_number_pattern:
                yield _Automaton(described.national_number_pattern), described.possible_length


class _Automaton:
    """A regular expression over digits, walked through a set of states at a time."""

    def __init__(self, pattern: str) -> None:
        self.moves: list[list[tuple[frozenset[str], int]]] = [[]]
        self.free: list[list[int]] = [[]]
        self.end = self._sequence(parser.parse(pattern), 0)

    def lengths_after(self, digits: str, most: int) -> Iterator[int]:
        """The lengths, up to ``most``, of texts that match and begin with these digits."""
        states = self._closed({0})
        for digit in digits:
            states = self._closed({to for at in states for allowed, to in self.moves[at] if digit in allowed})
        for length in range(len(digits), most + 1):
            if self.end in states:
                yield length
            states = self._closed({to for at in states for _, to in self.moves[at]})

    def _closed(self, states: set[int]) -> States:
        todo, seen = list(states), set(states)
        while todo:
            for to in self.free[todo.pop()]:
                if to not in seen:
                    seen.add(to)
                    todo.append(to)
        return frozenset(seen)

    def _new(self) -> int:
        self.moves.append([])
        self.free.append([])
        return len(self.moves) - 1

    def _sequence(self, parts: Iterable[Any], at: int) -> int:
        for operation, argument in parts:
            at = self._part(operation, argument, at)
        return at

    def _part(self, operation: Any, argument: Any, at: int) -> int:
        if operation in (c.LITERAL, c.IN, c.ANY):
            to = self._new()
            self.moves[at].append((_digits(operation, argument), to))
            return to
        if operation is c.SUBPATTERN:
            return self._sequence(argument[-1], at)
        if operation is c.BRANCH:
            to = self._new()
            for way in argument[1]:
                self.free[self._sequence(way, at)].append(to)
            return to
        if operation is c.MAX_REPEAT:
            least, most, parts = argument
            return self._repeat(least, most, parts, at)
        raise InvalidParameter("pattern", "be made of digits, groups, choices and repetitions", str(operation))

    def _repeat(self, least: int, most: int, parts: Any, at: int) -> int:
        for _ in range(least):
            at = self._sequence(parts, at)
        to = self._new()
        self.free[at].append(to)
        for _ in range(min(most, 20) - least):  # no number is longer
            at = self._sequence(parts, at)
            self.free[at].append(to)
        return to


def _digits(operation: Any, argument: Any) -> frozenset[str]:
    if operation is c.ANY:
        return frozenset("0123456789")
    if operation is c.LITERAL:
        return frozenset(chr(argument))
    found: set[str] = set()
    for kind, value in argument:
        if kind is c.LITERAL:
            found.add(chr(value))
        elif kind is c.RANGE:
            found |= {chr(code) for code in range(value[0], value[1] + 1)}
        elif kind is c.CATEGORY and value is c.CATEGORY_DIGIT:
            found |= set("0123456789")
        else:
            raise InvalidParameter("pattern", "have only digits in its classes", str(kind))
    return frozenset(found)
