"""What a phone remembers, in one SQLite file: calls, contacts, rounds and spends come in, and survive a power cut.

Every commit is on the disk before it returns (``synchronous=FULL``). Tables belong to the modules that ask them:
``callers``, ``contacts`` and ``reported`` to :mod:`candidates`, ``ledger`` to :mod:`ledger`, ``rounds`` to
:mod:`participation`, ``cursors`` to :mod:`log_cursor`; here are the file, its schema, transactions and settings.

>>> store = Store.in_memory()
>>> store.put("server", "https://calls.example")
>>> store.get("server"), store.get("token")
('https://calls.example', '')
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from hushcall.errors import InvalidData
from hushcall.phone.home import trouble
from hushcall.phone.home.snapshot import READABLE, snapshot
from hushcall.phone.home.trouble import COUNTER, FILE, Cause, StoreTrouble

LISTS = "lists"
SYNC_TROUBLE = "sync.trouble"
"""The setting that says why the last list was not trusted; empty where it was."""
NO_LIST_YET = "sync.none"
"""The setting that says that the server had no list when it was last asked."""
BUSY_SECONDS = 10.0
ENDINGS = ("", "-wal", "-shm", "-journal")
"""What the files of one SQLite database are called, behind its name."""
BLANK = "number = '', dummy = 0, bucket = 0, ticket = '', public = NULL, parameters = NULL, report = NULL"
"""What a finished row of ``rounds`` loses: all that could say who called. That the round was joined stays."""

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
    -- the round documents that this phone acted on, as reporting.witness compares them
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
)


def default_home() -> Path:
    """Where a phone keeps its things: ``HUSHCALL_HOME``, or ``~/.hushcall``."""
    return Path(os.environ.get("HUSHCALL_HOME") or Path.home() / ".hushcall")


class Store:
    """The file. A single statement commits by itself; several commit together inside :meth:`transaction`."""

    def __init__(
        self, database: str, folder: Path | None = None, *, new: bool = True, only_read: StoreTrouble | None = None
    ) -> None:
        self.folder = folder
        self.only_read = only_read
        """Why it can only be read, as it was when it was opened; None where it can be written. Writing raises this."""
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
        """The store in a phone's folder; both are made, readable by their owner only, where they never were.

        A store that was there and cannot be used is a :class:`~hushcall.phone.home.trouble.StoreTrouble`. ``reading``:
        one that cannot be written (a full disk, a read-only folder) is good enough if it can be read.
        """
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
            with suppress(OSError):
                reports = store.row("SELECT count(*) FROM ledger")[0]
                (folder / COUNTER).write_text(f"{reports}\n", encoding="ascii")
        return store

    @classmethod
    def in_memory(cls) -> Store:
        """A store for simulations: no file, no durability, a few dozen kilobytes."""
        return cls(":memory:")

    @property
    def lists(self) -> Path:
        """The folder of the signed list, beside the file."""
        if self.folder is None:
            raise InvalidData("store", "be in a folder, to keep a list beside it", "a store in memory")
        return self.folder / LISTS

    def try_writing(self) -> None:
        """Where it could only be read: see whether it can be written by now, and is a store like any other again."""
        if self.only_read is not None and self.folder is not None:
            with suppress(InvalidData):
                better = Store.open(self.folder)
                before, self._connection, self.only_read = self._connection, better._connection, None
                before.close()

    def close(self) -> None:
        """Let the file go: whatever was committed is on the disk already."""
        self._connection.close()

    def run(self, statement: str, *values: Any) -> int:
        """Carry out a statement that changes something; how many rows it changed."""
        return self._execute(statement, values).rowcount

    def run_many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """The same statement for each row."""
        try:
            self._connection.executemany(statement, rows)
        except sqlite3.Error as error:
            raise self._broken(error) from None

    def rows(self, query: str, *values: Any) -> list[Any]:
        """All rows that a query finds."""
        try:
            return self._execute(query, values).fetchall()
        except sqlite3.Error as error:  # a damaged page may come after good ones
            raise self._broken(error) from None

    def row(self, query: str, *values: Any) -> Any:
        """The first row that a query finds, or None."""
        try:
            return self._execute(query, values).fetchone()
        except sqlite3.Error as error:
            raise self._broken(error) from None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, and on the disk when it ends."""
        self._execute("BEGIN IMMEDIATE", ())
        try:
            yield
            self.commit()
        except BaseException:
            if self._connection.in_transaction:
                self._connection.rollback()
            raise

    def commit(self) -> None:
        """The moment from which what was written stays written."""
        self._execute("COMMIT", ())

    def get(self, name: str, default: str = "") -> str:
        """A setting as text; ``default`` where it was never put."""
        found = self.row("SELECT value FROM settings WHERE name = ?", name)
        return str(found[0]) if found else default

    def put(self, name: str, value: str) -> None:
        """Keep a setting: a commit of its own, unless a transaction is open."""
        self.run(
            "INSERT INTO settings VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value
        )

    def copy_to(self, path: Path) -> None:
        """All of the store as one file that only its owner can read, as of one moment, whoever writes meanwhile."""
        try:
            path.touch(mode=0o600, exist_ok=False)
        except OSError as error:
            raise InvalidData("the copy of the store", f"be writable ({error.strerror})", str(path)) from None
        try:
            self._connection.execute("PRAGMA query_only = OFF")  # what is written is the copy
            self._connection.execute("VACUUM INTO ?", (str(path),))
        except sqlite3.Error as error:
            path.unlink(missing_ok=True)
            raise InvalidData("the copy of the store", f"be written whole ({error})", str(path)) from None
        finally:
            self._only_read_if_so()

    def forget(self) -> None:
        """Erase every number: calls, contacts, what was reported and from which files; ledger and settings stay.

        Deleted pages are overwritten, the file is rewritten, and the write-ahead log is cut off: nothing is left in
        the files for whoever looks.
        """
        with self.transaction():
            for table in ("callers", "contacts", "reported", "cursors"):
                self.run(f"DELETE FROM {table}")
            # A report under way is given up: without the number nobody could ever build another one for its round.
            self.run(
                f"UPDATE rounds SET {BLANK}, why = 'forgotten',"
                " state = CASE WHEN state IN ('skipped', 'sent') THEN state ELSE 'closed' END"
            )
            self.run("UPDATE ledger SET caller = ''")
        self._execute("VACUUM", ())
        self._execute("PRAGMA wal_checkpoint(TRUNCATE)", ()).fetchall()

    def _prepare(self, new: bool) -> None:
        if not new:
            self._recognise()
        if self.only_read:
            pass  # a copy in memory
        elif self.folder is None:
            self._execute("PRAGMA page_size = 1024", ())
        else:
            self._execute("PRAGMA journal_mode = WAL", ())
            self._execute("PRAGMA synchronous = FULL", ())
            self._execute("PRAGMA secure_delete = ON", ())  # what is dropped is overwritten, not only unlinked
        self._execute("PRAGMA trusted_schema = OFF", ())
        if int(self.row("PRAGMA user_version")[0]) < len(_MIGRATIONS):
            self._migrate()
        self._only_read_if_so()

    def _only_read_if_so(self) -> None:
        if self.only_read:
            self._execute("PRAGMA query_only = ON", ())

    def _recognise(self) -> None:
        """Whether the file is one of ours, of a version that this release knows, and whole; nothing is written."""
        version = int(self.row("PRAGMA user_version")[0])
        tables = {row[0] for row in self.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        if not version or not {"settings", "ledger"} <= tables:
            raise StoreTrouble(Cause.FOREIGN, str(self._file), "a database of something else")
        if version > len(_MIGRATIONS):
            raise StoreTrouble(Cause.NEWER, str(self._file), f"schema {version}; this release knows {len(_MIGRATIONS)}")
        if (found := self.row("PRAGMA quick_check(1)")[0]) != "ok":
            raise StoreTrouble(Cause.DAMAGED, str(self._file), " ".join(str(found).split()))

    def _migrate(self) -> None:
        with self.transaction():
            version = int(self.row("PRAGMA user_version")[0])  # again: another process may have been faster
            for script in _MIGRATIONS[version:]:
                for statement in script.split(";"):
                    if statement.strip():
                        self._execute(statement, ())
            self._execute(f"PRAGMA user_version = {len(_MIGRATIONS)}", ())

    def _execute(self, statement: str, values: tuple[Any, ...]) -> sqlite3.Cursor:
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
    """A new store, under its name only once it is whole: a file of that name that is not was one."""
    draft = folder / f".{FILE}.{os.getpid()}"
    try:
        draft.unlink(missing_ok=True)
        draft.touch(mode=0o600, exist_ok=False)
        with closing(Store(str(draft), folder)):
            pass  # the last one who closes it puts all of it into the one file
        with suppress(FileExistsError):  # another process was faster: its store is as good
            _name_it(draft, folder / FILE)
    finally:
        for ending in ENDINGS:
            draft.with_name(draft.name + ending).unlink(missing_ok=True)


def _name_it(draft: Path, file: Path) -> None:
    """Give a file its name unless somebody has it already, on the disk when this returns."""
    try:
        os.link(draft, file)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        draft.replace(file)
    handle = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
