"""A ``hushcall serve`` that dies, or stands still, where it is told to: a file of fate comes in, a mark is left.

The process is the real command, with three differences. At each boundary of a transaction (``Store.fault``) it looks
into its fate: a process that reaches the boundary named there marks it as met, so that it is met once whoever comes
after, and ends itself by SIGKILL, or stands still: each of its threads stops after its next commit, until it is woken.
(SIGSTOP could catch another thread in the middle of a transaction, and SQLite would be locked for all.) A lease lasts
two seconds, so that it can be lost in a minute. And decoders are not compiled beside it: who starts it has done that.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import time
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hushcall.server import serve, service
from hushcall.server.db import leases

PROGRAM = "from hushcall.lab.prove import mortal; mortal.become()"
"""What a new interpreter runs."""
FOLDER, PLANT = "HUSHCALL_PROVE_FOLDER", "HUSHCALL_PROVE_PLANT"
FACTORY = f"{__name__}:worker_app"
LEASE_SECONDS = 2.0
STILL_SECONDS = 120.0
"""Nobody stands still for longer, whoever forgot to wake it."""
_FATE, _MET, _WOKEN, WORKER = "fate.json", "met", "woken", "worker-"


@dataclass(frozen=True)
class Fate:
    """At which boundary, on which passing of it, and what happens there. Numbers are left out of names."""

    at: str
    passing: int = 1
    stops: bool = False


def lay(folder: Path, fate: Fate | None) -> None:
    """Say what is to happen next to the process that looks into ``folder``; None: nothing."""
    for mark in (_MET, _WOKEN):
        (folder / mark).unlink(missing_ok=True)
    part = folder / f"{_FATE}.part"
    part.write_text(json.dumps(asdict(fate) if fate else None), encoding="utf-8")
    part.replace(folder / _FATE)


def met(folder: Path) -> bool:
    """Whether it has happened."""
    return (folder / _MET).exists()


def wake(folder: Path) -> None:
    """Let the one that stands still go on."""
    (folder / _WOKEN).touch()


@dataclass
class Hook:
    """Called at every boundary; counts the passings of the one that its fate names."""

    folder: Path
    last: str = ""
    passed: int = 0
    still: bool = False

    def __call__(self, name: str) -> None:
        """Whether this is the place."""
        if self.still and name.endswith("after commit"):
            self._stand_still()
        text = (self.folder / _FATE).read_text(encoding="utf-8")
        if text != self.last:
            self.last, self.passed = text, 0
        found = json.loads(text)
        if not found or re.sub(r" \d+", "", name) != found["at"]:
            return
        self.passed += 1
        if self.passed == found["passing"] and self._first():
            if not found["stops"]:
                end(self.folder, os.getpid())
            self.still = True
            self._stand_still()

    def _stand_still(self) -> None:
        deadline = time.monotonic() + STILL_SECONDS
        while not (self.folder / _WOKEN).exists() and time.monotonic() < deadline:
            time.sleep(0.01)

    def _first(self) -> bool:
        try:
            (self.folder / _MET).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def become() -> None:
    """Be the command that was asked for. The command line is on a floor above this one, and is known by name only."""
    if FOLDER in os.environ:
        prepare()
    importlib.import_module("hushcall.cli").main()


def workers(folder: Path) -> list[int]:
    """The processes of a server that have begun to serve, and that nobody has killed."""
    return sorted(int(one.name.removeprefix(WORKER)) for one in folder.glob(f"{WORKER}*"))


def end(folder: Path, worker: int) -> None:
    """SIGKILL to a worker. It is struck off first: its number may soon be another's."""
    (folder / f"{WORKER}{worker}").unlink(missing_ok=True)
    with suppress(ProcessLookupError):
        os.kill(worker, signal.SIGKILL)


def prepare() -> None:
    """In a process that is about to become ``hushcall serve``, and in each of its workers."""
    from hushcall.lab.prove.planted_server import BUGS

    changes: dict[str, Any] = {
        "open_service": partial(service.open_service, fault=Hook(Path(os.environ[FOLDER]))),
        "compiling": lambda _: nullcontext(),
        "_FACTORY": FACTORY,
    }
    for name, value in changes.items():
        setattr(serve, name, value)
    leases.LEASE_SECONDS = LEASE_SECONDS
    if bug := os.environ.get(PLANT):
        BUGS[bug]()


def worker_app() -> Any:
    """The application of a worker: one that is a process of its own has to be prepared first."""
    if serve._FACTORY != FACTORY:
        prepare()
    (Path(os.environ[FOLDER]) / f"{WORKER}{os.getpid()}").touch()
    return serve.worker_app()
