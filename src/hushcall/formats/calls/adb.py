"""A computer reads this over a cable: ``adb shell content query --uri content://call_log/calls``, a row a line.

``Row: 0 number=+12025550143, date=1709287872000, type=3, presentation=1, name=NULL``: any columns in any order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import tzinfo

from hushcall.errors import InvalidData
from hushcall.formats.calls.android import CODES, android_call, presentation
from hushcall.formats.calls.call import Call, CallKind
from hushcall.formats.calls.reader import LogReader
from hushcall.formats.calls.texts import first_lines

_ROW = re.compile(r"Row: \d+ (.*)", re.DOTALL)
# A column starts after a comma: a name may hold commas, and "name=" is also the end of "call_screening_app_name=".
_COLUMN = re.compile(r"(?:^|, )([a-z][a-z0-9_]*|_id)=")
_EMPTY = "No result found."


def _columns(line: str) -> dict[str, str]:
    row = _ROW.fullmatch(line)
    if row is None:
        raise InvalidData("line", "start with Row: and its number", f"{len(line)} characters")
    parts = _COLUMN.split(row[1])
    names, values = parts[1::2], parts[2::2]
    if len(set(names)) < len(names):
        raise InvalidData("row", "have each column once", f"{len(names)} columns")
    return {name: "" if value == "NULL" else value for name, value in zip(names, values, strict=True)}


def _parse(line: str, _zone: tzinfo) -> Call | None:
    if line.strip() == _EMPTY:
        return None
    columns = _columns(line)
    return android_call(columns, columns.get("name", ""))


def _sniff(head: bytes) -> bool:
    first = first_lines(head)
    return any(_ROW.fullmatch(line) and "date=" in line for line in first) or first == [_EMPTY]


def _render(calls: Sequence[Call], _zone: tzinfo) -> bytes:
    return "".join(
        f"Row: {place} number={call.number}, date={1000 * call.at}, type={CODES[call.kind]}, "
        f"presentation={presentation(call)}, name={call.name or 'NULL'}\n"
        for place, call in enumerate(calls)
    ).encode()


ADB = LogReader(
    name="adb",
    title="adb content query",
    files=("call_log*.txt", "calls*.txt"),
    sniff=_sniff,
    parse=_parse,
    render=_render,
    kinds=frozenset(CallKind),
    closed=False,
)
