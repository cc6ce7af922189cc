"""Versions of the list, read line by line from its entries. Lists and deltas are made of them when asked for."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.protocol import blocklist
from hushcall.server.db import schema

T = TypeVar("T")
Lines = tuple[bytes | None, bytes | None]
"""A number's line before and after a change."""
CHUNK = 5000
_DELTA = re.compile(r"targets/[0-9a-f]{64}\.delta-([0-9]+)-([0-9]+)\.jsonl")
_LIST = re.compile(r"targets/([0-9a-f]{64})\.blocklist\.jsonl")
_TABLE = schema.entries.c
_newest = sa.select(sa.func.max(schema.versions.c.version)).scalar_subquery()
CURRENT = _TABLE.until.is_(None) & (_TABLE.since <= _newest)


def header(connection: Connection, version: int) -> bytes | None:
    """The first line of a version. None where it is not kept."""
    data = connection.execute(sa.select(schema.versions.c.data).where(schema.versions.c.version == version)).scalar()
    return None if data is None else bytes(data)


def lines(
    connection: Connection, version: int, changes: Mapping[str, Lines] | None = None, staged: int = 0
) -> Iterator[bytes]:
    """The entries of a kept version, one line each, with staged ones and with changes that are not stored yet."""
    changes = changes or {}
    query = sa.select(_TABLE.number, _TABLE.line, _TABLE.since).where(_in(version) | (_TABLE.since == staged))
    rows = connection.execute(query.order_by(_TABLE.number).execution_options(yield_per=CHUNK))
    stored = (
        (number, changes[number][1] if number in changes and since != staged else bytes(line))
        for number, line, since in rows
    )
    fresh = sorted((number, after) for number, (before, after) in changes.items() if before is None)
    return (line for _, line in heapq.merge(stored, fresh) if line is not None)


def changed(connection: Connection, old: int, new: int) -> dict[str, Lines]:
    """The numbers whose lines differ between two kept versions."""
    numbers: dict[str, Lines] = {}
    for row in connection.execute(sa.select(schema.entries).where(_touched(old, new))):
        before, after = numbers.get(row.number, (None, None))
        before = bytes(row.line) if row.since <= old else before
        after = bytes(row.line) if row.since <= new and (row.until is None or row.until > new) else after
        numbers[row.number] = before, after
    return {number: pair for number, pair in numbers.items() if pair[0] != pair[1]}


def touched(connection: Connection, old: int, new: int) -> int:
    """At most so many lines differ between two versions."""
    return int(connection.execute(sa.select(sa.func.count()).where(_touched(old, new))).scalar_one())


def whole(connection: Connection, version: int) -> bytes | None:
    """The bytes of a version, all at once."""
    head = header(connection, version)
    return None if head is None else b"".join([head, *lines(connection, version)])


def target(connection: Connection, path: str) -> bytes:
    """A published file that is made of entries. Empty where it is another, or not kept any more."""
    versions = schema.versions.c
    if match := _LIST.fullmatch(path):
        version = connection.execute(sa.select(versions.version).where(versions.sha256 == match[1])).scalar()
        return (whole(connection, version) if version is not None else None) or b""
    if match := _DELTA.fullmatch(path):
        old, new = int(match[1]), int(match[2])
        rows = connection.execute(sa.select(schema.versions).where(versions.version.in_([old, new])))
        kept = {row.version: row for row in rows if row.data is not None}
        if len(kept) == 2:
            digests = kept[old].sha256, kept[new].sha256
            return blocklist.delta_of(old, bytes(kept[new].data), digests, changed(connection, old, new))
    return b""


def put(connection: Connection, version: int, changes: Mapping[str, Lines], keep: int) -> None:
    """Makes ``changes`` the step to a new version. Forgets lines that are in none of the last ``keep`` before it."""
    for part in chunks([(number, pair) for number, pair in changes.items() if pair[0] != pair[1]]):
        gone = [number for number, (before, _) in part if before is not None]
        update = sa.update(schema.entries).where(CURRENT, _TABLE.number.in_(gone))
        connection.execute(update.values(until=version))
        stage(connection, version, dict(part))
    connection.execute(sa.delete(schema.entries).where(_TABLE.until <= version - keep))


def stage(connection: Connection, version: int, changes: Mapping[str, Lines]) -> None:
    """Stores lines of a version that may be published later: until then they are in none."""
    rows = [{"number": n, "since": version, "line": after} for n, (_, after) in changes.items() if after is not None]
    if rows:
        connection.execute(sa.insert(schema.entries), rows)


def staged(connection: Connection, version: int) -> int:
    return int(connection.execute(sa.select(sa.func.count()).where(_TABLE.since == version)).scalar_one())


def unstage(connection: Connection, version: int, *, but: int = 0, limit: int | None = None) -> bool:
    """Deletes what was staged for versions up to this one that were never published. Whether anything was."""
    table, gone = schema.changes.c, False
    for column, key in ((_TABLE.since, schema.entries), (table.version, schema.changes)):
        old = sa.select(key.c.number).where(column > _newest, column <= version, column != but)
        gone |= connection.execute(old.limit(1)).first() is not None
        part = old.limit(limit) if limit else old
        stale = (column > _newest, column <= version, column != but, key.c.number.in_(part))
        connection.execute(sa.delete(key).where(*stale))
    return gone


def chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Parts that fit into one statement."""
    return (items[start : start + CHUNK] for start in range(0, len(items), CHUNK))


def among(connection: Connection, numbers: Sequence[str]) -> dict[str, bytes]:
    """The lines that some numbers have in the newest version."""
    query = sa.select(_TABLE.number, _TABLE.line).where(CURRENT, _TABLE.number.in_(numbers))
    return {number: bytes(line) for number, line in connection.execute(query)}


def _in(version: int) -> sa.ColumnElement[bool]:
    return (_TABLE.since <= version) & (CURRENT | (_TABLE.until > version))


def _touched(old: int, new: int) -> sa.ColumnElement[bool]:
    return ((_TABLE.since > old) & (_TABLE.since <= new)) | ((_TABLE.until > old) & (_TABLE.until <= new))
