"""Bytes or text come in, a file leaves whole or not at all: whoever reads it meanwhile has the old one."""

from __future__ import annotations

import os
from pathlib import Path

from hushcall.errors import InvalidData


def write_whole(path: Path, data: bytes | str, name: str = "file") -> None:
    """Replace a file in one step, on disk when this returns. ``name`` is what an error calls it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            with draft.open("wb") as file:
                file.write(data.encode() if isinstance(data, str) else data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidData(name, f"be one that can be written ({error.strerror})", str(path)) from None


def to_disk(path: Path) -> None:
    """A file's bytes, or the names in a folder, survive a power cut once this returns."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
