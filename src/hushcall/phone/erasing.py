"""Takes away what a phone keeps: a folder comes in, and its list, or everything of ours, is gone from it."""

from __future__ import annotations

import shutil
from pathlib import Path

from hushcall.errors import InvalidData
from hushcall.phone import lock
from hushcall.phone.store import FILE, LISTS, Store


def forget_list(store: Store) -> None:
    """Drop the signed list, its metadata and the root that it was believed for: the next sync starts anew."""
    store.put("root", "")
    try:
        if store.lists.exists():
            shutil.rmtree(store.lists)
    except OSError as error:
        raise InvalidData("the phone's list", f"be erasable ({error.strerror})", str(store.lists)) from None


def erase_all(folder: Path) -> None:
    """Numbers are overwritten first; then the files go. Whatever else lies in the folder stays."""
    store = Store.open(folder)
    store.forget()
    store.close()
    try:
        for name in (FILE, f"{FILE}-wal", f"{FILE}-shm", lock.FILE):
            (folder / name).unlink(missing_ok=True)
        if (folder / LISTS).exists():
            shutil.rmtree(folder / LISTS)
        if not any(folder.iterdir()):
            folder.rmdir()
    except OSError as error:
        raise InvalidData("the phone's folder", f"be erasable ({error.strerror})", str(folder)) from None
