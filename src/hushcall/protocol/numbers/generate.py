"""``hushcall plan-of``: the numbering plan of a region, drawn from phonenumberslite's metadata.

The metadata has a regular expression for each type of number. They tell for each first few digits how many digits may
follow: that is the plan. Where landlines and mobiles have one length, as in France, so has the plan, and a
suffix is seven digits. Elsewhere the first three digits are the area code, and up to eight follow. Longer numbers (some
of Germany's and Austria's, behind a company's exchange) are not in the plan.
"""

from __future__ import annotations

import re._constants as c  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from phonenumbers import COUNTRY_CODE_TO_REGION_CODE, PhoneMetadata

from hushcall.errors import InvalidParameter
from hushcall.protocol.numbers.plans import FORMAT, NAME_DIGITS, digest_of

TYPES = (
    *("fixed_line", "mobile", "toll_free", "premium_rate", "shared_cost", "voip", "personal_number"),
    *("pager", "uan", "voicemail"),
)
SHORTEST_WHOLE = 9
FIXED_SUFFIX, MAX_SUFFIX, AREA_DIGITS = 7, 8, 3
Pattern: TypeAlias = Iterable[tuple[Any, Any]]
"""A parsed regular expression."""


def plan_document(region: str, digits: int = NAME_DIGITS) -> dict[str, Any]:
    """A region's plan as plain data, its name with so many ``digits`` of its digest."""
    metadata: Any = PhoneMetadata.metadata_for_region(region.upper())
    if metadata is None:
        raise InvalidParameter("region", "be one that phonenumberslite knows, like DE", region)
    usual = {length for kind in ("fixed_line", "mobile") for length in getattr(metadata, kind).possible_length}
    fixed = len(usual) == 1
    width = max(usual) - FIXED_SUFFIX if fixed else AREA_DIGITS
    lengths = sorted(usual) if fixed else range(width + 1, width + MAX_SUFFIX + 1)
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
    """The digits from which a number without the national prefix is complete.

    Where the shortest numbers have nine digits or more, no local number is as long. Elsewhere a local number may have
    as many digits as a complete one, and only the prefix tells.
    """
    if not prefix:
        return 0
    return min(usual) if min(usual) >= SHORTEST_WHOLE else max(usual) + 1


def _areas(country_code: int, width: int, lengths: Iterable[int]) -> Iterator[tuple[str, str]]:
    """(area code, the lengths of its suffixes as a text of digits)."""
    kinds = list(_patterns(country_code))
    for first in range(10**width):
        digits = f"{first:0{width}d}"
        suffix_lengths = {
            length - width
            for pattern, possible in kinds
            for length in _lengths(pattern, {0}, digits, max(lengths))
            if length in possible and length in lengths
        }
        if suffix_lengths:
            yield digits, "".join(map(str, sorted(suffix_lengths)))


def _patterns(country_code: int) -> Iterator[tuple[Pattern, tuple[int, ...]]]:
    for region in COUNTRY_CODE_TO_REGION_CODE[country_code]:
        metadata = PhoneMetadata.metadata_for_region(region)
        for kind in TYPES if metadata else ():
            described = getattr(metadata, kind)
            if described is not None and described.national_number_pattern:
                yield parser.parse(described.national_number_pattern), described.possible_length


def _lengths(pattern: Pattern, starts: set[int], digits: str, longest: int) -> set[int]:
    """How long a text may be once it matches, where it was as long as one of ``starts`` before.

    Its first characters are ``digits``. What follows them may be any digit, up to ``longest`` in all.
    """
    ends = starts
    for operation, argument in pattern:
        if not ends:
            return ends
        if operation in (c.LITERAL, c.IN, c.ANY):
            allowed = _digits(operation, argument)
            ends = {at + 1 for at in ends if at < longest and (at >= len(digits) or digits[at] in allowed)}
        elif operation is c.SUBPATTERN:
            ends = _lengths(argument[-1], ends, digits, longest)
        elif operation is c.BRANCH:
            ends = set[int]().union(*(_lengths(way, ends, digits, longest) for way in argument[1]))
        elif operation is c.MAX_REPEAT:
            lowest, highest, repeated = argument
            ends = _repeated(repeated, lowest, highest, ends, digits, longest)
        else:
            raise InvalidParameter("pattern", "be made of digits, groups, choices and repetitions", str(operation))
    return ends


def _repeated(pattern: Pattern, lowest: int, highest: int, starts: set[int], digits: str, longest: int) -> set[int]:
    ends, here = set[int](), starts
    for times in range(min(highest, longest) + 1):
        ends |= here if times >= lowest else set()
        here = _lengths(pattern, here, digits, longest)
    return ends


def _digits(operation: Any, argument: Any) -> set[str]:
    if operation is c.ANY:
        return set("0123456789")
    digits: set[str] = set()
    for kind, value in argument if operation is c.IN else ((operation, argument),):
        if kind is c.LITERAL:
            digits.add(chr(value))
        elif kind is c.RANGE:
            digits |= {chr(code) for code in range(value[0], value[1] + 1)}
        elif kind is c.CATEGORY and value is c.CATEGORY_DIGIT:
            digits |= set("0123456789")
        else:
            raise InvalidParameter("pattern", "have only digits in its classes", str(kind))
    return digits
