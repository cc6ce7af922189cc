"""What every export shares: a list comes in, a file for some app leaves, and can be read back to check it.

Every export is a function of the list alone: dates are the list's, so equal lists give equal bytes. What is read back
is only the set of numbers (of blocks, where it holds those), and strictly: a line that the writer would not write is an
error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from hushcall import checks
from hushcall.errors import InvalidList
from hushcall.numbers import NANP
from hushcall.numbers.lookalikes import abroad_too
from hushcall.protocol.blocklist import E164, Blocklist, Entry, iso

MARK = "hushcall"
"""The first word of every remark that we write, so that a tool's own entries are never taken for ours."""

WHY = r"hushcall: seen [0-9]+ days? - about [0-9]+ phones? on [0-9]{4}-[0-9]{2}-[0-9]{2}"
"""A regular expression for what :func:`why` says: no comma, quote or line break, so that it needs no escaping."""


NATIONAL_PREFIXES = {"49": "0", "33": "0", "44": "0", "39": "", "34": "", "43": "0", "41": "0", "55": "0", "91": "0"}
"""What is dialled instead of the country code, in the countries whose plans are shipped beside North America's."""


def numbers_of(blocklist: Blocklist) -> frozenset[str]:
    """The numbers of a list: what most exports hold."""
    return frozenset(entry.number for entry in blocklist.entries)


@dataclass(frozen=True)
class Writer:
    """One export: who wants it (``title``), what its file is called, and the two directions.

    ``holds`` says what of a list is in it, and so what is read back.
    """

    name: str
    title: str
    filename: str
    media_type: str
    write: Callable[[Blocklist], bytes]
    read: Callable[[bytes], frozenset[str]]
    holds: Callable[[Blocklist], frozenset[str]] = numbers_of


def why(entry: Entry) -> str:
    """Why a number is listed, in a few words that any app can show.

    >>> why(Entry("+12025550143", 0, 1_800_000_000, 3, 118.2, 97.0, 140.1, 1e-9))
    'hushcall: seen 3 days - about 118 phones on 2027-01-15'
    """
    phones, days = max(1, round(entry.estimate)), entry.days
    counted = f"{days} day{'s' * (days > 1)} - about {phones} phone{'s' * (phones > 1)}"
    return f"{MARK}: seen {counted} on {iso(entry.last)[:10]}"


def shortened(blocklist: Blocklist, limit: int | None) -> Blocklist:
    """The list with its ``limit`` largest entries only, for routers whose lists are short.

    Largest is the estimate; of equals, what was seen on more days, and then the number that comes first. The version
    and the terms stay, so equal lists and limits give equal bytes.
    """
    if limit is None or limit >= len(blocklist.entries):
        return blocklist
    checks.whole("limit", limit, 1)
    ranked = sorted(blocklist.entries, key=lambda entry: (-entry.estimate, -entry.days, entry.number))
    return replace(blocklist, entries=tuple(sorted(ranked[:limit], key=lambda entry: entry.number)))


def text_lines(data: bytes, end: str = "\n") -> list[str]:
    """The lines of an ASCII file, each of them ended by ``end``."""
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        raise InvalidList("export", "be plain ASCII", data) from None
    if text and not text.endswith(end):
        raise InvalidList("export", "end with a line break", text[-20:])
    return text.split(end)[:-1]


def captured(lines: Iterable[str], pattern: re.Pattern[str]) -> list[str]:
    """The first group of a pattern that has to fit each of these lines whole."""
    found = []
    for line in lines:
        match = pattern.fullmatch(line)
        if match is None:
            raise InvalidList("line", f"look like {pattern.pattern}", line)
        found.append(match[1])
    return found


def checked(numbers: Iterable[str]) -> frozenset[str]:
    """These numbers, each valid, none twice."""
    found: set[str] = set()
    for number in numbers:
        if not E164.fullmatch(number):
            raise InvalidList("number", "be a plus and 7 to 15 digits", number)
        if number in found:
            raise InvalidList("number", "stand in the file once", number)
        found.add(number)
    return frozenset(found)


def after_header(lines: list[str], header: str) -> list[str]:
    """What follows a first line that has to be this one."""
    if lines[:1] != [header]:
        raise InvalidList("first line", f"be {header}", lines[0] if lines else "")
    return lines[1:]


def digits(blocklist: Blocklist) -> list[str]:
    """The numbers without their plus, for tools that drop it."""
    return [entry.number[1:] for entry in blocklist.entries]


def with_plus(texts: Iterable[str]) -> frozenset[str]:
    """The inverse of :func:`digits`."""
    return checked(f"+{text}" for text in texts)


def forms(number: str) -> tuple[str, ...]:
    """How a telephone line may present this caller, for tools that compare texts.

    In country 1 also without the 1; elsewhere with 00, and with what is dialled instead of the country code. Digits
    that mean somebody else, too, are left out: +32 3 234 56 78 (Antwerp) without its plus is a number of Los Angeles.

    >>> forms("+12025550143"), forms("+4930123456")
    (('+12025550143', '12025550143', '2025550143'), ('+4930123456', '4930123456', '004930123456', '030123456'))
    >>> forms("+3232345678"), forms("+13232345678")
    (('+3232345678', '003232345678'), ('+13232345678', '13232345678'))
    """
    digits = number[1:]
    if digits[0] == "1":
        return (number, digits) if abroad_too(digits[1:]) else (number, digits, digits[1:])
    code = next((digits[:end] for end in (1, 2, 3) if digits[:end] in NATIONAL_PREFIXES), "")
    national = (NATIONAL_PREFIXES[code] + digits[len(code) :],) if code else ()
    plain = () if len(digits) == 10 and in_north_america(digits) else (digits,)
    return number, *plain, f"00{digits}", *national


def in_north_america(digits: str) -> bool:
    """Whether ten digits are a number of country code 1."""
    return NANP.existing(int(digits[:3]), int(digits[3:])) is not None


def reasons_by_form(blocklist: Blocklist) -> Iterator[tuple[str, str]]:
    """Each form of each number, with why it is listed."""
    for entry in blocklist.entries:
        reason = why(entry)
        for form in forms(entry.number):
            yield form, reason


def numbers_behind(texts: Iterable[str]) -> frozenset[str]:
    """The inverse of :func:`forms` over a whole file: no form may be missing, and none be there without its number."""
    present = list(texts)
    numbers = checked(text for text in present if text.startswith("+"))
    if set(present) != {form for number in numbers for form in forms(number)}:
        raise InvalidList("export", "hold every form of every number, and nothing else", f"{len(present)} texts")
    return numbers


def ninefold(blocklist: Blocklist) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The numbers as contacts of nine, each with a name: address books keep no more numbers of one contact."""
    numbers = [entry.number for entry in blocklist.entries]
    for place, start in enumerate(range(0, len(numbers), 9), 1):
        yield f"{MARK} {place}", tuple(numbers[start : start + 9])
