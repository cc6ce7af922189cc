"""Reads call logs and contacts into the store. A growing log is read from where the last run stopped.

A cursor holds while the file has the same inode, begins with the same bytes and has not shrunk. Otherwise the log was
rotated: it is read from its start, after the unread end of the file that was set aside. Calls are recorded before the
cursor moves, and recording a call twice changes nothing.
"""

from __future__ import annotations

import csv
import glob
import hashlib
import json
import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from hushcall.client.calls import candidates
from hushcall.client.calls.candidates import Ingested
from hushcall.client.storage.store import Store
from hushcall.errors import InvalidData, InvalidParameter
from hushcall.formats.calls.call import ReadResult
from hushcall.formats.calls.reader import Reader
from hushcall.formats.calls.text import HEAD_BYTES
from hushcall.protocol.numbers import NumberingPlan

if TYPE_CHECKING:
    from hushcall.formats.calls.named_columns import Columns

GUESS = "guess"  # takes the guess which an error showed


@dataclass(frozen=True, slots=True)
class IngestedLog:
    format: str
    counts: Ingested
    malformed: int
    first_problem: str  # the place and the broken rule, never a phone number
    local: bool = False  # whether its times have no time zone


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a file was read. ``head`` is the digest of the part of its first bytes that was read."""

    format: str
    inode: int
    size: int
    offset: int
    head: str


def ingest_log(
    store: Store,
    log: Path | bytes,
    plan: NumberingPlan,
    now: int,
    form: str | None = None,
    zone: tzinfo = UTC,
    *,
    columns: str | None = None,
    again: bool = False,
) -> IngestedLog:
    """Record the new calls of a file, or all calls of bytes. ``columns``: as :func:`reader_for` takes them."""
    if isinstance(log, bytes):
        reader = reader_for(store, log[:HEAD_BYTES], zone, form, "", columns)
        result = reader.read(log, zone) if reader else ReadResult()
        counts = candidates.ingest(store, result.calls, plan, now)
    else:
        last = None if again else load_cursor(store, log)
        reader = reader_for(store, _head(log), zone, form or (last.format if last else None), log.name, columns)
        result, cursor = read_after(log, last, reader, zone)
        counts = candidates.ingest(store, result.calls, plan, now)
        save_cursor(store, log, cursor)
    local = reader is not None and reader.local
    return IngestedLog(result.format, counts, result.malformed, result.first_problem, local)


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError as error:
        raise InvalidData("call log", f"be readable ({error.strerror})", path.name) from None


def ingest_contacts(store: Store, path: Path, plan: NumberingPlan) -> dict[str, int]:
    """Returns how many ``numbers`` of the plan the file held, and its ``malformed`` entries."""
    from hushcall.formats.calls.contacts import read_contacts

    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidData("contacts", f"be readable ({error.strerror})", path.name) from None
    result = read_contacts(data)
    return {"numbers": candidates.add_contacts(store, result.numbers, plan), "malformed": result.malformed}


def zone_of_logs(store: Store, name: str | None = None) -> tzinfo:
    """The zone of logs in local time: ``name``, which is remembered, or the remembered one, or this machine's."""
    from zoneinfo import ZoneInfo

    used = name or store.get("zone")
    if not used:
        return machine_zone()
    try:
        zone = ZoneInfo(used)
    except (KeyError, ValueError, OSError):
        raise InvalidParameter("zone", "be a time zone like Europe/Berlin", used) from None
    if name:
        store.put("zone", name)
    return zone


def machine_zone() -> tzinfo:
    from zoneinfo import ZoneInfo

    name = os.environ.get("TZ", "").lstrip(":") or os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return datetime.now().astimezone().tzinfo or UTC


def stamp(path: Path) -> tuple[int, int, int] | None:
    """Changes whenever a file does. None while there is no file, as in the middle of a rotation."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def read_after(
    path: Path, last: Cursor | None, reader: Reader | None = None, zone: tzinfo = UTC
) -> tuple[ReadResult, Cursor]:
    """The calls of a log beyond its cursor, and the cursor to save once those calls are recorded."""
    from hushcall.formats.calls.named_columns import NAMED_COLUMNS
    from hushcall.formats.calls.reading import detect, reader_named  # all formats at once

    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            status = path.stat()
            if reader is None:
                if not head.strip():
                    return ReadResult(), Cursor("", status.st_ino, 0, 0, _digest(head, 0))
                reader = reader_named(last.format) if last and last.format else detect(head, path.name)
                if reader is NAMED_COLUMNS:
                    raise InvalidData("table", "have its columns named (hushcall phone ingest --columns)", path.name)
            if last is not None and (last.format != reader.name or not reader.grows):
                last = None
            start = last.offset if last is not None and _continues(last, status, head) else 0
            file.seek(start)
            data = file.read()
    except OSError as error:
        raise InvalidData("call log", f"be readable ({error.strerror})", path.name) from None
    result = reader.read(data, zone, chunk=last is not None)  # a new file of a known log may begin with half a line
    offset = start + result.consumed
    cursor = Cursor(reader.name, status.st_ino, start + len(data), offset, _digest(head, offset))
    if last is not None and start < last.offset:
        end = _rotated_end(path, last, reader, zone)
        malformed, problem = end.malformed + result.malformed, end.first_problem or result.first_problem
        result = replace(result, calls=end.calls + result.calls, malformed=malformed, first_problem=problem)
    return result, cursor


def save_cursor(store: Store, path: Path, cursor: Cursor) -> None:
    store.run(
        "INSERT OR REPLACE INTO cursors (path, format, inode, size, offset, head) VALUES (?, ?, ?, ?, ?, ?)",
        *(str(path.resolve()), cursor.format, cursor.inode, cursor.size, cursor.offset, cursor.head),
    )


def load_cursor(store: Store, path: Path) -> Cursor | None:
    row = store.row("SELECT format, inode, size, offset, head FROM cursors WHERE path = ?", str(path.resolve()))
    return Cursor(*row) if row else None


def _continues(last: Cursor, status: os.stat_result, head: bytes) -> bool:
    return last.inode == status.st_ino and last.offset <= status.st_size and last.head == _digest(head, last.offset)


def _rotated_end(path: Path, last: Cursor, reader: Reader, zone: tzinfo) -> ReadResult:
    """The unread end of a log that was moved or copied to a longer name, and is not compressed yet."""
    for rotated in sorted(path.parent.glob(f"{glob.escape(path.name)}?*")):
        try:
            with rotated.open("rb") as file:
                if _digest(file.read(HEAD_BYTES), last.offset) == last.head:
                    file.seek(last.offset)
                    return reader.read(file.read(), zone, chunk=True)
        except OSError:
            continue  # a folder, or deleted meanwhile
    return ReadResult()


def _digest(head: bytes, offset: int) -> str:
    return hashlib.sha256(head[:offset]).hexdigest()


def parse_columns(text: str) -> dict[str, str]:
    """``date=…,number=…,direction=…`` (and ``time``, ``name``) as field → title. Quotes protect a title's comma.

    >>> parse_columns("date=Call Date,number=Other party,direction=Type")
    {'date': 'Call Date', 'number': 'Other party', 'kind': 'Type'}
    """
    from hushcall.formats.calls.named_columns import WORDS

    fields = {word: field for field, word in WORDS.items()} | {"kind": "kind", "type": "kind"}
    titles: dict[str, str] = {}
    for part in next(csv.reader([text], skipinitialspace=True), []):
        word, _, title = part.partition("=")
        field = fields.get(word.strip().lower())
        if field is None or not title.strip() or field in titles:
            rule = f"be {GUESS}, or name columns once each by their titles ({', '.join(fields)}): date=…,number=…"
            raise InvalidParameter("--columns", rule, part)
        titles[field] = title.strip()
    if missing := {"date", "number", "kind"} - titles.keys():
        words = ", ".join(sorted(WORDS[field] for field in missing))
        raise InvalidParameter("--columns", "name the columns of date, number and direction", f"none of {words}")
    return titles


def reader_for(
    store: Store, head: bytes, zone: tzinfo, form: str | None = None, filename: str = "", columns: str | None = None
) -> Reader | None:
    """The reader for a log that begins like this. None for an empty one.

    ``columns`` names the columns of a table (CSV), or agrees to the guess; remembered for tables with the same header.
    Without, an error shows the guess: a wrong one would take people whom the owner called for callers.
    """
    from hushcall.formats.calls.named_columns import NAMED_COLUMNS, columns_of, table
    from hushcall.formats.calls.reading import detect, reader_named  # all formats at once

    if not head.strip():
        return None
    try:
        reader = reader_named(form) if form else detect(head, filename)
    except InvalidData:
        if columns is None:
            raise
        reader = NAMED_COLUMNS  # an unknown format is a table if the owner has named its columns
    if reader is not NAMED_COLUMNS:
        return reader
    understood = columns_of(head, None if columns in (None, GUESS) else parse_columns(columns or ""))
    if understood is None or not understood.complete:
        words = understood or "nothing"
        rule = f"have a number, a date and a direction (understood: {words}); --columns says which titles are theirs"
        raise InvalidData("table", rule, filename or "another")
    titles = hashlib.sha256("\n".join(understood.titles).encode()).hexdigest()
    name = f"columns {titles[:16]}"  # the setting for tables with these titles
    if columns is not None:
        store.put(name, json.dumps({field: understood.titles[place] for field, place in understood.places.items()}))
    elif not store.get(name):
        rule = (
            f"have its columns named: --columns {GUESS} takes {_in_words(understood, head, zone)}; "
            "--columns date=TITLE,number=TITLE,direction=TITLE takes others"
        )
        raise InvalidData("table", rule, filename or "another")
    return table(json.loads(store.get(name)))


def _in_words(columns: Columns, head: bytes, zone: tzinfo) -> str:
    from hushcall.formats.calls.named_columns import NAMED_COLUMNS

    try:
        lines = head[: head.rfind(b"\n") + 1] or head
        first = next(iter(NAMED_COLUMNS.read(lines, zone).calls), None)
    except InvalidData:
        first = None
    if first is None:
        return f"this guess: {columns}"
    when = datetime.fromtimestamp(first.at, zone).strftime("%Y-%m-%d %H:%M:%S")
    return f"this guess: {columns}; its first call: {first.kind}, {when}, {zone}"
