"""A store that cannot be written, read all the same: its file comes in, a copy in memory as of this moment leaves.

SQLite writes even to read: in a folder that is full or read-only it cannot make the index of its write-ahead log
(https://www.sqlite.org/wal.html#read_only_databases). Nothing in the folder is changed here. A copy in memory, rather
than the file: whoever keeps it open for days must not see pages that another process changes under it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from hushcall.phone.home.trouble import Cause

READABLE = frozenset({Cause.FULL, Cause.READ_ONLY, Cause.DISK})
"""What keeps a store from being written and perhaps not from being read."""


def snapshot(file: Path) -> sqlite3.Connection:
    """All of a database, in memory; an OSError or one of SQLite's where it cannot be read either."""
    log = file.with_name(f"{file.name}-wal")
    if log.exists():  # another process may have it open, with an index that can be shared
        try:
            return _copied(f"{file.absolute().as_uri()}?mode=ro")
        except sqlite3.Error:
            pass
    with _beside_room(file, log) if log.exists() and log.stat().st_size else _as_it_is(file) as address:
        return _copied(address)


def _copied(address: str) -> sqlite3.Connection:
    with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as found:
        memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        try:
            found.backup(memory)
        except BaseException:
            memory.close()
            raise
        return memory


@contextmanager
def _as_it_is(file: Path) -> Iterator[str]:
    """Without a log everything is in the one file, and nobody has it open."""
    yield f"{file.absolute().as_uri()}?mode=ro&immutable=1"


@contextmanager
def _beside_room(file: Path, log: Path) -> Iterator[str]:
    """With a log, SQLite needs room for its index: file and log are copied to where there is some, for a moment."""
    import shutil  # a lookup does not need them
    import tempfile

    with tempfile.TemporaryDirectory(prefix="hushcall-") as place:
        for path in (file, log):
            shutil.copyfile(path, Path(place) / path.name)
        yield (Path(place) / file.name).as_uri()
