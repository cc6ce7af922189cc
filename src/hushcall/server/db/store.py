"""The database behind the service: SQLite in a folder, or PostgreSQL by URL, with the same SQL on both.

It opens the database, brings its schema up to date, and gives out two kinds of transactions: ``read()``, and
``write(name)``, which is durable when it returns. Each write has a name, and ``fault`` is called with it right before
and right after the commit: that is where the tests kill the process. What differs between the two databases is here
and nowhere else: inserts that leave a row which is there, counters, and the two locks (a round's row, publishing).
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection, Engine

from hushcall.errors import InvalidParameter
from hushcall.server.db import batches, schema
from hushcall.server.db.rows import ROUND, RoundRow, round_rows
from hushcall.server.db.trouble import RESTORE, damaged, file_of, in_words, place_of
from hushcall.wording import counted

BUSY_SECONDS = 60
"""How long a writer waits for its turn, and a statement may take, unless it says that it has less patience."""
GONE_SECONDS = 600
"""After which PostgreSQL ends a transaction in which nothing is asked: its process is stopped, or its machine gone."""
CONNECT_SECONDS = 5
MOMENT_MS = 20
PASSES = 4
"""How often SQLite's log is brought home beside writers before they stop for a moment: see bring_log_home."""
LOG_PAGES = 16_000
"""How long SQLite's log may become before a commit brings it home itself, 64 MB: a server does that beside (homing)."""
_LOCKED, _SHARED = ROUND.with_for_update(), ROUND.with_for_update(read=True)
_SMALLEST = 512  # bytes of a database of SQLite: its smallest page
_MIGRATIONS = Path(__file__).parent / "migrations"
_MIGRATION_LOCK = 0x68757368  # any number, the same for all: one worker migrates, the others wait
_PUBLISHING_LOCK = _MIGRATION_LOCK + 1  # another one: lists are put into force one after the other


def no_fault(_: str) -> None:
    """Outside of tests nothing happens at a boundary."""


@dataclass(frozen=True)
class Store:
    """An open database with the current schema."""

    engine: Engine
    fault: Callable[[str], None] = field(default=no_fault, compare=False)

    @property
    def postgres(self) -> bool:
        """Whether this is PostgreSQL."""
        return self.engine.dialect.name == "postgresql"

    @contextmanager
    def read(self, patience: float = BUSY_SECONDS) -> Iterator[Connection]:
        """A transaction that only looks; on PostgreSQL no statement in it takes longer than ``patience``."""
        with self.engine.connect().execution_options(patience=patience) as connection:
            yield connection

    def now(self) -> float:
        """What time it is, for all who share this database: PostgreSQL's clock, or that of the one machine."""
        if not self.postgres:
            return time.time()
        return float(self.rows(sa.text("SELECT extract(epoch FROM clock_timestamp())"))[0][0])

    def beat(self, worker: str, now: float, patience: float) -> None:
        """Write something: whoever can do that can take uploads."""
        row = {"name": "heartbeat", "holder": worker, "until": now}
        with self.write("heartbeat", patience) as connection:
            self.insert_new(connection, schema.leases, [row], key=("name",))
            connection.execute(sa.update(schema.leases).where(schema.leases.c.name == row["name"]).values(**row))

    @contextmanager
    def write(self, name: str, patience: float = BUSY_SECONDS) -> Iterator[Connection]:
        """A transaction that is on disk when it returns, or not at all.

        It waits at most ``patience`` seconds for its turn, and as long for each statement on PostgreSQL.
        """
        with self.engine.connect().execution_options(writes=True, patience=patience) as connection:
            with connection.begin():
                yield connection
                self.fault(f"{name}: before commit")
            self.fault(f"{name}: after commit")

    def rows(self, statement: sa.Executable) -> Sequence[Any]:
        """What a query finds, in a transaction of its own."""
        with self.read() as connection:
            return connection.execute(statement).all()

    def files(self) -> dict[str, bytes]:
        """Everything that is published, by path."""
        return {row.path: bytes(row.data) for row in self.rows(sa.select(schema.files))}

    def file(self, path: str) -> tuple[bytes, str] | None:
        """One published file and its SHA-256."""
        rows = self.rows(sa.select(schema.files.c.data, schema.files.c.sha256).where(schema.files.c.path == path))
        return (bytes(rows[0].data), rows[0].sha256) if rows else None

    def change_files(self, change: Callable[[Mapping[str, bytes]], Mapping[str, bytes | None]]) -> None:
        """Publish what ``change`` makes of what is published now; nobody else publishes meanwhile."""
        with self.write("change files") as connection:
            self.lock_publishing(connection)
            put_files(connection, change(PublishedFiles(connection)))

    def insert_new(
        self, connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]], *, key: Sequence[str]
    ) -> None:
        """Insert the rows whose key is not there yet; in the order of their keys, so that no two writers deadlock."""
        if rows:
            ordered = sorted(rows, key=lambda row: tuple(row[name] for name in key))
            if self.postgres and batches.fits(table, ordered):
                batches.insert(connection, table, ordered)
                return
            connection.execute(_insert_new(table, postgresql if self.postgres else sqlite), ordered)

    def add_counts(self, connection: Connection, worker: str, counts: Mapping[tuple[int, str], int]) -> None:
        """Add to this worker's counters."""
        if not counts:
            return
        dialect: Any = postgresql if self.postgres else sqlite
        insert = dialect.insert(schema.counters)
        statement = insert.on_conflict_do_update(
            index_elements=["round", "name", "worker"],
            set_={"value": schema.counters.c.value + insert.excluded.value},
        )
        rows = [{"round": r, "name": n, "worker": worker, "value": v} for (r, n), v in sorted(counts.items())]
        connection.execute(statement, rows)

    def add_one(self, connection: Connection, table: sa.Table, key: Mapping[str, Any], amount: int = 1) -> int:
        """Add to the ``count`` of a row, which is made if need be; what it is then, with every other worker's."""
        dialect: Any = postgresql if self.postgres else sqlite
        insert = dialect.insert(table).values(**key, count=amount)
        counted = insert.on_conflict_do_update(
            index_elements=list(key), set_={"count": table.c["count"] + insert.excluded["count"]}
        )
        return int(connection.execute(counted.returning(table.c["count"])).scalar_one())

    def lock_round(self, connection: Connection, round_id: int, *, share: bool = False) -> RoundRow | None:
        """A round's row, held still until the transaction ends. On SQLite a write transaction is alone anyway."""
        query = (_SHARED if share else _LOCKED) if self.postgres else ROUND
        return next(iter(round_rows(connection, query, {"id": round_id})), None)

    def lock_publishing(self, connection: Connection) -> None:
        """Be the only one that publishes until the transaction ends. On SQLite a write transaction is alone anyway."""
        if self.postgres:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _PUBLISHING_LOCK})

    def scrub(self) -> None:
        """Let nothing deleted linger in SQLite's write-ahead log. Readers may be in the way: then the next one does."""
        self._checkpoint(0, "TRUNCATE")

    def bring_log_home(self) -> None:
        """SQLite's write-ahead log into its file: beside writers first, then for a moment alone what came meanwhile.

        Whoever is in the way for longer than that moment is left alone. SQLite syncs its file only once nothing is left
        in the log, which beside a busy writer the first pass never sees: the moment alone would sync everything, 50 ms
        and more with every upload waiting. The next passes find so little that one of them gets there between two
        commits, and syncs beside them.
        """
        self._checkpoint(MOMENT_MS, *["PASSIVE"] * PASSES, "RESTART")

    def _checkpoint(self, patience_ms: int, *modes: str) -> None:
        if self.postgres:
            return
        with self.engine.connect() as connection:
            raw = connection.connection.driver_connection
            if raw is not None:
                raw.execute(f"PRAGMA busy_timeout={patience_ms}")
                try:
                    for mode in modes:
                        raw.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
                finally:
                    raw.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")

    def check(self) -> None:
        """Read every page of SQLite's file, and refuse one that is damaged; PostgreSQL looks after its own."""
        if not self.postgres and (found := self.rows(sa.text("PRAGMA quick_check(1)"))[0][0]) != "ok":
            raise damaged(str(found), self.engine.url)

    def close(self) -> None:
        """Let go of all connections."""
        self.engine.dispose()


@cache
def _insert_new(table: sa.Table, dialect: Any) -> sa.Insert:
    """The statement, made once: every batch of uploads has one."""
    statement: sa.Insert = dialect.insert(table).on_conflict_do_nothing()
    return statement


class PublishedFiles(Mapping[str, bytes]):
    """The published files as a mapping that fetches what is read, and only that: lists are large, metadata is not."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._paths = list(connection.execute(sa.select(schema.files.c.path)).scalars())

    def __getitem__(self, path: str) -> bytes:
        found = self._connection.execute(sa.select(schema.files.c.data).where(schema.files.c.path == path)).scalar()
        if found is None:
            raise KeyError(path)
        return bytes(found)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, path: object) -> bool:
        return path in self._paths


def put_files(connection: Connection, changed: Mapping[str, bytes | None]) -> None:
    """Publish files inside a transaction that does more; None takes a file away."""
    if not changed:
        return
    connection.execute(sa.delete(schema.files).where(schema.files.c.path.in_(list(changed))))
    rows = [
        {"path": path, "data": data, "sha256": hashlib.sha256(data).hexdigest()}
        for path, data in sorted(changed.items())
        if data is not None
    ]
    if rows:
        connection.execute(sa.insert(schema.files), rows)


def open_store(url: str, fault: Callable[[str], None] = no_fault, *, served: bool = False) -> Store:
    """Open a database, make it if need be, and migrate it.

    ``served``: a server has worked with it, so that an absent or empty one is damage. Nothing is written then.
    """
    engine = make_engine(url)
    with in_words(engine.url):
        if served and (lack := _lack(engine)):
            rule = (
                f"hold what this data folder has served with: it {lack}. Nothing was written. {RESTORE}; "
                "to begin anew, for phones that enrol anew, take an empty folder"
            )
            raise InvalidParameter("database", rule, place_of(engine.url))
        migrate(engine)
    return Store(engine, fault)


def _lack(engine: Engine) -> str:
    """What a database that was in use lacks; a file is looked at before SQLite opens it, which would make one."""
    if file := file_of(engine.url):
        if not file.is_file():
            return "is absent"
        if (size := file.stat().st_size) < _SMALLEST:
            return f"was cut off at {counted(size, 'byte')}"
    return "" if sa.inspect(engine).get_table_names() else "has no tables"


def parse_url(url: str) -> sa.URL:
    """A database's URL, read."""
    try:
        return sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        rule = "be a URL such as postgresql+psycopg://user@host/name"
        shown = "an address that cannot be read" if "@" in url else url  # there may be a password before the @
        raise InvalidParameter("database", rule, shown) from None


def make_engine(url: str) -> Engine:
    """An engine whose commits are durable: full sync on SQLite, PostgreSQL's own default there."""
    parsed = parse_url(url)
    if parsed.get_backend_name() == "postgresql":
        return _postgres_engine(parsed)
    if parsed.get_backend_name() != "sqlite":
        raise InvalidParameter("database", "be SQLite or PostgreSQL", parsed.get_backend_name())
    if file := file_of(parsed):
        folder = file.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise InvalidParameter("data", "be a folder that can be written to", str(folder))
    # The connection that was used last is used next: what it has in its cache is good until another one writes.
    arguments = {"timeout": BUSY_SECONDS, "check_same_thread": False}
    engine = sa.create_engine(parsed, connect_args=arguments, **({"pool_use_lifo": True} if file_of(parsed) else {}))

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves, below
        cursor = connection.cursor()
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            f"wal_autocheckpoint={LOG_PAGES}",
            "secure_delete=ON",  # what a sealed round deletes is overwritten, whichever way SQLite was built
            f"busy_timeout={BUSY_SECONDS * 1000}",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        # A writer takes its turn at once: one that starts by reading and then wants to write could be refused.
        options = connection.get_execution_options()
        connection.exec_driver_sql(f"PRAGMA busy_timeout={_milliseconds(options)}")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writes", False) else "BEGIN")

    return engine


def _postgres_engine(url: sa.URL) -> Engine:
    """No wait without an end: not for a connection, a lock or a statement, nor for a server that went silent.

    Nor does PostgreSQL wait for us: what a machine that is gone had locked in a transaction is free again.
    """
    waits = {
        "statement_timeout": BUSY_SECONDS * 1000,
        "lock_timeout": BUSY_SECONDS * 800,
        "idle_in_transaction_session_timeout": GONE_SECONDS * 1000,
    }
    given = {
        "connect_timeout": CONNECT_SECONDS,
        "tcp_user_timeout": BUSY_SECONDS * 1000,
        "options": " ".join(f"-c {name}={value}" for name, value in waits.items()),
    }
    arguments = {name: value for name, value in given.items() if name not in url.query}  # the operator's come first
    engine = sa.create_engine(
        url, pool_size=8, max_overflow=8, pool_pre_ping=True, pool_timeout=CONNECT_SECONDS, connect_args=arguments
    )

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        if options.get("patience", BUSY_SECONDS) != BUSY_SECONDS:
            most = _milliseconds(options)
            # A lock that does not come is told apart from a statement that takes long.
            connection.exec_driver_sql(f"SET LOCAL lock_timeout={most * 4 // 5}; SET LOCAL statement_timeout={most}")

    return engine


def _milliseconds(options: Mapping[str, Any]) -> int:
    return round(1000 * float(options.get("patience", BUSY_SECONDS)))


@cache
def _head() -> str | None:
    """The newest revision; to find it, every migration is loaded."""
    return ScriptDirectory(str(_MIGRATIONS)).get_current_head()


def migrate(engine: Engine) -> None:
    """Bring the schema up to date, in one transaction; several servers that start at once take turns."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            # Another worker may be at it, and a large table takes as long as it takes.
            connection.exec_driver_sql("SET LOCAL lock_timeout=0; SET LOCAL statement_timeout=0")
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
        if MigrationContext.configure(connection).get_current_revision() == _head():
            return
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except CommandError:
            rule = "have a schema that this release knows: a newer hushcall has used it, so update this one"
            raise InvalidParameter("database", rule, engine.url.render_as_string(hide_password=True)) from None
