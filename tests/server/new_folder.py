"""A new server's folder, copied: to make schema and keys takes a tenth of a second, and hundreds of tests begin so."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from sqlalchemy import event
from tests.server.serving import START, Clock, settings_for

from hushcall.protocol.randomness import ByteSource, seeded
from hushcall.server.service import Service, open_service
from hushcall.server.settings import Settings


def open_new(settings: Settings, rand: ByteSource, clock: Callable[[], float]) -> Service:
    """What ``open_service`` gives; over SQLite in an empty folder, at the hour when tests begin, from a copy."""
    empty = not settings.data.exists() or not any(settings.data.iterdir())
    if empty and not settings.database and clock() == START:
        copy(_new(), settings.data)
    service = open_service(settings, rand, clock)
    careless(service)
    return service


def careless(service: Service) -> None:
    """SQLite waits for no disk: what a power cut leaves is not what these tests are about."""
    if not service.store.postgres:
        event.listen(service.store.engine, "connect", lambda made, _: made.execute("PRAGMA synchronous=OFF"))
        service.store.engine.dispose()


def copy(made: Path, to: Path) -> None:
    """A folder and all that is in it, as private as it was."""
    shutil.copytree(made, to, dirs_exist_ok=True)


def temporary() -> Path:
    """A folder that is gone when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="hushcall-new-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder / "data"


@cache
def _new() -> Path:
    folder = temporary()
    open_service(settings_for(folder), seeded(b"a new folder"), Clock()).close()
    return folder
