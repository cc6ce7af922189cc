"""What can be wrong with a client's store. An empty or truncated file is damage, never a new client."""

from __future__ import annotations

import errno
import os
import sqlite3
from enum import Enum
from pathlib import Path

from hushcall.errors import InvalidData

FILE = "phone.db"
COUNTER = "reports"
"""The file beside the store that counts its reports. It exists from the start: where it is, there was a store."""
MAGIC = b"SQLite format 3\0"
HEADER_BYTES = 100
ROOM_BYTES = 64 << 10
"""Room that a commit may need. A disk with less is full, whatever the error is called."""

_NOTHING_LOST = "Nothing is lost: all that was recorded is there."
_RESTORE = (
    "Put a backup back: hushcall phone restore FILE. Where there is none, copy the folder to a safe place first;"
    " hushcall phone forget --all then starts anew, and the record of what was spent is lost."
)


class Cause(Enum):
    """Why a store cannot be used: a command's exit status, the fact, whether anything is lost, and what to do."""

    FULL = (3, "cannot be written: its disk is full", _NOTHING_LOST, "Make room on the disk, then run this again.")
    READ_ONLY = (
        4,
        "cannot be written",
        _NOTHING_LOST,
        "Make the folder and its files writable for the user who runs hushcall (or --home another folder).",
    )
    BUSY = (5, "is held by another program", _NOTHING_LOST, "Wait until that one has ended, then run this again.")
    DISK = (
        6,
        "cannot be reached: its disk reports errors",
        "",
        "Copy the folder to another disk while that can be read, and go on there (--home).",
    )
    DAMAGED = (7, "is damaged", "", _RESTORE)
    GONE = (8, "is gone, and other files of this phone are still there", "", _RESTORE)
    NEWER = (
        9,
        "was written by a newer hushcall",
        "Nothing was changed.",
        "Update hushcall on this machine: git pull in its clone, and pip install . again",
    )
    FOREIGN = (
        10,
        "is none: another program's file has its name",
        "Nothing was changed.",
        "Move that file away, or choose another folder (--home).",
    )


class StoreTrouble(InvalidData):
    """A client's store cannot be used. ``cause`` says why, ``todo`` what to do."""

    def __init__(self, cause: Cause, where: str, detail: str) -> None:
        self.cause, self.where, self.detail = cause, where, detail
        self.exit_code, fact, loss, self.todo = cause.value
        self.words = f"the phone's store {fact} ({where}: {detail}).{f' {loss}' if loss else ''}"
        super().__init__("the phone's store", "be readable and writable", f"{where}: {detail}")
        self.args = (f"{self.words} {self.todo}",)


def look(folder: Path) -> bool:
    """Whether a folder has a store, by its first bytes and length. SQLite would take an empty file for a new one."""
    file = folder / FILE
    try:
        with file.open("rb") as opened:
            head, size = opened.read(HEADER_BYTES), os.fstat(opened.fileno()).st_size
    except FileNotFoundError:
        if had_store(folder):
            raise StoreTrouble(Cause.GONE, str(file), "no such file") from None
        return False
    except IsADirectoryError:
        raise StoreTrouble(Cause.FOREIGN, str(file), "a folder") from None
    except OSError as error:
        raise of_system(error, file) from None
    if not head.startswith(MAGIC) and size >= HEADER_BYTES and not had_store(folder):
        raise StoreTrouble(Cause.FOREIGN, str(file), "not a database")
    if damage := _header_damage(head, size, _has_log(folder)):
        raise StoreTrouble(Cause.DAMAGED, str(file), damage)
    return True


def had_store(folder: Path) -> bool:
    return (folder / COUNTER).is_file() or _has_log(folder)


def of_sqlite(error: sqlite3.Error, file: Path) -> InvalidData:
    code = getattr(error, "sqlite_errorcode", None)
    where, detail = str(file), str(error)
    if code == sqlite3.SQLITE_READONLY_DBMOVED:
        return StoreTrouble(Cause.GONE, where, "moved or deleted while it was open")
    primary = None if code is None else code & 0xFF
    if primary in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and _no_room(file.parent):
        primary = sqlite3.SQLITE_FULL
    cause = _BY_CODE.get(primary, Cause.DAMAGED if "decode to UTF-8" in detail else None)
    if cause is None:
        return InvalidData("the phone's store", "be readable and writable", f"{file.name}: {error}")
    return StoreTrouble(cause, where, detail)


def of_system(error: OSError, path: Path) -> StoreTrouble:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    cause = Cause.FULL if full else Cause.DISK if error.errno == errno.EIO else Cause.READ_ONLY
    return StoreTrouble(cause, str(path), error.strerror or str(error))


_BY_CODE: dict[int | None, Cause] = {
    sqlite3.SQLITE_FULL: Cause.FULL,
    sqlite3.SQLITE_READONLY: Cause.READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: Cause.READ_ONLY,
    sqlite3.SQLITE_PERM: Cause.READ_ONLY,
    sqlite3.SQLITE_BUSY: Cause.BUSY,
    sqlite3.SQLITE_LOCKED: Cause.BUSY,
    sqlite3.SQLITE_IOERR: Cause.DISK,
    sqlite3.SQLITE_CORRUPT: Cause.DAMAGED,
    sqlite3.SQLITE_NOTADB: Cause.DAMAGED,
}


def _header_damage(head: bytes, size: int, log: bool) -> str:
    """What is wrong with a file by its header (SQLite's file format, 1.3), or an empty text."""
    if size == 0:
        return "it is empty"
    if size < HEADER_BYTES:
        return f"only {size} byte{'' if size == 1 else 's'} of it {'is' if size == 1 else 'are'} left"
    if not head.startswith(MAGIC):
        return "its beginning is overwritten"
    page = int.from_bytes(head[16:18], "big")
    expected = (65_536 if page == 1 else page) * int.from_bytes(head[28:32], "big")
    return "" if log or size >= expected else f"{size:,} of {expected:,} bytes are left"  # with a log, the log decides


def _has_log(folder: Path) -> bool:
    try:
        return (folder / f"{FILE}-wal").stat().st_size > 0
    except OSError:
        return False


def _no_room(folder: Path) -> bool:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < ROOM_BYTES
