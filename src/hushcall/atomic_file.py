"""Files that are written completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from hushcall.errors import InvalidData


def atomic_write(path: Path, data: bytes | str | Iterable[bytes], name: str = "file") -> None:
    """Replaces a file in one step, and syncs it to disk. ``name`` is the field in an error."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            with draft.open("wb") as file:
                data = data.encode() if isinstance(data, str) else data
                file.writelines([data] if isinstance(data, bytes) else data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidData(name, f"be one that can be written ({error.strerror})", str(path)) from None


def sync_to_disk(path: Path) -> None:
    """Makes a file's bytes, or the names in a folder, survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
