"""An iPhone backup's ``CallHistory.storedata``: a SQLite database, opened in memory and only read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call, CallKind, clean_name, clean_number
from hushcall.formats.calls.dates import duration_seconds
from hushcall.formats.calls.reader import FileReader

if TYPE_CHECKING:
    import sqlite3

_TITLE = "iOS call history"
_MAGIC = b"SQLite format 3\x00"
_EPOCH = 978_307_200  # Apple counts seconds from 2001-01-01
_REQUIRED = ("ZADDRESS", "ZDATE", "ZORIGINATED")
# Some versions lack these columns. Answered and missed calls count alike.
_DEFAULTS = {"ZANSWERED": "1", "ZNAME": "NULL", "ZDURATION": "NULL"}
_MAX_VALUE_BYTES = 1_000_000


def _split(data: bytes) -> Iterator[tuple[Any, ...]]:
    import sqlite3

    if not data.startswith(_MAGIC):
        raise InvalidData(f"{_TITLE} file", "be a SQLite database", f"{len(data)} bytes of something else")
    # Bytes 18 and 19 say that there is a write-ahead log beside the file. It is not here, and a database in memory
    # cannot have one, so the copy says otherwise.
    plain = data[:18] + b"\x01\x01" + data[20:]
    try:
        with closing(sqlite3.connect(":memory:")) as database:
            database.deserialize(plain)
            database.execute("PRAGMA trusted_schema = OFF")
            database.execute("PRAGMA query_only = ON")
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
            database.text_factory = lambda raw: raw.decode("utf-8", "replace")
            yield from _rows(database)
    # The last two: SQLite's message may quote damaged text, and a damaged record may claim any size.
    except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeDecodeError, MemoryError):
        raise InvalidData(f"{_TITLE} file", "be an undamaged SQLite database", f"{len(data)} bytes") from None


def _rows(database: sqlite3.Connection) -> Iterable[tuple[Any, ...]]:
    schema = database.execute("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'ZCALLRECORD'").fetchone()
    # A view or a virtual table of this name would run somebody's code.
    if schema is None or not str(schema[0]).upper().startswith("CREATE TABLE"):
        raise InvalidData(f"{_TITLE} file", "have a table ZCALLRECORD", "none")
    columns = {str(row[1]) for row in database.execute("PRAGMA table_info(ZCALLRECORD)")}
    if not columns.issuperset(_REQUIRED):
        raise InvalidData(f"{_TITLE} table", f"have the columns {', '.join(_REQUIRED)}", f"{len(columns)} others")
    optional = (name if name in columns else default for name, default in _DEFAULTS.items())
    query = f"SELECT {', '.join((*_REQUIRED, *optional))} FROM ZCALLRECORD ORDER BY rowid"  # noqa: S608 (our own words only)
    return database.execute(query)


def _text(value: Any) -> str:
    """Addresses are texts in some versions of iOS and bytes in others."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def _parse(row: tuple[Any, ...], _zone: tzinfo) -> Call:
    address, date, originated, answered, name, duration = row
    if not isinstance(date, int | float) or not math.isfinite(date):
        raise InvalidData("date", "be a number of seconds", type(date).__name__)
    kind = CallKind.OUTGOING if originated else CallKind.INCOMING if answered else CallKind.MISSED
    number, start = clean_number(_text(address)), math.floor(date + _EPOCH)
    return Call(number, start, kind, clean_name(_text(name)), duration_seconds(_text(duration)))


IOS = FileReader("ios", _TITLE, lambda head: head.startswith(_MAGIC), _split, _parse)
