"""Takes away what a phone keeps: a folder comes in, and everything of ours is gone from it."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from hushcall.errors import InvalidData
from hushcall.phone.home import lock
from hushcall.phone.home.store import ENDINGS, LISTS, Store
from hushcall.phone.home.trouble import COUNTER, FILE, Cause, StoreTrouble

DAMAGED = f"{FILE}.damaged"
"""What a store is called that a restored one took the place of."""
_PIECE = 1 << 20


def erase_all(folder: Path) -> None:
    """Numbers are overwritten first; then the files go. Whatever else lies in the folder stays.

    A store that is too damaged to be asked is overwritten as it lies there; another program's file is not touched.
    """
    files = [folder / f"{name}{ending}" for name in (FILE, DAMAGED) for ending in ENDINGS]
    try:
        with contextlib.closing(Store.open(folder)) as store:
            store.forget()
    except InvalidData as error:
        if isinstance(error, StoreTrouble) and error.cause is Cause.FOREIGN:
            raise
        _overwrite(files)
    _overwrite([path for path in files if path.name.startswith(DAMAGED)])
    try:
        for path in (*files, folder / lock.FILE, folder / COUNTER):
            path.unlink(missing_ok=True)
        if (folder / LISTS).exists():
            shutil.rmtree(folder / LISTS)
        if not any(folder.iterdir()):
            folder.rmdir()
    except OSError as error:
        raise InvalidData("the phone's folder", f"be erasable ({error.strerror})", str(folder)) from None


def _overwrite(files: list[Path]) -> None:
    """Zeros over what is there, on the disk; a file that cannot be written is left to be unlinked."""
    for path in files:
        with contextlib.suppress(OSError), path.open("r+b") as file:
            left = os.fstat(file.fileno()).st_size
            while left > 0:
                left -= file.write(bytes(min(left, _PIECE)))
            file.flush()
            os.fsync(file.fileno())
