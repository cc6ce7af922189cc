"""The database behind the service, SQLite or PostgreSQL with the same SQL.

``read()`` and ``write(name)`` are its transactions. A write is durable when it returns. ``fault`` is called with a
write's name right before and right after its commit: there the tests kill the process.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection, Engine

from hushcall.errors import InvalidParameter
from hushcall.server.db import list_entries, schema
from hushcall.server.db.engine import (
    BUSY_SECONDS,
    ERRORS,
    MIGRATION_LOCK,
    RESTORE,
    damaged,
    explaining,
    file_of,
    make_engine,
    migrate,
    place_of,
)
from hushcall.server.repeating import Repeating
from hushcall.wording import counted

CHECKPOINT_SECONDS = 1.0
PASSIVE_PASSES = 4
"""Passes of a WAL checkpoint beside writers, before one that holds them up. See :meth:`Store.checkpoint_wal`."""
_RESTART_MS = 20
_MIN_BYTES = 512  # of a database of SQLite: its smallest page
_PUBLISHING_LOCK = MIGRATION_LOCK + 1


def no_fault(_: str) -> None:
    pass


@dataclass(frozen=True)
class Store:
    engine: Engine
    fault: Callable[[str], None] = field(default=no_fault, compare=False)

    @property
    def postgres(self) -> bool:
        return self.engine.dialect.name == "postgresql"

    @contextmanager
    def read(self, timeout_seconds: float = BUSY_SECONDS) -> Iterator[Connection]:
        """A transaction that only reads. The timeout is PostgreSQL's, for each statement."""
        with self.engine.connect().execution_options(timeout_seconds=timeout_seconds) as connection:
            yield connection

    @contextmanager
    def write(self, name: str, timeout_seconds: float = BUSY_SECONDS) -> Iterator[Connection]:
        """A transaction that is on disk when it returns, or not at all.

        The timeout is for the write lock, and on PostgreSQL for each statement too.
        """
        options = {"writes": True, "timeout_seconds": timeout_seconds}
        with self.engine.connect().execution_options(**options) as connection:
            with connection.begin():
                yield connection
                self.fault(f"{name}: before commit")
            self.fault(f"{name}: after commit")

    def rows(self, statement: sa.Executable) -> Sequence[Any]:
        with self.read() as connection:
            return connection.execute(statement).all()

    def now(self) -> float:
        """Unix time by one clock for all users of this database: PostgreSQL's, or that of SQLite's machine."""
        if not self.postgres:
            return time.time()
        return float(self.rows(sa.text("SELECT extract(epoch FROM clock_timestamp())"))[0][0])

    def heartbeat(self, worker: str, now: float, timeout_seconds: float) -> None:
        """Proves that the database can be written to."""
        row = {"name": "heartbeat", "holder": worker, "until": now}
        with self.write("heartbeat", timeout_seconds) as connection:
            self.insert_new(connection, schema.leases, [row], key=("name",))
            connection.execute(sa.update(schema.leases).where(schema.leases.c.name == row["name"]).values(**row))

    def files(self) -> dict[str, bytes]:
        with self.read() as connection:
            files = PublishedFiles(connection)
            return {path: files[path] or list_entries.target(connection, path) for path in files}

    def file(self, path: str) -> tuple[bytes, str] | None:
        query = sa.select(schema.files.c.data, schema.files.c.sha256).where(schema.files.c.path == path)
        with self.read() as connection:
            row = connection.execute(query).first()
            if row is None or row.data:
                return row and (bytes(row.data), row.sha256)
            data = list_entries.target(connection, path)
        return (data, row.sha256) if hashlib.sha256(data).hexdigest() == row.sha256 else None  # else it is forgotten

    def change_files(self, change: Callable[[Mapping[str, bytes]], Mapping[str, bytes | None]]) -> None:
        """Applies ``change`` to the published files, under the publishing lock. None deletes a file."""
        with self.write("change files") as connection:
            self.lock_publishing(connection)
            put_files(connection, change(PublishedFiles(connection)))

    def insert_new(
        self, connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]], *, key: Sequence[str]
    ) -> None:
        """Inserts the rows whose key is new, in the order of their keys, so that no two writers deadlock."""
        if not rows:
            return
        ordered = sorted(rows, key=lambda row: tuple(row[name] for name in key))
        if self.postgres and has_batch_form(table, ordered):
            columns = tuple([row[column.name] for row in ordered] for column in table.columns)
            connection.exec_driver_sql(_batch_insert(table), columns)
        else:
            connection.execute(_insert_new(table, self.dialect), ordered)

    def add_counts(self, connection: Connection, worker: str, counts: Mapping[tuple[int, str], int]) -> None:
        if not counts:
            return
        insert, added = self.dialect.insert(schema.counters), schema.counters.c.value
        upsert = insert.on_conflict_do_update(
            index_elements=["round", "name", "worker"], set_={"value": added + insert.excluded.value}
        )
        rows = [{"round": r, "name": n, "worker": worker, "value": v} for (r, n), v in sorted(counts.items())]
        connection.execute(upsert, rows)

    def add_one(self, connection: Connection, table: sa.Table, key: Mapping[str, Any], amount: int = 1) -> int:
        """Adds to the ``count`` of a row, which is inserted if need be. Returns the new count."""
        insert = self.dialect.insert(table).values(**key, count=amount)
        upsert = insert.on_conflict_do_update(
            index_elements=list(key), set_={"count": table.c["count"] + insert.excluded["count"]}
        )
        return int(connection.execute(upsert.returning(table.c["count"])).scalar_one())

    def lock_publishing(self, connection: Connection) -> None:
        """Locks out other publishers until the transaction ends. On SQLite a write transaction is alone anyway."""
        if self.postgres:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _PUBLISHING_LOCK})

    def scrub(self, timeout_ms: int = 0) -> None:
        """Truncates SQLite's WAL, so that it holds no deleted rows. Skipped while readers use it for longer."""
        self._checkpoint(timeout_ms, "TRUNCATE")

    def checkpoint_wal(self) -> None:
        """Moves SQLite's WAL into its file, so that commits need not.

        SQLite syncs its file only when a pass leaves nothing in the WAL, which the first passive pass beside a busy
        writer never does. The later ones have little to move, and one of them syncs between two commits. The restart
        gives up soon.
        """
        self._checkpoint(_RESTART_MS, *["PASSIVE"] * PASSIVE_PASSES, "RESTART")

    def _checkpoint(self, timeout_ms: int, *modes: str) -> None:
        if self.postgres:
            return
        with self.engine.connect() as connection:
            raw = connection.connection.driver_connection
            if raw is not None:
                raw.execute(f"PRAGMA busy_timeout={timeout_ms}")
                try:
                    for mode in modes:
                        raw.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
                finally:
                    raw.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")

    def check(self) -> None:
        """Reads every page of SQLite's file, and refuses a damaged one. PostgreSQL checks its own."""
        if not self.postgres and (result := self.rows(sa.text("PRAGMA quick_check(1)"))[0][0]) != "ok":
            raise damaged(str(result), self.engine.url)

    def close(self) -> None:
        self.engine.dispose()

    @property
    def dialect(self) -> Any:
        return postgresql if self.postgres else sqlite


def wal_checkpoints(store: Store, every_seconds: float = CHECKPOINT_SECONDS) -> Repeating:
    """A thread that checkpoints SQLite's WAL."""

    def checkpoint() -> None:
        with suppress(OSError, *ERRORS):  # the next one may succeed
            store.checkpoint_wal()

    return Repeating(checkpoint, every_seconds, "wal-checkpoint")


@cache
def _insert_new(table: sa.Table, dialect: Any) -> sa.Insert:
    statement: sa.Insert = dialect.insert(table).on_conflict_do_nothing()
    return statement


_POSTGRES_TYPES: tuple[tuple[type[Any], str], ...] = (
    (sa.LargeBinary, "bytea"),
    (sa.BigInteger, "bigint"),
    (sa.Integer, "integer"),
    (sa.Boolean, "boolean"),
    (sa.Float, "double precision"),
    (sa.String, "text"),  # a cast to the column's length would cut a text that is too long, this refuses it
)


def has_batch_form(table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether rows can go as one batch: there are several, and each names every column."""
    names = {column.name for column in table.columns}
    return len(rows) > 1 and all(row.keys() == names for row in rows)


@cache
def _batch_insert(table: sa.Table) -> str:
    """One statement for any number of rows: a column is an array, and ``unnest`` makes rows of them.

    PostgreSQL parses and plans it once. ``executemany`` costs both sides twice as much.
    """
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    types = (next(name for kind, name in _POSTGRES_TYPES if isinstance(column.type, kind)) for column in table.columns)
    arrays = ", ".join(f"%b::{name}[]" for name in types)  # %b sends bytes as they are, not as hex
    return f'INSERT INTO "{table.name}" ({names}) SELECT * FROM unnest({arrays}) ON CONFLICT DO NOTHING'


class PublishedFiles(Mapping[str, bytes]):
    """The published files. Fetches only those that are read: lists are large, metadata is not."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._paths = list(connection.execute(sa.select(schema.files.c.path)).scalars())

    def __getitem__(self, path: str) -> bytes:
        data = self._connection.execute(sa.select(schema.files.c.data).where(schema.files.c.path == path)).scalar()
        if data is None:
            raise KeyError(path)
        return bytes(data)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, path: object) -> bool:
        return path in self._paths


def put_files(connection: Connection, changed: Mapping[str, bytes | None]) -> None:
    """Writes published files inside a transaction that does more. None deletes a file."""
    if not changed:
        return
    connection.execute(sa.delete(schema.files).where(schema.files.c.path.in_(list(changed))))
    rows = [
        {"path": path, "data": data, "sha256": _sha256(path, data)}
        for path, data in sorted(changed.items())
        if data is not None
    ]
    if rows:
        connection.execute(sa.insert(schema.files), rows)


def _sha256(path: str, data: bytes) -> str:
    """The digest of a file. One that is made when asked for has it in its name."""
    named = path.rpartition("/")[2].partition(".")[0]
    return hashlib.sha256(data).hexdigest() if data or not path.startswith("targets/") else named


def open_store(url: str, fault: Callable[[str], None] = no_fault, *, served: bool = False) -> Store:
    """Opens a database, creates it if need be, and migrates it.

    ``served``: a server has used it, so an absent or empty one is damage. Then nothing is written.
    """
    engine = make_engine(url)
    with explaining(engine.url):
        if served and (problem := _missing(engine)):
            rule = (
                f"hold what this data folder has served with: it {problem}. Nothing was written. {RESTORE}; "
                "to begin anew, for phones that enrol anew, take an empty folder"
            )
            raise InvalidParameter("database", rule, place_of(engine.url))
        migrate(engine)
    return Store(engine, fault)


def _missing(engine: Engine) -> str:
    """The problem of a used database that is gone. The file is checked first, because SQLite would create one."""
    if file := file_of(engine.url):
        if not file.is_file():
            return "is absent"
        if (size := file.stat().st_size) < _MIN_BYTES:
            return f"was cut off at {counted(size, 'byte')}"
    return "" if sa.inspect(engine).get_table_names() else "has no tables"
