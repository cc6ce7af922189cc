"""Keeps a server alive that is killed again and again: settings come in, an address that answers most of the time.

A server that died is started anew at the same port, by a thread that waits for its end; how long it took until it was
ready is written down. Whoever is not answered waits until it is up, and asks again.
"""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from hushcall.errors import InvalidParameter, Refused, Unreachable
from hushcall.lab.prove import mortal
from hushcall.server.serve import bound, port_of
from hushcall.server.settings import Settings, as_toml

HOST = "127.0.0.1"
START_SECONDS = 120.0
"""Nobody waits longer for a start, however busy the machine is."""
MOST_TRIES = 200
_GLANCE = 0.02
T = TypeVar("T")


def free_port() -> int:
    """One that nobody listens at just now."""
    with bound(HOST, 0) as listener:
        return port_of(listener)


@dataclass
class Server:
    """One process of ``hushcall serve``."""

    settings: Settings
    folder: Path  # where its fate is laid, and its words are kept
    port: int
    plant: str = ""

    def start(self) -> None:
        """Begin; it is not ready yet."""
        config = self.folder / "hushcall.toml"
        config.write_text(as_toml(self.settings), encoding="utf-8")
        words = [sys.executable, "-c", mortal.PROGRAM, "serve", "--config", str(config), "--port", str(self.port)]
        environment = {**os.environ, mortal.FOLDER: str(self.folder), mortal.PLANT: self.plant}
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, env=environment)

    def ready(self) -> bool:
        """Wait until it takes uploads; False where it ended before."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            if self._answers():
                return True
            time.sleep(_GLANCE)
        if self.process.poll() in (None, 1, 2, 3):  # not killed: it did not start
            said = (self.folder / "server.log").read_text("utf-8", "replace")[-2000:]
            raise InvalidParameter("server", f"start. Its last words: {said}", f"exit status {self.process.poll()}")
        return False

    def _answers(self) -> bool:
        line = http.client.HTTPConnection(HOST, self.port, timeout=10)
        try:
            line.request("GET", "/readyz")
            return line.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            line.close()

    def kill(self) -> None:
        """SIGKILL, also to one that is stopped or dead already."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@dataclass
class Keeper:
    """A server that is always started again. ``startled`` says how long the next start is let be; None: to its end."""

    server: Server
    startled: Callable[[], float | None] = lambda: None
    restarts: list[float] = field(default_factory=list)
    kills: int = 0
    up: threading.Event = field(default_factory=threading.Event)
    trouble: Exception | None = None
    _ended: bool = False

    def __post_init__(self) -> None:
        self.url = f"http://{HOST}:{self.server.port}"
        self._thread = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        try:
            while not self._ended:
                self._start()
                self.server.process.wait()
                self.up.clear()
                self.kills += not self._ended
        except Exception as error:
            self.trouble = error
            self.up.set()

    def _start(self) -> None:
        while not self._ended:
            patience, began = self.startled(), time.monotonic()
            self.server.start()
            if patience is not None:
                time.sleep(patience)
                self.server.kill()
                self.kills += 1
                continue
            if self.server.ready():
                self.restarts.append(time.monotonic() - began)
                self.up.set()
                return
            self.kills += 1

    def kill(self) -> None:
        """``kill -9``; it is started again."""
        self.up.clear()
        self.server.process.send_signal(signal.SIGKILL)

    def insist(self, ask: Callable[[], T]) -> T:
        """Ask until there is an answer. A refusal that is no matter of time is raised."""
        for _ in range(MOST_TRIES):
            self.wait()
            try:
                return ask()
            except Unreachable:
                time.sleep(_GLANCE)
            except Refused as refusal:
                if refusal.status < 500 and refusal.status != 429:
                    raise
        raise InvalidParameter("server", f"answer one of {MOST_TRIES} times", "silence")

    def wait(self) -> None:
        """Until it is up."""
        if not self.up.wait(START_SECONDS * 2) or self.trouble:
            raise self.trouble or InvalidParameter("server", "come back", "silence")

    def end(self) -> None:
        """For good."""
        self._ended = True
        self.server.kill()
        self._thread.join(START_SECONDS)
        self.server.kill()
