"""The client's SQLite file: its schema, transactions and settings. Every commit is on the disk before it returns."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from hushcall.atomic_file import sync_to_disk
from hushcall.client.storage import trouble
from hushcall.client.storage.trouble import COUNTER, FILE, Cause, StoreTrouble
from hushcall.errors import InvalidData

DAY_SECONDS = 86_400
LISTS, SUBSCRIBED = "lists", "subscribed"  # folders: the own server's list, those of others
SYNC_TROUBLE = "sync.trouble"  # setting: why the last list was not trusted. Empty where it was
LEFT = "left"  # setting: the owner had the device deleted on its server
NO_LIST_YET = "sync.none"  # setting: the server had no list at the last sync
BUSY_SECONDS = 10.0
ENDINGS = ("", "-wal", "-shm", "-journal")  # of the files that make up one SQLite database
READABLE = frozenset({Cause.FULL, Cause.READ_ONLY, Cause.DISK})
"""Causes that prevent writing a store and perhaps not reading it."""
BLANK = "number = '', dummy = 0, bucket = 0, ticket = '', public = NULL, parameters = NULL, report = NULL"
"""Clears all columns of a finished row of ``rounds`` that could say who called."""
Row = tuple[Any, ...]

# One script per schema version, applied in order; a released one is never edited.
_MIGRATIONS = (
    """
    CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    -- last: when it last called (unix seconds, 0: never). known: the owner called it, or the phone names it.
    CREATE TABLE callers (number TEXT PRIMARY KEY, last INTEGER NOT NULL, known INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE contacts (number TEXT PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE reported (number TEXT PRIMARY KEY, seq INTEGER NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE cursors (
        path TEXT PRIMARY KEY, format TEXT NOT NULL, inode INTEGER NOT NULL, size INTEGER NOT NULL,
        offset INTEGER NOT NULL, head TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE rounds (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, server TEXT NOT NULL, round INTEGER NOT NULL, joined INTEGER NOT NULL,
        mechanism TEXT NOT NULL, number TEXT NOT NULL, dummy INTEGER NOT NULL, bucket INTEGER NOT NULL,
        announce_at INTEGER NOT NULL, report_at INTEGER NOT NULL, state TEXT NOT NULL,
        ticket TEXT NOT NULL DEFAULT '', public BLOB, parameters TEXT, report BLOB, why TEXT NOT NULL DEFAULT '',
        UNIQUE (server, round)
    );
    -- epsilon: the exact fraction as text, and a float beside it to read
    CREATE TABLE ledger (
        seq INTEGER PRIMARY KEY, server TEXT NOT NULL, round INTEGER NOT NULL, at INTEGER NOT NULL,
        epsilon TEXT NOT NULL, epsilon_float REAL NOT NULL, mechanism TEXT NOT NULL, what TEXT NOT NULL
    );
    """,
    """
    -- virtual: made up, because nobody called. It lives by the rules of the others
    ALTER TABLE callers ADD COLUMN virtual INTEGER NOT NULL DEFAULT 0;
    -- caller: a keyed digest of the number, to add up what was said about one. Gone when the owner forgets
    ALTER TABLE ledger ADD COLUMN caller TEXT NOT NULL DEFAULT '';
    -- the round documents that this phone acted on, as reporting.split_view compares them
    CREATE TABLE documents (
        server TEXT NOT NULL, round INTEGER NOT NULL, part TEXT NOT NULL, sha256 TEXT NOT NULL, body TEXT NOT NULL,
        seen INTEGER NOT NULL, PRIMARY KEY (server, round, part, sha256)
    ) WITHOUT ROWID;
    """,
    """
    -- A pass to report without a name: what the issuer is asked, and the token once it has signed.
    CREATE TABLE passes (
        server TEXT NOT NULL, round INTEGER NOT NULL, issue_at INTEGER NOT NULL, terms TEXT NOT NULL,
        input BLOB NOT NULL, blinded BLOB NOT NULL, inverse TEXT NOT NULL, token BLOB NOT NULL,
        PRIMARY KEY (server, round)
    ) WITHOUT ROWID;
    -- What this phone was told about a round's keys, to compare with what everybody was told.
    CREATE TABLE told (server TEXT, round INTEGER, digest TEXT NOT NULL, PRIMARY KEY (server, round)) WITHOUT ROWID;
    """,
    """
    DROP TABLE told;  -- a round's keys are in its document, which ``documents`` holds
    """,
    """
    -- What ``hushcall home`` fetched in the last weeks, for its owner's page. mark: tells calls of one minute apart.
    CREATE TABLE calls (
        at INTEGER NOT NULL, number TEXT NOT NULL, kind TEXT NOT NULL, mark TEXT NOT NULL, source TEXT NOT NULL,
        name TEXT NOT NULL, action TEXT NOT NULL, why TEXT NOT NULL, PRIMARY KEY (at, number, kind, mark)
    ) WITHOUT ROWID;
    -- How each part of ``hushcall home`` is doing, as JSON.
    CREATE TABLE parts (name TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID;
    """,
    """
    UPDATE ledger SET caller = '';  -- its key is in this file: a thief could try all numbers
    """,
)


class Store:
    """The file. Statements commit alone, or together in :meth:`transaction`. ``only_read``: why writing raises."""

    def __init__(
        self, database: str, folder: Path | None = None, *, new: bool = True, only_read: StoreTrouble | None = None
    ) -> None:
        self.folder = folder
        self.only_read = only_read
        self._file = Path(database)
        try:
            self._connection = snapshot(self._file) if only_read else _connected(database)
        except OSError as error:
            raise only_read or trouble.of_system(error, self._file) from None
        except sqlite3.Error as error:
            raise only_read or self._broken(error) from None
        try:
            self._prepare(new)
        except BaseException:
            self._connection.close()
            raise

    @classmethod
    def open(cls, folder: Path, *, reading: bool = False) -> Store:
        """Open or create it. With ``reading``, one that cannot be written (a full disk, say) is only read."""
        try:
            return cls._open(folder)
        except StoreTrouble as trouble:
            if not reading or trouble.cause not in READABLE or not (folder / FILE).exists():
                raise
            return cls(str(folder / FILE), folder, new=False, only_read=trouble)

    @classmethod
    def _open(cls, folder: Path) -> Store:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not trouble.look(folder):
                _make(folder)
        except OSError as error:
            raise trouble.of_system(error, folder) from None
        store = cls(str(folder / FILE), folder, new=False)
        if not (folder / COUNTER).exists():  # of a release that wrote it with the first report
            store.write_counter()
        return store

    @classmethod
    def in_memory(cls) -> Store:
        return cls(":memory:")

    @property
    def lists(self) -> Path:
        if self.folder is None:
            raise InvalidData("store", "be in a folder, to keep a list beside it", "a store in memory")
        return self.folder / LISTS

    def try_writing(self) -> None:
        """Reopen a store that could only be read, if it can be written by now."""
        if self.only_read is not None and self.folder is not None:
            with suppress(InvalidData):
                writable = Store.open(self.folder)
                before, self._connection, self.only_read = self._connection, writable._connection, None
                before.close()

    def close(self) -> None:
        self._connection.close()

    def run(self, statement: str, *values: object) -> int:
        """Execute a statement that changes something. Returns the number of changed rows."""
        return self._execute(statement, values).rowcount

    def run_many(self, statement: str, rows: Iterable[Row]) -> None:
        try:
            self._connection.executemany(statement, rows)
        except sqlite3.Error as error:
            raise self._broken(error) from None

    def rows(self, query: str, *values: object) -> list[Row]:
        try:
            return self._execute(query, values).fetchall()
        except sqlite3.Error as error:  # a damaged page may come after good ones
            raise self._broken(error) from None

    def row(self, query: str, *values: object) -> Row | None:
        return next(iter(self.rows(query, *values)), None)

    def count(self, query: str, *values: object) -> int:
        """The integer that a query of one row and one column gives. 0 where it gives no row."""
        row = self.row(query, *values)
        return int(row[0]) if row else 0

    def reports(self) -> int:
        return self.count("SELECT count(*) FROM ledger")

    def write_counter(self) -> None:
        """Write the number of reports beside the store. A folder that cannot be written to is no error."""
        if self.folder is not None:
            with suppress(OSError):
                (self.folder / COUNTER).write_text(f"{self.reports()}\n", encoding="ascii")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, and on the disk when it ends. One inside of another is part of it."""
        if self._connection.in_transaction:
            yield
            return
        self._execute("BEGIN IMMEDIATE", ())
        try:
            yield
            self._execute("COMMIT", ())
        except BaseException:
            if self._connection.in_transaction:
                self._connection.rollback()
            raise

    def get(self, name: str, default: str = "") -> str:
        row = self.row("SELECT value FROM settings WHERE name = ?", name)
        return str(row[0]) if row else default

    def put(self, name: str, value: str) -> None:
        """Write a setting. It commits by itself unless a transaction is open."""
        self.run(
            "INSERT INTO settings VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value
        )

    def copy_to(self, path: Path) -> None:
        """Write the store, as of one moment, into one new file that only its owner can read."""
        try:
            path.touch(mode=0o600, exist_ok=False)
        except OSError as error:
            raise InvalidData("the copy of the store", f"be writable ({error.strerror})", str(path)) from None
        try:
            self._connection.execute("PRAGMA query_only = OFF")  # only the copy is written
            self._connection.execute("VACUUM INTO ?", (str(path),))
        except sqlite3.Error as error:
            path.unlink(missing_ok=True)
            raise InvalidData("the copy of the store", f"be written whole ({error})", str(path)) from None
        finally:
            self._protect()

    def forget(self) -> None:
        """Erase every number, from the files as well: calls, contacts, reported callers. The ledger stays."""
        with self.transaction():
            for table in ("callers", "contacts", "reported", "cursors", "calls", "parts"):
                self.run(f"DELETE FROM {table}")
            # An unfinished report is given up: without the number no second one can be built for its round.
            self.run(
                f"UPDATE rounds SET {BLANK}, why = 'forgotten',"
                " state = CASE WHEN state IN ('skipped', 'sent') THEN state ELSE 'closed' END"
            )
        self._execute("VACUUM", ())
        self._execute("PRAGMA wal_checkpoint(TRUNCATE)", ()).fetchall()

    def _prepare(self, new: bool) -> None:
        if not new:
            self._recognise()
        if self.folder is None and not self.only_read:
            self._execute("PRAGMA page_size = 1024", ())
        elif not self.only_read:
            self._execute("PRAGMA journal_mode = WAL", ())
            self._execute("PRAGMA synchronous = FULL", ())
            self._execute("PRAGMA secure_delete = ON", ())  # deleted rows are overwritten, not only unlinked
        self._execute("PRAGMA trusted_schema = OFF", ())
        if self.count("PRAGMA user_version") < len(_MIGRATIONS):
            self._migrate()
        self._protect()

    def _protect(self) -> None:
        if self.only_read:
            self._execute("PRAGMA query_only = ON", ())

    def _recognise(self) -> None:
        """Raise unless the file is a client's store of a known version, and whole. Nothing is written."""
        version = self.count("PRAGMA user_version")
        tables = {row[0] for row in self.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        if not version or not {"settings", "ledger"} <= tables:
            raise StoreTrouble(Cause.FOREIGN, str(self._file), "a database of something else")
        if version > len(_MIGRATIONS):
            raise StoreTrouble(Cause.NEWER, str(self._file), f"schema {version}; this release knows {len(_MIGRATIONS)}")
        (problem,) = self.row("PRAGMA quick_check(1)") or ("no answer",)
        if problem != "ok":
            raise StoreTrouble(Cause.DAMAGED, str(self._file), " ".join(str(problem).split()))

    def _migrate(self) -> None:
        with self.transaction():
            version = self.count("PRAGMA user_version")  # again: another process may have migrated it
            for script in _MIGRATIONS[version:]:
                for statement in script.split(";"):
                    if statement.strip():
                        self._execute(statement, ())
            self._execute(f"PRAGMA user_version = {len(_MIGRATIONS)}", ())

    def _execute(self, statement: str, values: Row) -> sqlite3.Cursor:
        try:
            return self._connection.execute(statement, values)
        except sqlite3.Error as error:
            raise self._broken(error) from None

    def _broken(self, error: sqlite3.Error) -> InvalidData:
        if self.only_read and getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY:
            return self.only_read
        return trouble.of_sqlite(error, self._file)


def _connected(database: str) -> sqlite3.Connection:
    return sqlite3.connect(database, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def _make(folder: Path) -> None:
    """Create a store under a temporary name. It gets its own name once it is complete."""
    draft = folder / f".{FILE}.{os.getpid()}"
    try:
        draft.unlink(missing_ok=True)
        draft.touch(mode=0o600, exist_ok=False)
        with closing(Store(str(draft), folder)):
            pass  # closing it puts the write-ahead log into the file
        try:
            os.link(draft, folder / FILE)
        except FileExistsError:  # another process was faster
            return
        except OSError:  # a file system without hard links
            draft.replace(folder / FILE)
        sync_to_disk(folder)
    finally:
        for ending in ENDINGS:
            draft.with_name(draft.name + ending).unlink(missing_ok=True)


def snapshot(file: Path) -> sqlite3.Connection:
    """A copy in memory of a database that cannot be written: SQLite writes even to read.

    https://www.sqlite.org/wal.html#read_only_databases
    """
    log = file.with_name(f"{file.name}-wal")
    if log.exists():  # another process may have it open, with an index that can be shared
        try:
            return _copied(f"{file.absolute().as_uri()}?mode=ro")
        except sqlite3.Error:
            pass
    if not log.exists() or not log.stat().st_size:  # everything is in the one file, and no process has it open
        return _copied(f"{file.absolute().as_uri()}?mode=ro&immutable=1")
    import shutil  # a lookup does not need them
    import tempfile

    with tempfile.TemporaryDirectory(prefix="hushcall-") as folder:  # has room for the index
        for path in (file, log):
            shutil.copyfile(path, Path(folder) / path.name)
        return _copied((Path(folder) / file.name).as_uri())


def _copied(address: str) -> sqlite3.Connection:
    with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as source:
        memory = _connected(":memory:")
        try:
            source.backup(memory)
        except BaseException:
            memory.close()
            raise
        return memory
