"""Kamailio's userblocklist module: a list comes in, SQL or CSV for the table ``globalblocklist`` leaves.

The module matches prefixes of digits and skips a plus; the longest prefix wins. Outside North America a number may be
the beginning of a longer one, so what goes on after a listed number is put on the table's allowlist. The SQL (MySQL,
PostgreSQL and SQLite alike) replaces what an earlier export put there, in one transaction, and leaves the operator's
own rows alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hushcall.errors import InvalidList
from hushcall.formats.blocklists.writer import (
    WHY,
    Writer,
    after_header,
    captured,
    digits,
    text_lines,
    why,
    with_plus,
)
from hushcall.protocol.blocklist import Blocklist

_BEFORE = ["BEGIN;", "DELETE FROM globalblocklist WHERE description LIKE 'hushcall:%';"]
_INSERT = "INSERT INTO globalblocklist (prefix, allowlist, description) VALUES"
_AFTER = ["COMMIT;"]
_VALUES = re.compile(rf"\('([0-9]+)', '[01]', '{WHY}'\)[,;]")
_BATCH = 500
_HEADER = "id,prefix,allowlist,description"
_ROW = re.compile(rf"[0-9]+,([0-9]+),[01],{WHY}")


def write_sql(blocklist: Blocklist) -> bytes:
    """Statements that make our rows of the table equal to the list."""
    values = [f"('{prefix}', '{allow}', '{reason}')" for prefix, allow, reason in _rows(blocklist)]
    lines = list(_BEFORE)
    for start in range(0, len(values), _BATCH):
        batch = values[start : start + _BATCH]
        lines += [_INSERT, *(f"{row}," for row in batch[:-1]), f"{batch[-1]};"]
    return "".join(f"{line}\n" for line in lines + _AFTER).encode()


def read_sql(data: bytes) -> frozenset[str]:
    """The numbers that such statements insert."""
    lines = text_lines(data)
    if lines[:2] != _BEFORE or lines[-1:] != _AFTER:
        raise InvalidList("statements", f"start with {_BEFORE[0]} and a DELETE, and end with {_AFTER[0]}", lines[:2])
    inner = lines[2:-1]
    for place, line in enumerate(inner):
        starts = place == 0 or inner[place - 1].endswith(";")
        if (line == _INSERT) != starts:
            raise InvalidList("line", "be an INSERT exactly where the one before has ended", line)
    if inner and not inner[-1].endswith(";"):
        raise InvalidList("statements", "end with a semicolon", inner[-1])
    return _listed([line for line in inner if line != _INSERT], _VALUES, "', '1', '")


def write_csv(blocklist: Blocklist) -> bytes:
    """The table's columns, for ``LOAD DATA`` and ``COPY``."""
    rows = [f"{row},{prefix},{allow},{reason}" for row, (prefix, allow, reason) in enumerate(_rows(blocklist), 1)]
    return "".join(f"{line}\n" for line in (_HEADER, *rows)).encode()


def read_csv(data: bytes) -> frozenset[str]:
    """The numbers of such a file, as the app would take them: how tests check what was written."""
    return _listed(after_header(text_lines(data), _HEADER), _ROW, ",1,")


def _rows(blocklist: Blocklist) -> Iterator[tuple[str, int, str]]:
    """What the table holds: a prefix, whether it is allowed, and why."""
    listed = frozenset(digits(blocklist))
    for entry in blocklist.entries:
        prefix, reason = entry.number[1:], why(entry)
        yield prefix, 0, reason
        if not prefix.startswith("1"):
            yield from ((longer, 1, reason) for longer in _longer(prefix) if longer not in listed)


def _longer(prefix: str) -> tuple[str, ...]:
    return tuple(f"{prefix}{digit}" for digit in range(10))


def _listed(lines: list[str], pattern: re.Pattern[str], allowed: str) -> frozenset[str]:
    """The numbers of such rows; what is allowed has to be what goes on after them, and nothing else."""
    found = captured(lines, pattern)
    let_pass = {text for text, line in zip(found, lines, strict=True) if allowed in line}
    numbers = with_plus(text for text in found if text not in let_pass)
    bare = {number[1:] for number in numbers}
    if let_pass != {longer for text in bare if text[0] != "1" for longer in _longer(text)} - bare:
        raise InvalidList("rows", "allow what goes on after a listed number, and nothing else", f"{len(let_pass)} rows")
    return numbers


KAMAILIO = Writer("kamailio", "Kamailio, as SQL", "kamailio.sql", "application/sql", write_sql, read_sql)
KAMAILIO_CSV = Writer("kamailio-csv", "Kamailio, as CSV", "kamailio.csv", "text/csv", write_csv, read_csv)
