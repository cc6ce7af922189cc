"""A household on a virtual clock: a box that rings, a real server with other phones, and the program between them."""

from __future__ import annotations

import heapq
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from tests.home.box import FritzBox, running
from tests.server.serving import Clock, Village, serving, settings_for, shared_rand

from hushcall.client.client import Client
from hushcall.protocol.randomness import seeded
from hushcall.server.service import open_service
from hushcall_home.daemon import Daemon
from hushcall_home.languages import Language

DAY, HOUR = 86_400, 3600
LISTED = [f"+1202555014{place}" for place in range(4)]
REPORTING = [number for number, phones in zip(LISTED, (90, 70, 50, 40), strict=True) for _ in range(phones)]
CONTACTS = ["(202) 555-0170", "+1 202-555-0171"]
CALLED, OWN = "2025550180", "2025550199"
LIMIT = 3
HOURS = (1, 3, 4, 6, 8, 11, 13, 15, 18, 21)
ZONE = "America/New_York"
# The command itself, on the clock of the test: it says how long it would wait, and is told what time it is then.
DRIVER = """
import sys, time
now = [float(sys.argv.pop(1))]
time.time = lambda: now[0]
from hushcall.protocol import randomness
randomness.os_entropy = randomness.seeded(b"household")
from hushcall_home import daemon
def wait(self, seconds):
    print(seconds, flush=True)
    line = sys.stdin.readline()
    if line:
        now[0] = float(line)
    else:
        self.stop()
daemon.Daemon._wait = wait
from hushcall.cli import main
sys.argv[0] = "hushcall"
main()
"""


@dataclass
class World:
    """Time, and what happens in it besides the program."""

    clock: Clock
    box: FritzBox
    village: Village
    url: str
    folder: Path
    rung: list[int] = field(default_factory=list)
    _events: list[tuple[float, int, Callable[[], object]]] = field(default_factory=list)

    def at(self, moment: float, event: Callable[[], object]) -> None:
        heapq.heappush(self._events, (moment, len(self._events) + len(self.rung), event))

    def plan(self, days: int) -> None:
        """Ten calls a day, and rounds in which the other phones report the listed numbers."""
        start, rounds = self.clock.now, self.village.service.rounds
        for day in range(days):
            midnight = start + day * DAY
            for place, hour in enumerate(HOURS):
                self.at(midnight + hour * HOUR + 61 * place, partial(self._ring, day, place))
            for hour in range(24):
                self.at(midnight + hour * HOUR, lambda: rounds.advance(int(self.clock.now)))
            self.at(midnight + 2 * HOUR + 1, lambda: self.village.announce(REPORTING))
            self.at(midnight + 14 * HOUR + 1, lambda: self.village.report(REPORTING))

    def _ring(self, day: int, place: int) -> None:
        number, kind = f"202556{day * 10 + place:04}", 2
        if place < len(CONTACTS):
            number = "".join(filter(str.isdecimal, CONTACTS[place]))[-10:]
        elif place == 2:
            number, kind = CALLED, 3
        elif place == 3:
            number = LISTED[0][2:]
        self.rung.append(self.box.ring(number, kind).id)

    def wait(self, seconds: float) -> None:
        """Let time pass, with all that happens meanwhile."""
        until = self.clock.now + max(seconds, 1)
        while self._events and self._events[0][0] <= until:
            self.clock.now, _, event = heapq.heappop(self._events)
            event()
        self.clock.now = until

    def command(
        self, *words: object, password: str = "", python: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of hushcall in the household's folder."""
        env = {**os.environ, "HUSHCALL_HOME": str(self.folder), "HUSHCALL_FRITZBOX_PASSWORD": password, "TZ": ZONE}
        if python:
            env.pop("PYTHONPATH", None)
        program = f"import time; time.time = lambda: {self.clock.now}; from hushcall.cli import main; main()"
        code = [str(python or sys.executable), "-c", program]
        return subprocess.run([*code, *map(str, words)], capture_output=True, text=True, check=False, env=env)

    def status(self, python: Path | None = None) -> dict[str, dict[str, Any]]:
        """What the command says of each part."""
        said = json.loads(self.command("home", "status", "--json", python=python).stdout)
        for row in said["parts"]:
            assert Language.of("de").unknown(row["words"]) == Language.of("de").unknown(row["todo"]) == [], row
        return {row["topic"]: row for row in said["parts"]}


class InProcess:
    """The program in this process."""

    def __init__(self, world: World) -> None:
        self.world, self.said = world, list[str]()
        client = Client.open(world.folder)
        client.clock, client.rand = world.clock, seeded(b"household")
        self.daemon = Daemon(client, self.said.append)

    def until(self, moment: float) -> None:
        while self.world.clock.now < moment:
            due = self.daemon.run_due()
            now = self.world.clock.now
            self.world.wait(min(due - now, 60, moment - now))

    def close(self) -> None:
        self.daemon.close()


class Installed:
    """``hushcall home run`` of an environment of its own, on this clock."""

    def __init__(self, world: World, python: Path) -> None:
        self.world = world
        env = {**os.environ, "HUSHCALL_HOME": str(world.folder), "TZ": ZONE}
        env.pop("PYTHONPATH", None)
        words = [str(python), "-c", DRIVER, str(world.clock.now), "home", "run"]
        self._process = subprocess.Popen(
            words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
        )
        self.said: list[str] = []

    def until(self, moment: float) -> None:
        assert self._process.stdin
        assert self._process.stdout
        while self.world.clock.now < moment:
            line = self._process.stdout.readline()
            assert line, self._process.communicate()[1]
            self.world.wait(min(float(line), moment - self.world.clock.now))
            self._process.stdin.write(f"{self.world.clock.now}\n")

    def close(self) -> None:
        _, errors = self._process.communicate(timeout=60)  # the end of its input stops it
        self.said += errors.splitlines()
        assert self._process.returncode == 0, errors


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """A box and a server on loopback, and a folder without a phone."""
    clock = Clock()
    box = FritzBox(clock, zone=ZoneInfo(ZONE), country="1", trunk="")
    box.add(box.books[0], "Ada", CONTACTS[0])
    box.add(box.books[0], "Bob", CONTACTS[1])
    box.add(box.barred, "Telefonterror", OWN)
    settings = settings_for(folder / "server", round={"profile": "balanced", "period": DAY})
    service = open_service(settings, shared_rand("household"), clock)
    try:
        with running(box), serving(service) as client:
            url = str(client.base_url).rstrip("/")
            yield World(clock, box, Village(service, clock), url, folder / "home")
    finally:
        service.close()
