"""Keeps processes alive that are killed again and again: how to start one comes in, an address that mostly answers.

A process that died is started anew at the same port, by a thread that waits for its end. Whoever is not answered waits
until it is up, and asks again. A start from nothing costs two seconds of imports, which say nothing about commits: nine
of ten servers are forked from a process that has imported all of it, and is no server. How long a start takes is
measured on the others.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from hushcall.errors import InvalidParameter, Refused, Unreachable
from hushcall.lab.live.rig import HOST
from hushcall.lab.prove import mortal
from hushcall.lab.prove.child import Child, Cold, Forked
from hushcall.server.http.routes.gateway import ADDRESS as GATEWAY
from hushcall.server.serve import bound, port_of
from hushcall.server.settings import Settings, as_toml

START_SECONDS = 120.0
"""Nobody waits longer for a start, however busy the machine is."""
MOST_TRIES = 200
COLD, PART = 0.1, 0.8
"""How often a start is one from nothing, and the one to be killed a worker, where there are several."""
GLANCE = 0.02
T = TypeVar("T")


def free_port() -> int:
    """One that nobody listens at just now."""
    with bound(HOST, 0) as listener:
        return port_of(listener)


class Kept(Protocol):
    """What a keeper can start."""

    port: int
    child: Child

    def start(self, *, cold: bool) -> None:
        """Begin, from nothing or forked; it is not ready yet."""

    def ready(self) -> bool:
        """Wait until it serves; False where it ended before."""

    def kill_part(self, dice: random.Random) -> bool:
        """SIGKILL to one process of it; False where all of it is to go."""


@dataclass
class Server:
    """``hushcall serve``: one process, or a supervisor with workers of whom any may be killed."""

    settings: Settings
    folder: Path  # where its fate is laid, and its words are kept
    port: int
    plant: str = ""

    def start(self, *, cold: bool) -> None:
        """Begin; it is not ready yet."""
        config = self.folder / "hushcall.toml"
        config.write_text(as_toml(self.settings), encoding="utf-8")
        words = ["serve", "--config", str(config), "--port", str(self.port)]
        environment = {mortal.FOLDER: str(self.folder), mortal.PLANT: self.plant}
        for old in self.folder.glob(f"{mortal.WORKER}*"):
            old.unlink()
        cold = cold or self.settings.server.workers > 1
        self.child: Child = (Cold if cold else Forked)(words, environment, self.folder / "server.log")

    def ready(self) -> bool:
        """Wait until it takes uploads; False where it ended before."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.child.status() is None:
            if answers(self.port, "/readyz") == 200:
                return True
            time.sleep(GLANCE)
        if self.child.status() in (None, 1, 2, 3):  # not killed: it did not start
            said = (self.folder / "server.log").read_text("utf-8", "replace")[-2000:]
            raise InvalidParameter("server", f"start. Its last words: {said}", f"exit status {self.child.status()}")
        return False

    def kill_part(self, dice: random.Random) -> bool:
        """A worker, most of the time; when the supervisor goes, its workers end by themselves."""
        workers = mortal.workers(self.folder) if self.settings.server.workers > 1 else []
        if not workers or dice.random() >= PART:
            return False
        mortal.end(self.folder, dice.choice(workers))
        return True


@dataclass
class Relay:
    """``hushcall relay`` before a server."""

    gateway_port: int
    folder: Path
    port: int

    def start(self, *, cold: bool) -> None:
        """Begin; it is not ready yet."""
        gateway = f"http://{HOST}:{self.gateway_port}{GATEWAY}"
        limits = ["--per-address", "1000000", "--in-all", "10000000"]
        words = ["relay", "--gateway", gateway, "--port", str(self.port), *limits]
        self.child: Child = (Cold if cold else Forked)(words, {}, self.folder / "relay.log")

    def ready(self) -> bool:
        """Wait until it listens."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.child.status() is None:
            if answers(self.port, "/"):
                return True
            time.sleep(GLANCE)
        return False

    def kill_part(self, _: random.Random) -> bool:
        """It has none."""
        return False


def answers(port: int, path: str) -> int:
    """The status that somebody answers with; 0 where nobody does."""
    line = http.client.HTTPConnection(HOST, port, timeout=10)
    try:
        line.request("GET", path)
        return line.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        line.close()


@dataclass
class Keeper:
    """One that is always started again. ``startled`` says how long the next start is let be; None: to its end."""

    kept: Kept
    dice: random.Random
    startled: Callable[[], float | None] = lambda: None
    restarts: list[float] = field(default_factory=list)  # of those from nothing
    starts: list[float] = field(default_factory=list)
    kills: int = 0
    up: threading.Event = field(default_factory=threading.Event)
    trouble: Exception | None = None
    _ended: bool = False

    def __post_init__(self) -> None:
        self.url = f"http://{HOST}:{self.kept.port}"
        self._thread = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        try:
            while not self._ended:
                self._start()
                self.kept.child.wait()
                self.up.clear()
                self.kills += not self._ended
        except Exception as error:
            self.trouble = error
            self.up.set()

    def _start(self) -> None:
        while not self._ended:
            self._until_the_port_is_free()
            cold = not self.starts or self.dice.random() < COLD
            patience, began = self.startled(), time.monotonic()
            self.kept.start(cold=cold)
            if patience is not None:
                time.sleep(patience)
                self.kept.child.kill()
                self.kills += 1
                continue
            if self.kept.ready():
                took = time.monotonic() - began
                self.starts.append(took)
                if cold:
                    self.restarts.append(took)
                self.up.set()
                return
            self.kills += 1

    def _until_the_port_is_free(self) -> None:
        """Workers whose supervisor was killed end what they are at first."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                bound(HOST, self.kept.port).close()
            except InvalidParameter:
                time.sleep(GLANCE)
            else:
                return

    def kill(self) -> None:
        """``kill -9``; it is started again, by its supervisor where it was a worker."""
        if self.kept.kill_part(self.dice):
            self.kills += 1
        else:
            self.up.clear()
            self.kept.child.kill()

    def wait(self) -> None:
        """Until it is up."""
        if not self.up.wait(START_SECONDS * 2) or self.trouble:
            raise self.trouble or InvalidParameter("server", "come back", "silence")

    def end(self) -> None:
        """For good."""
        self._ended = True
        self.kept.child.kill()
        self._thread.join(START_SECONDS)
        self.kept.child.kill()


def insist(keepers: list[Keeper], ask: Callable[[], T]) -> T:
    """Ask until there is an answer of all that are on the way. A refusal that is no matter of time is raised."""
    for _ in range(MOST_TRIES):
        for keeper in keepers:
            keeper.wait()
        try:
            return ask()
        except Unreachable:
            time.sleep(GLANCE)
        except Refused as refusal:
            if refusal.status < 500 and refusal.status != 429:
                raise
    raise InvalidParameter("server", f"answer one of {MOST_TRIES} times", "silence")
