"""Opens SQLite or PostgreSQL with durable commits and bounded waits, migrates it, and explains its failures."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
from sqlalchemy.engine import Connection, Engine

from hushcall.errors import InvalidParameter
from hushcall.server.logs import cause_of

BUSY_SECONDS = 60
"""The default time limit of a lock wait and of a statement."""
IDLE_SECONDS = 600
"""After this PostgreSQL ends an idle transaction, whose process or machine is gone."""
CONNECT_SECONDS = 5
WAL_PAGES = 16_000
"""Pages of SQLite's WAL (64 MB) at which a commit checkpoints it itself. A server's own thread does it earlier."""
ERRORS = (sa.exc.DBAPIError, sqlite3.DatabaseError)
"""Errors of a database. While a connection is set up, the driver's own error is raised."""
DAMAGED, FULL = "database damaged", "disk full"
RESTORE = "'hushcall restore FILE --overwrite' puts a backup back"
MIGRATIONS = Path(__file__).parent / "migrations"
MIGRATION_LOCK = 0x68757368  # an arbitrary key of an advisory lock: one worker migrates, the others wait
_WAL_INDEX_BYTES = 1 << 20  # SQLite reports an I/O error where a disk has no room for the WAL's index


def parse_url(url: str) -> sa.URL:
    """A database's URL. The error never shows a password."""
    try:
        return sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        rule = "be a URL such as postgresql+psycopg://user@host/name"
        shown_url = "an address that cannot be read" if "@" in url else url
        raise InvalidParameter("database", rule, shown_url) from None


def file_of(url: sa.URL) -> Path | None:
    """SQLite's file. None in memory and on PostgreSQL."""
    has_file = url.get_backend_name() == "sqlite" and url.database and url.database != ":memory:"
    return Path(str(url.database)) if has_file else None


def place_of(url: sa.URL) -> str:
    """A database for display: SQLite's file, or the URL without its password."""
    return str(file_of(url) or url.render_as_string(hide_password=True))


def explained(error: BaseException, url: sa.URL) -> InvalidParameter:
    """A database's error as one sentence with advice."""
    reason, cause = str(getattr(error, "orig", error)).partition("\n")[0], cause_of(error)
    file, place = file_of(url), place_of(url)
    if cause == DAMAGED:
        return damaged(reason, url)
    if cause == FULL or (cause == "disk error" and file and shutil.disk_usage(file.parent).free < _WAL_INDEX_BYTES):
        return InvalidParameter("database", f"have room to write: {FULL}. Make room, then try again", place)
    return InvalidParameter("database", f"be one that opens ({reason})", place)


def damaged(reason: str, url: sa.URL) -> InvalidParameter:
    rule = f"be whole: it is damaged ({' '.join(reason.split())}). {RESTORE}"
    return InvalidParameter("database", rule, place_of(url))


@contextmanager
def explaining(url: sa.URL) -> Iterator[None]:
    """Raises database errors of the block as :func:`explained` ones."""
    try:
        yield
    except ERRORS as error:
        raise explained(error, url) from None


def make_engine(url: str) -> Engine:
    """An engine whose commits are durable: full sync on SQLite, PostgreSQL's own default there."""
    parsed = parse_url(url)
    if parsed.get_backend_name() == "postgresql":
        return _postgres_engine(parsed)
    if parsed.get_backend_name() != "sqlite":
        raise InvalidParameter("database", "be SQLite or PostgreSQL", parsed.get_backend_name())
    return _sqlite_engine(parsed)


def _sqlite_engine(url: sa.URL) -> Engine:
    options: dict[str, Any] = {}
    if file := file_of(url):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(file.parent, os.W_OK):
            raise InvalidParameter("data", "be a folder that can be written to", str(file.parent))
        options["pool_use_lifo"] = True  # the connection used last has a cache that is still good
    arguments = {"timeout": BUSY_SECONDS, "check_same_thread": False}
    engine = sa.create_engine(url, connect_args=arguments, **options)

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # BEGIN is sent below
        cursor = connection.cursor()
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            f"wal_autocheckpoint={WAL_PAGES}",
            "secure_delete=ON",  # deleted reports are overwritten, however SQLite was built
            f"busy_timeout={BUSY_SECONDS * 1000}",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        # A writer takes the lock at once. SQLite may refuse to upgrade a reader.
        options = connection.get_execution_options()
        connection.exec_driver_sql(f"PRAGMA busy_timeout={_timeout_ms(options)}")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("writes", False) else "BEGIN")

    return engine


def _postgres_engine(url: sa.URL) -> Engine:
    """Limits every wait: for a connection, a lock, a statement, or a peer that went silent, in either direction.

    A generic plan would be made while a round's partition is new, and read all of it when it is large.
    """
    settings = {
        "statement_timeout": BUSY_SECONDS * 1000,
        "lock_timeout": BUSY_SECONDS * 800,
        "idle_in_transaction_session_timeout": IDLE_SECONDS * 1000,
        "plan_cache_mode": "force_custom_plan",
    }
    defaults = {
        "connect_timeout": CONNECT_SECONDS,
        "tcp_user_timeout": BUSY_SECONDS * 1000,
        "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
    }
    arguments = {name: value for name, value in defaults.items() if name not in url.query}  # the URL overrides them
    engine = sa.create_engine(
        url, pool_size=8, max_overflow=8, pool_pre_ping=True, pool_timeout=CONNECT_SECONDS, connect_args=arguments
    )

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        if options.get("timeout_seconds", BUSY_SECONDS) != BUSY_SECONDS:
            limit = _timeout_ms(options)
            # The lock's limit is shorter, so that a missing lock and a slow statement raise different errors.
            connection.exec_driver_sql(f"SET LOCAL lock_timeout={limit * 4 // 5}; SET LOCAL statement_timeout={limit}")

    return engine


def _timeout_ms(options: Mapping[str, Any]) -> int:
    return round(1000 * float(options.get("timeout_seconds", BUSY_SECONDS)))


@cache
def _newest_revision() -> str | None:
    """Cached, because Alembic loads every migration to find it."""
    return ScriptDirectory(str(MIGRATIONS)).get_current_head()


def migrate(engine: Engine) -> None:
    """Brings the schema up to date, in one transaction. Servers that start at the same time take turns."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            # Another worker may migrate, and a large table takes long.
            connection.exec_driver_sql("SET LOCAL lock_timeout=0; SET LOCAL statement_timeout=0")
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
        if MigrationContext.configure(connection).get_current_revision() == _newest_revision():
            return
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except CommandError:
            rule = (
                "have a schema that this release knows: a newer hushcall has used it. Nothing was changed: "
                "update this one, or put a backup from before back ('hushcall restore FILE --overwrite')"
            )
            raise InvalidParameter("database", rule, engine.url.render_as_string(hide_password=True)) from None
