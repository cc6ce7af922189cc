"""Server and relay processes that are killed again and again, and restarted each time at the same port."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import urllib3

from hushcall.errors import InvalidParameter, Refused, Unreachable
from hushcall.server.http.routes.gateway import ADDRESS
from hushcall.server.serve import bound, port_of
from hushcall.server.settings import Settings, as_toml
from hushcall_lab.proofs import kill_points
from hushcall_lab.simulation.rig import HOST

START_SECONDS = 120.0
MAX_TRIES = 200
WORKER_SHARE = 0.8
"""How often a kill hits a worker, where there are several."""
POLL_SECONDS = 0.02
T = TypeVar("T")


@dataclass
class Program:
    """A command that serves at a port. ``folder`` holds its log and, for a server with workers, a file per worker."""

    words: list[str]
    port: int
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    has_workers: bool = False
    process: subprocess.Popen[bytes] = field(init=False)

    @classmethod
    def server(cls, settings: Settings, folder: Path, port: int, bug: str = "") -> Program:
        config = folder / "hushcall.toml"
        config.write_text(as_toml(settings), encoding="utf-8")
        environment = {kill_points.FOLDER: str(folder), kill_points.BUG: bug}
        words = ["serve", "--config", str(config), "--port", str(port)]
        return cls(words, port, folder, environment, settings.server.workers > 1)

    @classmethod
    def relay(cls, gateway_port: int, folder: Path, port: int) -> Program:
        gateway = f"http://{HOST}:{gateway_port}{ADDRESS}"
        limits = ["--per-address", "1000000", "--in-all", "10000000"]
        return cls(["relay", "--gateway", gateway, "--port", str(port), *limits], port, folder)

    @property
    def log(self) -> Path:
        return self.folder / f"{self.words[0]}.log"

    def start(self) -> None:
        for path in self.folder.glob(f"{kill_points.WORKER}*") if self.has_workers else ():
            path.unlink()
        command = [sys.executable, "-c", kill_points.PROGRAM, *self.words]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **self.environment})

    def ready(self) -> bool:
        """False if it was killed before it served."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            with suppress(urllib3.exceptions.HTTPError):  # it does not listen yet
                url = f"http://{HOST}:{self.port}/readyz"  # a relay has no such page
                headers = {"connection": "close"}  # an open one may lead to a worker of before
                if urllib3.request("GET", url, headers=headers, timeout=10, retries=False).status != 503:
                    return True
            time.sleep(POLL_SECONDS)
        if self.process.poll() in (None, 1, 2, 3):  # not killed
            log = self.log.read_text("utf-8", "replace")[-2000:]
            raise InvalidParameter(self.words[0], f"start. The end of its log: {log}", self.process.poll())
        return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def kill_worker(self, rng: random.Random) -> bool:
        """Kills a worker, most of the time. False if everything is to be killed."""
        workers = sorted(self.folder.glob(f"{kill_points.WORKER}*")) if self.has_workers else []
        if not workers or rng.random() >= WORKER_SHARE:
            return False
        kill_points.kill_worker(self.folder, int(rng.choice(workers).name.removeprefix(kill_points.WORKER)))
        return True


_ports = itertools.count(20_000 + os.getpid() % 10_000)


def free_port() -> int:
    """A free port below those that systems hand out: other processes leave it alone until a server has started."""
    while True:
        with suppress(InvalidParameter), bound(HOST, next(_ports)) as listener:
            return port_of(listener)


@dataclass
class Restarter:
    """Restarts a program whenever it ends. ``early_death``: after which seconds the next start is killed, or None."""

    program: Program
    rng: random.Random
    early_death: Callable[[], float | None] = lambda: None
    starts: list[float] = field(default_factory=list)
    kills: int = 0
    up: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None
    _ended: bool = False

    def __post_init__(self) -> None:
        self.url = f"http://{HOST}:{self.program.port}"
        self._thread = threading.Thread(target=self._keep_running, daemon=True)
        self._thread.start()

    def _keep_running(self) -> None:
        try:
            while not self._ended:
                self._start()
                self.program.process.wait()
                self.up.clear()
                self.kills += not self._ended
        except Exception as error:
            self.error = error
            self.up.set()

    def _start(self) -> None:
        while not self._ended:
            self._wait_for_port()
            death_seconds, began = self.early_death(), time.monotonic()
            self.program.start()
            if death_seconds is not None:
                time.sleep(death_seconds)
                self.program.kill()
            elif self.program.ready():
                self.starts.append(time.monotonic() - began)
                self.up.set()
                return
            self.kills += 1

    def _wait_for_port(self) -> None:
        """Workers of a killed supervisor finish their work first."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                bound(HOST, self.program.port).close()
            except InvalidParameter:
                time.sleep(POLL_SECONDS)
            else:
                return

    def kill(self) -> None:
        """Sends SIGKILL to the program, or to one of its workers, which its supervisor restarts."""
        if self.program.kill_worker(self.rng):
            self.kills += 1
        else:
            self.up.clear()
            self.program.kill()

    def wait(self) -> None:
        if not self.up.wait(START_SECONDS * 2) or self.error:
            raise self.error or InvalidParameter("server", "come back", "no answer")

    def end(self) -> None:
        self._ended = True
        self.program.kill()
        self._thread.join(START_SECONDS)
        self.program.kill()


def retry(restarters: list[Restarter], ask: Callable[[], T]) -> T:
    """Repeats ``ask`` until every program on the way has answered. Refusals other than 429 and 5xx are raised."""
    for _ in range(MAX_TRIES):
        for restarter in restarters:
            restarter.wait()
        try:
            return ask()
        except Unreachable:
            time.sleep(POLL_SECONDS)
        except Refused as refusal:
            if refusal.status < 500 and refusal.status != 429:
                raise
    raise InvalidParameter("server", f"answer one of {MAX_TRIES} times", "no answer")
