"""Kills or stalls a ``hushcall serve`` process at a boundary of a transaction (``Store.fault``).

The server reads its kill point from a file in the run's folder. Otherwise it is the real command, except that a lease
lasts two seconds and that decoders are not compiled in the background.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hushcall.server import serve, service
from hushcall.server.db import leases
from hushcall_lab.proofs.promises import planted

if TYPE_CHECKING:
    from fastapi import FastAPI

PROGRAM = "from hushcall_lab.proofs import kill_points; kill_points.run_command()"
"""What a new interpreter runs."""
FOLDER, BUG = "HUSHCALL_PROVE_FOLDER", "HUSHCALL_PROVE_PLANT"
FACTORY = f"{__name__}:worker_app"
LEASE_SECONDS = 2.0
MAX_STALL_SECONDS = 120.0
WORKER = "worker-"
_BUGS = ExitStack()
_POINT, _FIRED, _RESUMED = "kill-point.json", "fired", "resumed"


@dataclass(frozen=True)
class KillPoint:
    """The process dies, or stalls, at a passing of a boundary."""

    boundary: str  # without numbers in its name
    passing: int = 1
    stalls: bool = False


def arm(folder: Path, point: KillPoint | None) -> None:
    for mark in (_FIRED, _RESUMED):
        (folder / mark).unlink(missing_ok=True)
    part = folder / f"{_POINT}.part"
    part.write_text(json.dumps(asdict(point) if point else None), encoding="utf-8")
    part.replace(folder / _POINT)


def fired(folder: Path) -> bool:
    return (folder / _FIRED).exists()


def resume(folder: Path) -> None:
    (folder / _RESUMED).touch()


@dataclass
class Hook:
    """Called at every boundary. A kill point fires once, in one process of the server.

    A process stalls by stopping each of its threads after its next commit. In a transaction it would lock SQLite.
    """

    folder: Path
    text: str = ""
    passed: int = 0
    stalled: bool = False

    def __call__(self, name: str) -> None:
        if self.stalled and name.endswith("after commit"):
            self._stall()
        text = (self.folder / _POINT).read_text(encoding="utf-8")
        if text != self.text:
            self.text, self.passed = text, 0
        point = json.loads(text)
        if not point or re.sub(r" \d+", "", name) != point["boundary"]:
            return
        self.passed += 1
        if self.passed == point["passing"] and self._is_first():
            if not point["stalls"]:
                kill_worker(self.folder, os.getpid())
            self.stalled = True
            self._stall()

    def _stall(self) -> None:
        deadline = time.monotonic() + MAX_STALL_SECONDS
        while not (self.folder / _RESUMED).exists() and time.monotonic() < deadline:
            time.sleep(0.01)

    def _is_first(self) -> bool:
        try:
            (self.folder / _FIRED).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def kill_worker(folder: Path, pid: int) -> None:
    """Sends SIGKILL. The worker's file goes first: its process id may soon be another's."""
    (folder / f"{WORKER}{pid}").unlink(missing_ok=True)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def run_command() -> None:
    """Runs the command in ``sys.argv``. A server gets its hook first."""
    from hushcall.cli import main

    if FOLDER in os.environ:
        _prepare()
    main()


def _prepare() -> None:
    for name, value in {
        "open_service": partial(service.open_service, fault=Hook(Path(os.environ[FOLDER]))),
        "compiling": lambda _: nullcontext(),
        "_FACTORY": FACTORY,
    }.items():
        setattr(serve, name, value)
    leases.LEASE_SECONDS = LEASE_SECONDS
    from hushcall_lab.proofs.server_bugs import CRASH_BUGS

    _BUGS.enter_context(planted(CRASH_BUGS, os.environ.get(BUG, "")))


def worker_app() -> FastAPI:
    """The application of one worker. A worker in a process of its own is prepared first."""
    if serve._FACTORY != FACTORY:
        _prepare()
    (Path(os.environ[FOLDER]) / f"{WORKER}{os.getpid()}").touch()
    return serve.worker_app()
