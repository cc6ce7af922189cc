"""What is wrong with a database, in one sentence: an error of SQLite or PostgreSQL comes in, words and advice leave."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from hushcall.errors import InvalidParameter
from hushcall.server.logs import cause_of

DAMAGED, FULL = "database damaged", "disk full"
RESTORE = "'hushcall restore FILE --overwrite' puts a backup back"
ERRORS = (sa.exc.DBAPIError, sqlite3.DatabaseError)
"""What a database's trouble is raised as: a connection that is being set up raises the driver's own."""
_ROOM = 1 << 20
"""SQLite calls a disk without this many bytes an I/O error where it makes its index of the log."""


def told(error: BaseException, url: sa.URL) -> InvalidParameter:
    """The error to end a command with: a damaged database, a full disk, or what the database itself said."""
    why, cause = str(getattr(error, "orig", error)).partition("\n")[0], cause_of(error)
    file, place = file_of(url), place_of(url)
    if cause == DAMAGED:
        return damaged(why, url)
    if cause == FULL or (cause == "disk error" and file and shutil.disk_usage(file.parent).free < _ROOM):
        return InvalidParameter("database", f"have room to write: {FULL}. Make room, then try again", place)
    return InvalidParameter("database", f"be one that opens ({why})", place)


def damaged(why: str, url: sa.URL) -> InvalidParameter:
    """The error of a database that cannot be read."""
    return InvalidParameter("database", f"be whole: it is damaged ({' '.join(why.split())}). {RESTORE}", place_of(url))


@contextmanager
def in_words(url: sa.URL) -> Iterator[None]:
    """Whatever the database raises inside leaves in words."""
    try:
        yield
    except ERRORS as error:
        raise told(error, url) from None


def place_of(url: sa.URL) -> str:
    """A database as it may be shown: a file, or an address without its password."""
    return str(file_of(url) or url.render_as_string(hide_password=True))


def file_of(url: sa.URL) -> Path | None:
    """SQLite's file; None where there is none."""
    lite = url.get_backend_name() == "sqlite" and url.database and url.database != ":memory:"
    return Path(str(url.database)) if lite else None
