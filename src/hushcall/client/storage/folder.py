"""The client's folder: a lock so that one process works in it at a time, and erasing everything in it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from hushcall.client.storage.store import ENDINGS, LISTS, SUBSCRIBED, Store
from hushcall.client.storage.trouble import COUNTER, FILE, Cause, StoreTrouble, of_system
from hushcall.errors import InvalidData

LOCK_FILE = "lock"
HOME_FILE = "home.json"  # the configuration of ``hushcall home``, which holds a password
RETRY_SECONDS = 0.05
TIMEOUT_SECONDS = 5.0  # any step of a client is shorter, unless a server is slow
DAMAGED = f"{FILE}.damaged"  # a damaged store after a restored one replaced it
_CHUNK_BYTES = 1 << 20


class Busy(InvalidData):
    """Another process is at work in the client's folder. Try again later."""


@contextlib.contextmanager
def locked(folder: Path, timeout_seconds: float = TIMEOUT_SECONDS) -> Iterator[None]:
    """Hold the folder's lock, or raise :class:`Busy` after the timeout. The lock of a process that died is free."""
    path = folder / LOCK_FILE
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise of_system(error, path) from None
    try:
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    holder = os.pread(handle, 20, 0).decode("ascii", "replace") or "unknown"
                    rule = f"be free: another hushcall (process {holder}) is at work in it; wait until it has ended"
                    raise Busy("the phone's folder", rule, str(folder)) from None
                time.sleep(RETRY_SECONDS)
        with contextlib.suppress(OSError):  # on a full disk the lock holds, and its holder is not named
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def erase_all(folder: Path) -> None:
    """Overwrite all numbers, then delete the client's files, damaged ones as well. Other files stay."""
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
        for path in (*files, folder / LOCK_FILE, folder / HOME_FILE, folder / COUNTER):
            path.unlink(missing_ok=True)
        for path in filter(Path.exists, (folder / LISTS, folder / SUBSCRIBED)):
            shutil.rmtree(path)
        if not any(folder.iterdir()):
            folder.rmdir()
    except OSError as error:
        raise InvalidData("the phone's folder", f"be erasable ({error.strerror})", str(folder)) from None


def _overwrite(files: list[Path]) -> None:
    for path in files:
        with contextlib.suppress(OSError), path.open("r+b") as file:
            remaining = os.fstat(file.fileno()).st_size
            while remaining > 0:
                remaining -= file.write(bytes(min(remaining, _CHUNK_BYTES)))
            file.flush()
            os.fsync(file.fileno())
