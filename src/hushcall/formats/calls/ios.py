"""An iPhone's backup has this: CallHistory.storedata, a SQLite database. It is opened in memory and only read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import tzinfo
from typing import Any

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call, CallKind, known_name, known_number
from hushcall.formats.calls.reader import FileReader

_TITLE = "iOS call history"
_MAGIC = b"SQLite format 3\x00"
_EPOCH = 978_307_200  # Apple counts seconds from 2001-01-01
_NEEDED = ("ZADDRESS", "ZDATE", "ZORIGINATED")
# Some versions lack these. A call that nothing says was answered came in all the same: both kinds count alike.
_OTHERWISE = {"ZANSWERED": "1", "ZNAME": "NULL"}
_LONGEST_VALUE = 1_000_000
_MAKE = "CREATE TABLE ZCALLRECORD (Z_PK INTEGER PRIMARY KEY, ZANSWERED INTEGER, ZORIGINATED INTEGER, ZDATE TIMESTAMP, "


def _split(data: bytes) -> Iterator[tuple[Any, ...]]:
    import sqlite3  # only those who read a database pay for it

    if not data.startswith(_MAGIC):
        raise InvalidData(f"{_TITLE} file", "be a SQLite database", f"{len(data)} bytes of something else")
    # Bytes 18 and 19 say that there is a write-ahead log beside the file. It did not come along, and a database in
    # memory cannot have one, so the copy says otherwise.
    plain = data[:18] + b"\x01\x01" + data[20:]
    try:
        with closing(sqlite3.connect(":memory:")) as database:
            database.deserialize(plain)
            database.execute("PRAGMA trusted_schema = OFF")
            database.execute("PRAGMA query_only = ON")
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
            database.text_factory = lambda raw: raw.decode("utf-8", "replace")
            yield from _rows(database)
    # The last two: SQLite's message may quote damaged text, and a damaged record may claim any size.
    except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeDecodeError, MemoryError):
        raise InvalidData(f"{_TITLE} file", "be an undamaged SQLite database", f"{len(data)} bytes") from None


def _rows(database: Any) -> Iterable[tuple[Any, ...]]:
    made = database.execute("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'ZCALLRECORD'").fetchone()
    # A view or a virtual table of this name would run somebody's code.
    if made is None or not str(made[0]).upper().startswith("CREATE TABLE"):
        raise InvalidData(f"{_TITLE} file", "have a table ZCALLRECORD", "none")
    columns = {str(row[1]) for row in database.execute("PRAGMA table_info(ZCALLRECORD)")}
    if not columns.issuperset(_NEEDED):
        raise InvalidData(f"{_TITLE} table", f"have the columns {', '.join(_NEEDED)}", f"{len(columns)} others")
    others = (name if name in columns else instead for name, instead in _OTHERWISE.items())
    query = f"SELECT {', '.join((*_NEEDED, *others))} FROM ZCALLRECORD ORDER BY rowid"  # noqa: S608 (our own words only)
    return database.execute(query)  # type: ignore[no-any-return]


def _text(value: Any) -> str:
    """Addresses are texts in some versions of iOS and bytes in others."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def _parse(row: tuple[Any, ...], _zone: tzinfo) -> Call:
    address, date, originated, answered, name = row
    if not isinstance(date, int | float) or not math.isfinite(date):
        raise InvalidData("date", "be a number of seconds", type(date).__name__)
    kind = CallKind.OUTGOING if originated else CallKind.INCOMING if answered else CallKind.MISSED
    return Call(known_number(_text(address)), math.floor(date + _EPOCH), kind, known_name(_text(name)))


def _sniff(head: bytes) -> bool:
    return head.startswith(_MAGIC)


def _render(calls: Sequence[Call], _zone: tzinfo) -> bytes:
    import sqlite3

    rows = [
        (
            call.kind == CallKind.INCOMING,
            call.kind == CallKind.OUTGOING,
            call.at - _EPOCH,
            call.number,
            call.name or None,
        )
        for call in calls
    ]
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(_MAKE + "ZADDRESS VARCHAR, ZNAME VARCHAR)")
        insert = "INSERT INTO ZCALLRECORD (ZANSWERED, ZORIGINATED, ZDATE, ZADDRESS, ZNAME) VALUES (?, ?, ?, ?, ?)"
        database.executemany(insert, rows)
        database.commit()
        return database.serialize()


IOS = FileReader(
    name="ios",
    title=_TITLE,
    files=("*.storedata", "5a4935c78a5255723f707230a451d79c540d2741"),
    sniff=_sniff,
    split=_split,
    parse=_parse,
    render=_render,
    kinds=frozenset((CallKind.INCOMING, CallKind.OUTGOING, CallKind.MISSED)),
)
