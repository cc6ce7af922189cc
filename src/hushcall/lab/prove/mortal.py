"""A ``hushcall serve`` that dies, or stands still, where it is told to: a file of fate comes in, a mark is left.

The process is the real command, with three differences. At each boundary of a transaction (``Store.fault``) it looks
into its fate: a process that reaches the boundary named there marks it as met, so that it is met once whoever comes
after, and ends itself by SIGKILL, or stops by SIGSTOP. A lease lasts a second, so that it can be lost in a minute. And
decoders are not compiled beside it: whoever starts it has done that.
"""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hushcall.server import serve, service

PROGRAM = "from hushcall.lab.prove import mortal; mortal.prepare(); from hushcall.cli import main; main()"
"""What the process runs. The command line is on a floor above this one, which its tests may know and this may not."""
FOLDER, PLANT = "HUSHCALL_PROVE_FOLDER", "HUSHCALL_PROVE_PLANT"
FACTORY = f"{__name__}:worker_app"
LEASE_SECONDS = 1.0
_FATE, _MET = "fate.json", "met"


@dataclass(frozen=True)
class Fate:
    """At which boundary, on which passing of it, and what happens there. Numbers are left out of names."""

    at: str
    passing: int = 1
    stops: bool = False


def lay(folder: Path, fate: Fate | None) -> None:
    """Say what is to happen next to the process that looks into ``folder``; None: nothing."""
    (folder / _MET).unlink(missing_ok=True)
    part = folder / f"{_FATE}.part"
    part.write_text(json.dumps(asdict(fate) if fate else None), encoding="utf-8")
    part.replace(folder / _FATE)


def met(folder: Path) -> bool:
    """Whether it has happened."""
    return (folder / _MET).exists()


@dataclass
class Hook:
    """Called at every boundary; counts the passings of the one that its fate names."""

    folder: Path
    last: str = ""
    passed: int = 0

    def __call__(self, name: str) -> None:
        """Whether this is the place."""
        text = (self.folder / _FATE).read_text(encoding="utf-8")
        if text != self.last:
            self.last, self.passed = text, 0
        found = json.loads(text)
        if not found or re.sub(r" \d+", "", name) != found["at"]:
            return
        self.passed += 1
        if self.passed == found["passing"] and self._first():
            os.kill(os.getpid(), signal.SIGSTOP if found["stops"] else signal.SIGKILL)

    def _first(self) -> bool:
        try:
            (self.folder / _MET).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


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
    service.LEASE_SECONDS = LEASE_SECONDS
    if bug := os.environ.get(PLANT):
        BUGS[bug]()


def worker_app() -> Any:
    """The application of a worker: one that is a process of its own has to be prepared first."""
    if serve._FACTORY != FACTORY:
        prepare()
    return serve.worker_app()
