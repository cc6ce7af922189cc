"""One at a time: two processes must never build a report for the same phone at once."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hushcall.errors import InvalidData
from hushcall.phone.home.trouble import of_system

FILE = "lock"
PAUSE_SECONDS = 0.05
PATIENCE = 5.0
"""Seconds that somebody waits who has time to: any step of a phone is over by then, unless a server is slow."""


class Busy(InvalidData):
    """Another process is at work in the phone's folder; it passes."""


@contextmanager
def locked(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Hold the phone's lock; :class:`Busy` where another process keeps it longer than ``patience`` seconds.

    The kernel lets go of the lock when its holder dies, however it dies: a stale file locks nobody out.
    """
    try:
        handle = os.open(folder / FILE, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise of_system(error, folder / FILE) from None
    try:
        deadline = time.monotonic() + patience
        while not _taken(handle):
            if time.monotonic() >= deadline:
                holder = os.pread(handle, 20, 0).decode("ascii", "replace") or "unknown"
                rule = f"be free: another hushcall (process {holder}) is at work in it; wait until it has ended"
                raise Busy("the phone's folder", rule, str(folder))
            time.sleep(PAUSE_SECONDS)
        with suppress(OSError):  # a full disk: the lock holds all the same, only its holder is not named
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
