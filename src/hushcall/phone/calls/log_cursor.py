"""Where the phone stopped reading: a growing call log comes in, only its new calls leave.

A cursor per file says how far it was read. It holds while the file is the same one (inode), still begins with the same
bytes and has not shrunk; otherwise the log was rotated, and is read from its start. What was written between the last
look and the rotation is in the file that was put aside (``Master.csv.1``), which is known by its first bytes: its rest
is read, too. Taking in a call twice changes nothing, so a crash between reading and remembering does no harm.
"""

from __future__ import annotations

import glob
import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from pathlib import Path
from typing import BinaryIO

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import ReadResult
from hushcall.formats.calls.reader import Reader
from hushcall.phone.home.store import Store

HEAD_BYTES = 8192


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a file was read. ``head``: the digest of its first bytes, as many of them as were read."""

    format: str
    inode: int
    size: int
    offset: int
    head: str


def read_new(
    store: Store, path: Path, form: str | Reader | None = None, zone: tzinfo = UTC, *, again: bool = False
) -> tuple[ReadResult, Cursor]:
    """What a log holds beyond its cursor, and the cursor to :func:`keep` once those calls are taken in."""
    from hushcall.formats.calls.reading import detect, reader_named  # all formats at once

    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            known = None if again else _find(store, path)
            found = path.stat()
            reader: Reader
            if form:
                reader = reader_named(form) if isinstance(form, str) else form
            elif not head.strip():
                return ReadResult(), Cursor("", found.st_ino, 0, 0, _digest(head, 0))
            else:
                reader = reader_named(known.format) if known and known.format else detect(head, path.name)
            start = _start(known, reader, found.st_ino, found.st_size, head)
            data = _rest(file, start)
    except OSError as error:
        raise InvalidData("call log", f"be readable ({error.strerror})", path.name) from None
    followed = known is not None and known.format == reader.name and reader.grows
    result = reader.read(data, zone, chunk=followed)  # a new file of a known log may begin with half a line
    offset = start + result.consumed
    cursor = Cursor(reader.name, found.st_ino, start + len(data), offset, _digest(head, offset))
    if followed and known is not None and start < known.offset:
        result = _joined(_left_behind(path, known, reader, zone), result)
    return result, cursor


def keep(store: Store, path: Path, cursor: Cursor) -> None:
    """Remember how far a file was read."""
    store.run(
        "INSERT OR REPLACE INTO cursors (path, format, inode, size, offset, head) VALUES (?, ?, ?, ?, ?, ?)",
        *(str(path.resolve()), cursor.format, cursor.inode, cursor.size, cursor.offset, cursor.head),
    )


def _find(store: Store, path: Path) -> Cursor | None:
    row = store.row("SELECT format, inode, size, offset, head FROM cursors WHERE path = ?", str(path.resolve()))
    return Cursor(*row) if row else None


def _start(known: Cursor | None, reader: Reader, inode: int, size: int, head: bytes) -> int:
    """From where to read on: an exported file is read whole, a log from its cursor as long as it is the same log."""
    if known is None or not reader.grows or known.format != reader.name:
        return 0
    same = known.inode == inode and known.offset <= size and known.head == _digest(head, known.offset)
    return known.offset if same else 0


def _left_behind(path: Path, known: Cursor, reader: Reader, zone: tzinfo) -> ReadResult:
    """The rest of a log that was put aside under a longer name, moved or copied, and not packed yet."""
    for other in sorted(path.parent.glob(f"{glob.escape(path.name)}?*")):
        try:
            with other.open("rb") as file:
                if _digest(file.read(HEAD_BYTES), known.offset) == known.head:
                    return reader.read(_rest(file, known.offset), zone, chunk=True)
        except OSError:
            continue  # a folder, or gone again: no log of ours
    return ReadResult()


def _joined(first: ReadResult, second: ReadResult) -> ReadResult:
    return replace(
        second,
        calls=first.calls + second.calls,
        malformed=first.malformed + second.malformed,
        first_problem=first.first_problem or second.first_problem,
    )


def _rest(file: BinaryIO, start: int) -> bytes:
    file.seek(start)
    return file.read()


def _digest(head: bytes, offset: int) -> str:
    return hashlib.sha256(head[:offset]).hexdigest()
