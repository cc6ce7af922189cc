"""Rented blocks for exchanges: a list comes in, keys like ``4930123456x`` leave, which a caller is looked up under.

An exchange replaces the last digit of a caller's number, or the last two, by ``x`` and looks for just that text. So a
block matches as many digits as its numbers have: prefixes would also match longer ones, which in most countries are
somebody else's. Which blocks there are is :mod:`hushcall.formats.ranges`'s rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from hushcall.errors import InvalidList
from hushcall.formats.blocklists.writer import MARK, Writer, captured, forms, text_lines
from hushcall.formats.ranges import OPEN, Range, ranges_of
from hushcall.protocol.blocklist import Blocklist

WHY = rf"{MARK}: [0-9]+ of (?:10|100) numbers listed"
_LINE = re.compile(rf'database put blacklist-ranges (\+?[0-9]+{OPEN}{{1,2}}) "{WHY}"')
_PATTERN = re.compile(rf"\+[1-9][0-9]{{4,13}}{OPEN}{{1,2}}")
_BEFORE = ["BEGIN;", "DELETE FROM htable WHERE key_value LIKE 'hushcall:%';"]
_INSERT = "INSERT INTO htable (key_name, key_type, value_type, key_value, expires) VALUES "
_ROW = re.compile(rf"{re.escape(_INSERT)}\('([0-9]+{OPEN}{{1,2}})', 0, 0, '{WHY}', 0\);")
_AFTER = ["COMMIT;"]


def patterns(blocklist: Blocklist) -> frozenset[str]:
    """The blocks of a list, such as ``+4930123456x``."""
    return frozenset(block.pattern for block in ranges_of(blocklist).widest)


def why(block: Range) -> str:
    """Why a block is there."""
    return f"{MARK}: {block.listed} of {block.size} numbers listed"


def write_asterisk(blocklist: Blocklist) -> bytes:
    """One command a line, for ``asterisk -rx``: each block in every form that a trunk may present its numbers in."""
    return "".join(
        f'database put blacklist-ranges {form} "{why(block)}"\n'
        for block in ranges_of(blocklist).widest
        for form in block_forms(block.pattern)
    ).encode()


def read_asterisk(data: bytes) -> frozenset[str]:
    """The blocks of such commands: no form may be missing, and none be there without its block."""
    present = captured(text_lines(data), _LINE)
    found = _checked(text for text in present if text.startswith("+"))
    if sorted(present) != sorted(form for pattern in found for form in block_forms(pattern)):
        raise InvalidList("export", "hold every form of every block, and nothing else", f"{len(present)} texts")
    return found


def block_forms(pattern: str) -> tuple[str, ...]:
    """How a line may present numbers of a block: the forms that all of them have.

    >>> block_forms("+1202555014x"), block_forms("+4930123456x")[-1]
    (('+1202555014x', '1202555014x', '202555014x'), '030123456x')
    """
    free = pattern.count(OPEN)
    numbers = Range(pattern[:-free], 0, 0.0, free).numbers
    common = [{f"{form[:-free]}{OPEN * free}" for form in forms(number)} for number in numbers]
    shared = set.intersection(*common)
    return tuple(sorted(shared, key=lambda form: (not form.startswith("+"), -len(form), form)))


def write_kamailio(blocklist: Blocklist) -> bytes:
    """Statements that make our rows of the table ``htable`` equal to the list's blocks."""
    rows = (f"{_INSERT}('{block.pattern[1:]}', 0, 0, '{why(block)}', 0);" for block in ranges_of(blocklist).widest)
    return "".join(f"{line}\n" for line in (*_BEFORE, *rows, *_AFTER)).encode()


def read_kamailio(data: bytes) -> frozenset[str]:
    """The blocks that such statements insert."""
    lines = text_lines(data)
    if lines[:2] != _BEFORE or lines[2:][-1:] != _AFTER:
        raise InvalidList("statements", f"start with {_BEFORE[0]} and a DELETE, and end with {_AFTER[0]}", lines[:2])
    return _checked(f"+{text}" for text in captured(lines[2:-1], _ROW))


def _checked(texts: Iterable[str]) -> frozenset[str]:
    found: set[str] = set()
    for text in texts:
        if not _PATTERN.fullmatch(text) or text in found:
            raise InvalidList("block", "be a plus, digits and one or two x, and stand in the file once", text)
        found.add(text)
    return frozenset(found)


ASTERISK_RANGES = Writer(
    "asterisk-ranges",
    "Asterisk's database: rented blocks",
    "asterisk-ranges.txt",
    "text/plain",
    write_asterisk,
    read_asterisk,
    patterns,
)
KAMAILIO_RANGES = Writer(
    "kamailio-ranges",
    "Kamailio, rented blocks as SQL",
    "kamailio-ranges.sql",
    "application/sql",
    write_kamailio,
    read_kamailio,
    patterns,
)
