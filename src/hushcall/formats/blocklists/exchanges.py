"""Telephone exchanges: Asterisk, FreePBX, Kamailio and the caller-ID server NCID.

Asterisk and FreePBX compare a caller's number as a text, so every number is there in every form that a trunk may use.
Rented blocks (:mod:`hushcall.formats.ranges`) are keys like ``4930123456x``: an exchange replaces the last digit of a
caller's number, or the last two, by ``x`` and looks that text up. A prefix would also match longer numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from phonenumbers import COUNTRY_CODE_TO_REGION_CODE, PhoneMetadata

from hushcall.formats.blocklists.writer import MARK, Writer, why
from hushcall.formats.ranges import Range, ranges_of
from hushcall.protocol.blocklist import Blocklist
from hushcall.protocol.items import OPEN
from hushcall.protocol.numbers import NANP

NATIONAL_PREFIXES = {"49": "0", "33": "0", "44": "0", "39": "", "34": "", "43": "0", "41": "0", "55": "0", "91": "0"}
"""What is dialled instead of the country code, in the countries whose plans are shipped beside North America's."""
_TYPES = ("fixed_line", "mobile", "toll_free", "premium_rate", "shared_cost", "voip", "personal_number", "uan")
_SQL_BATCH = 500


def abroad_too(digits: str) -> bool:
    """Whether a plus in front of these digits makes a valid number of some country.

    >>> abroad_too("3232345678"), abroad_too("2025550143")
    (True, False)
    """
    return any(
        pattern.fullmatch(digits, length) is not None
        for length in (1, 2, 3)
        for pattern in _patterns(digits[:length], len(digits) - length)
    )


@cache
def _patterns(code: str, length: int) -> tuple[re.Pattern[str], ...]:
    regions = () if code == "1" else COUNTRY_CODE_TO_REGION_CODE.get(int(code), ())
    patterns = []
    for region in regions:
        metadata = PhoneMetadata.metadata_for_region(region)
        for kind in _TYPES if metadata else ():
            described = getattr(metadata, kind)
            if described and described.national_number_pattern and length in described.possible_length:
                patterns.append(re.compile(described.national_number_pattern))
    return tuple(patterns)


def forms(number: str) -> tuple[str, ...]:
    """The texts as which a trunk may present a caller.

    In country 1 also without the 1. Elsewhere with 00, and with what is dialled instead of the country code. Digits
    that are another number, too, are left out: +32 3 234 56 78 (Antwerp) without its plus is a number of Los Angeles.

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
    north_american = len(digits) == 10 and NANP.existing(int(digits[:3]), int(digits[3:])) is not None
    plain = () if north_american else (digits,)
    return number, *plain, f"00{digits}", *national


def block_forms(pattern: str) -> tuple[str, ...]:
    """The forms that all numbers of a block have.

    >>> block_forms("+1202555014x"), block_forms("+4930123456x")[-1]
    (('+1202555014x', '1202555014x', '202555014x'), '030123456x')
    """
    free = pattern.count(OPEN)
    numbers = Range(pattern[:-free], 0, 0.0, free).numbers
    common = set.intersection(*({f"{form[:-free]}{OPEN * free}" for form in forms(number)} for number in numbers))
    return tuple(sorted(common, key=lambda form: (not form.startswith("+"), -len(form), form)))


def _forms_of_all(blocklist: Blocklist) -> Iterator[tuple[str, str]]:
    return ((form, why(entry)) for entry in blocklist.entries for form in forms(entry.number))


def _why_block(block: Range) -> str:
    return f"{MARK}: {block.why}"


def _asterisk(blocklist: Blocklist) -> bytes:
    """Commands for ``asterisk -rx`` that fill the family ``blacklist`` of its database."""
    return _puts("blacklist", _forms_of_all(blocklist))


def _asterisk_ranges(blocklist: Blocklist) -> bytes:
    blocks = ranges_of(blocklist).everywhere
    rows = ((form, _why_block(block)) for block in blocks for form in block_forms(block.pattern))
    return _puts("blacklist-ranges", rows)


def _puts(family: str, rows: Iterable[tuple[str, str]]) -> bytes:
    return "".join(f'database put {family} {key} "{reason}"\n' for key, reason in rows).encode()


def _freepbx(blocklist: Blocklist) -> bytes:
    rows = (f"{form},{reason}" for form, reason in _forms_of_all(blocklist))
    return "".join(f"{line}\n" for line in ("number,description", *rows)).encode()


def _kamailio_rows(blocklist: Blocklist) -> Iterator[tuple[str, int, str]]:
    """Rows of the table ``globalblocklist`` of Kamailio's module userblocklist: prefix, allowed or not, and why.

    The module matches prefixes of digits, and the longest prefix wins. Outside North America a number may be the
    beginning of a longer one, so all its continuations are allowed.
    """
    listed = {entry.number[1:] for entry in blocklist.entries}
    for entry in blocklist.entries:
        prefix, reason = entry.number[1:], why(entry)
        yield prefix, 0, reason
        if not prefix.startswith("1"):
            longer = (f"{prefix}{digit}" for digit in range(10))
            yield from ((continuation, 1, reason) for continuation in longer if continuation not in listed)


def _kamailio(blocklist: Blocklist) -> bytes:
    """SQL (MySQL, PostgreSQL and SQLite alike) that replaces our rows in one transaction, and no other rows."""
    values = [f"('{prefix}', '{allow}', '{reason}')" for prefix, allow, reason in _kamailio_rows(blocklist)]
    lines = ["BEGIN;", "DELETE FROM globalblocklist WHERE description LIKE 'hushcall:%';"]
    for start in range(0, len(values), _SQL_BATCH):
        batch = values[start : start + _SQL_BATCH]
        insert = "INSERT INTO globalblocklist (prefix, allowlist, description) VALUES"
        lines += [insert, *(f"{row}," for row in batch[:-1]), f"{batch[-1]};"]
    return "".join(f"{line}\n" for line in (*lines, "COMMIT;")).encode()


def _kamailio_csv(blocklist: Blocklist) -> bytes:
    numbered = enumerate(_kamailio_rows(blocklist), 1)
    rows = (f"{place},{prefix},{allow},{reason}" for place, (prefix, allow, reason) in numbered)
    return "".join(f"{line}\n" for line in ("id,prefix,allowlist,description", *rows)).encode()


def _kamailio_ranges(blocklist: Blocklist) -> bytes:
    insert = "INSERT INTO htable (key_name, key_type, value_type, key_value, expires) VALUES "
    rows = (
        f"{insert}('{block.pattern[1:]}', 0, 0, '{_why_block(block)}', 0);" for block in ranges_of(blocklist).everywhere
    )
    before = ("BEGIN;", "DELETE FROM htable WHERE key_value LIKE 'hushcall:%';")
    return "".join(f"{line}\n" for line in (*before, *rows, "COMMIT;")).encode()


def _ncid(blocklist: Blocklist) -> bytes:
    """One regular expression a line with a remark, which NCID shows and cuts off after fifty characters.

    NCID matches parts of numbers: a caret anchors the expression at the start. In country 1 a ``^1?`` matches numbers
    with and without the 1, unless the digits without it are a number of another country.
    """
    lines: list[str] = []
    for entry in blocklist.entries:
        digits, remark = entry.number[1:], why(entry).replace(" seen", "").partition(" on ")[0]
        if digits.startswith("1") and not abroad_too(digits[1:]):
            digits = f"1?{digits[1:]}"
        lines.append(f"^{digits} #= {remark}\n")
    return "".join(lines).encode()


WRITERS = (
    Writer("asterisk", "Asterisk's database", "asterisk.txt", "text/plain", _asterisk),
    Writer(
        "asterisk-ranges", "Asterisk's database: rented blocks", "asterisk-ranges.txt", "text/plain", _asterisk_ranges
    ),
    Writer("freepbx", "FreePBX", "freepbx.csv", "text/csv", _freepbx),
    Writer("kamailio", "Kamailio, as SQL", "kamailio.sql", "application/sql", _kamailio),
    Writer("kamailio-csv", "Kamailio, as CSV", "kamailio.csv", "text/csv", _kamailio_csv),
    Writer(
        "kamailio-ranges", "Kamailio, rented blocks as SQL", "kamailio-ranges.sql", "application/sql", _kamailio_ranges
    ),
    Writer("ncid", "NCID", "ncidd.blacklist", "text/plain", _ncid),
)
