"""A program that plays days over HTTP against a server that dies at every boundary, for ``test_kill_days.py``.

``python killed_days.py FOLDER URL ROUNDS prepare|whole|killed [HOURS [EVERY]]``. ``prepare`` makes a server's data and
devices, in FOLDER and the database at URL (empty: SQLite). ``whole`` plays ROUNDS rounds of HOURS (24) hours on a copy
of that, ``killed`` does the same with a server that is killed before and after every commit of every round, once each
(with EVERY, at one in so many), and started again; phones ask again until they are answered. Both print one line of
JSON: how often the server died, where, a digest of every row by table, over how many rounds numbers were found, and how
many phones took part how often on a day.

The server is forked after everything is imported, so that starting again takes a moment. It draws from coins that
follow from the newest round: killed or not, it draws the same ones.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import urllib3
from tests.server.serving import START, Clock, everything, operator_token, settings_for

from hushcall.client.client import Client
from hushcall.errors import Unreachable
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import seeded
from hushcall.server.service import Service, open_service
from hushcall_lab.servers import running
from hushcall_lab.simulation.fleet import Fleet, Operator
from hushcall_lab.simulation.processes import DAY_SECONDS, SharedClock
from hushcall_lab.simulation.stream import Campaign, Stream

PHONES = 150
SPAMMERS = (
    Campaign("loud", NANP.parse("+12025550143"), 0.5),
    Campaign(
        "slow", NANP.parse("+12025550199"), 0.22
    ),  # two dozen calls a day: of no use to a day, enough for a window
)
REGION = (202, 303, 404)
MAX_DEATHS = 10_000
_OPTIONS = sys.argv[5:] if Path(sys.argv[0]).name == Path(__file__).name else []
PERIOD = int(_OPTIONS[0]) * 3600 if _OPTIONS else DAY_SECONDS
ROUNDS_PER_DAY = DAY_SECONDS // PERIOD
EVERY = int(_OPTIONS[1]) if len(_OPTIONS) > 1 else 1


class RoundRand:
    """The same draws for the same round, whichever process asks."""

    service: Service

    def __init__(self) -> None:
        self._newest, self._rand = -1, seeded(b"")

    def __call__(self, count: int) -> bytes:
        row = self.service.rounds.newest()
        newest = row.id if row else 0
        if newest != self._newest:
            self._newest, self._rand = newest, seeded(b"round %d" % newest)
        return self._rand(count)


def opened(folder: Path, url: str, clock: Callable[[], float], fault: Callable[[str], None]) -> Service:
    """With the default windows and tolerance; everything is decoded inside the server."""
    changes: dict[str, Any] = {"profile": "balanced", "period": PERIOD}
    rand = RoundRand()
    service = open_service(settings_for(folder, url, round=changes, list={"window": 3}), rand, clock, fault)
    rand.service = service
    return service


def prepare(folder: Path, url: str) -> None:
    """Data, keys, devices and an operator."""
    service = opened(folder, url, Clock(START), lambda _: None)
    service.rounds.rand = seeded(b"devices")
    made = [token for _, token in service.devices.enrol_many(PHONES, START)]
    (folder / "tokens.json").write_text(json.dumps({"devices": made, "operator": operator_token(service)}), "utf-8")
    service.close()


class Mortal:
    """A server in a process of its own that dies where ``deaths`` does not list it yet, and is started again."""

    def __init__(self, folder: Path, url: str, clock: SharedClock, kill: bool) -> None:
        self.folder, self.url, self.clock, self.kill = folder, url, clock, kill
        self.deaths, self.process = folder / "deaths.txt", 0
        self.deaths.touch()

    def start(self) -> str:
        """Its address."""
        read, write = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(read)
            self._serve(write)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            return pipe.readline().decode().strip()

    def _serve(self, write: int) -> None:
        """In the child, until it is killed."""
        died = set(self.deaths.read_text("utf-8").splitlines())
        service: Service | None = None

        def fault(name: str) -> None:
            if service is None or not self.kill:
                return
            row = service.rounds.newest()
            where = f"{row.id if row else 0} {name}"
            if where not in died and crc32(where.encode()) % EVERY == 0:
                with self.deaths.open("a", encoding="utf-8") as file:
                    file.write(where + "\n")
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            service = opened(self.folder, self.url, self.clock, fault)
            with running(service) as address:
                os.write(write, address.encode() + b"\n")
                os.close(write)
                signal.pause()
        finally:
            os._exit(1)

    def died(self) -> bool:
        """Whether it killed itself: its connections may go a moment before it does."""
        for _ in range(1000):
            done, status = os.waitpid(self.process, os.WNOHANG)
            if done:
                return os.WIFSIGNALED(status)
            time.sleep(0.01)
        self.end()
        return False

    def end(self) -> None:
        """End it."""
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)


def whole_days(rounds: int) -> range:
    """The days (UTC) of which every round was played."""
    return range(-(-START // DAY_SECONDS), (START + rounds * PERIOD) // DAY_SECONDS)


def reports_a_day(phone: Client, day: int) -> int:
    query = "SELECT count(*) FROM rounds WHERE state IN ('sent', 'skipped') AND joined / 86400 = ?"
    return phone.store.count(query, day)


def play(folder: Path, url: str, rounds: int, kill: bool) -> dict[str, Any]:
    """All rounds; what is left in the end."""
    clock = SharedClock(float(START))
    server = Mortal(folder, url, clock, kill)
    tokens = json.loads((folder / "tokens.json").read_text("utf-8"))
    operator = Operator(server.start(), tokens["operator"])
    fleet = Fleet(operator.url, tokens["devices"], clock, b"killed days")
    stream = Stream(PHONES, SPAMMERS, region=REGION, toll_free=REGION)
    deaths = 0

    def until_done(step: Callable[[], Any]) -> Any:
        nonlocal deaths
        while True:
            try:
                return step()
            except (Unreachable, urllib3.exceptions.HTTPError):
                if not server.died() or (deaths := deaths + 1) > MAX_DEATHS:
                    raise
                operator.url = fleet.url = server.start()

    def visit() -> None:
        fleet.forget_round()
        for phone in fleet.phones:
            phone.report()

    def advance() -> None:
        operator.ask("POST", "/v1/admin/rounds/advance")

    for number in range(1, rounds + 1):
        if (number - 1) % ROUNDS_PER_DAY == 0:
            fleet.hear(stream.day(number // ROUNDS_PER_DAY + 1))
        until_done(advance)
        fleet.forget_round()
        info = until_done(lambda: fleet.round)
        for moment in (info.collects - 1, info.closes - 1):
            clock.now = moment
            until_done(visit)
            clock.now = moment + 1
            until_done(advance)
        status = until_done(lambda: operator.ask("GET", f"/v1/admin/rounds/{info.round}"))  # noqa: B023
        if (info.round, status["state"]) != (number, "published"):
            raise AssertionError((number, info.round, status["state"]))
        clock.now = max(info.opens + PERIOD, clock.now)
    joined = Counter(reports_a_day(phone, day) for phone in fleet.phones for day in whole_days(rounds))
    fleet.close()
    server.end()
    service = opened(folder, url, clock, lambda _: None)
    rows = everything(service)
    service.close()
    del rows["audit"]  # an operator who had to ask twice is written down twice
    return {
        "deaths": deaths,
        "where": server.deaths.read_text("utf-8").splitlines(),
        "digests": {name: hashlib.sha256(repr(values).encode()).hexdigest() for name, values in rows.items()},
        "sizes": {name: len(values) for name, values in rows.items()},
        "joined": sorted(joined.items()),
        "found": sorted({(row[0], row[1], row[-2]) for row in rows["hitters"]}),
    }


def main() -> None:
    """One part of it."""
    folder, url, rounds, part = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    multiprocessing.set_start_method("fork")
    if part == "prepare":
        prepare(folder, url)
    else:
        print(json.dumps(play(folder, url, rounds, part == "killed")))


if __name__ == "__main__":
    main()
