"""A process of our command line that can be killed: started from nothing, or forked from one that imported it all."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext
from pathlib import Path

from hushcall.lab.prove import mortal


class Child(ABC):
    """One such process. ``words`` are those after ``hushcall``; what it says goes to ``log``."""

    @abstractmethod
    def __init__(self, words: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.pid: int

    @abstractmethod
    def status(self) -> int | None:
        """What it ended with, a signal as a negative number; None while it lives."""

    @abstractmethod
    def wait(self) -> None:
        """Until it ends."""

    @abstractmethod
    def kill(self) -> None:
        """SIGKILL, also to one that is stopped or dead already; it is gone when this returns."""


class Cold(Child):
    """By a new interpreter."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        command = [sys.executable, "-c", mortal.PROGRAM, *words]
        with log.open("ab") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **environment})
        self.pid = self._process.pid

    def status(self) -> int | None:
        """What it ended with."""
        return self._process.poll()

    def wait(self) -> None:
        """Until it ends."""
        self._process.wait()

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()


class Forked(Child):
    """By a process that has imported all of it, and does nothing else."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._process = _nursery().Process(target=_become, args=(list(words), dict(environment), str(log)))
        self._process.start()
        self._lock = threading.Lock()
        self.pid = int(self._process.pid or 0)

    def status(self) -> int | None:
        """What it ended with. Two threads that ask at once would take the answer from each other."""
        with self._lock:
            return self._process.exitcode

    def wait(self) -> None:
        """Until it ends."""
        wait([self._process.sentinel])

    def kill(self) -> None:
        """SIGKILL."""
        if self.status() is None:
            self._process.kill()
        self.wait()


@cache
def _nursery() -> ForkServerContext:
    # numba makes semaphores, and who is killed gives none back: the tracker does that, and need not complain.
    sys.warnoptions.append("ignore::UserWarning:multiprocessing.resource_tracker")
    resource_tracker.ensure_running()
    sys.warnoptions.pop()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["hushcall.lab.prove.child", *IMPORTED])
    return context


IMPORTED = (
    *("hushcall.cli", "hushcall.server.http.app", "hushcall.server.serve", "hushcall.relay.run"),
    *("hushcall.learn.window", "hushcall.learn.whole_number", "hushcall.learn.gate"),
)
"""What a server and a relay need to start, and what a server loads when it first decides and decodes."""


def _become(words: list[str], environment: dict[str, str], log: str) -> None:
    """In the new process: say everything to the log, and be the command."""
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for stream in (1, 2):
        os.dup2(out, stream)
    os.environ.update(environment)
    sys.argv = ["hushcall", *words]
    mortal.become()
