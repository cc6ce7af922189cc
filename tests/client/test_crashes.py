"""A phone that dies anywhere and starts again: never two reports for a round, never an unrecorded spend."""

import random
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.client.fake_server import DAY, START, FakeServer, FakeService, over_http

from hushcall.client.calls import candidates
from hushcall.client.client import Client
from hushcall.client.reporting import ledger, participation
from hushcall.client.reporting.consent import Limits
from hushcall.client.reporting.transport import HttpTransport
from hushcall.client.storage.store import Store
from hushcall.client.storage.trouble import FILE
from hushcall.formats.calls.call import Call, CallKind
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import seeded
from hushcall.server.db import schema
from hushcall.server.service import open_service
from hushcall.server.settings import Settings
from hushcall_lab.servers import running

KILLS = pytest.mark.parametrize("kills", [30, pytest.param(200, marks=pytest.mark.slow)])
"""How often the phone is killed. The moments depend on the machine; what is stated holds for every moment."""
NUMBER = "+12025550143"


class Crash(BaseException):
    """Stands for a power cut: nothing that comes after it runs."""


class Countdown:
    """Crashes at the n-th of the points that it is asked about."""

    def __init__(self, point: int) -> None:
        self.left = point

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Crash


class FaultyStore(Store):
    """Crashes before or after any statement, commits among them."""

    fault: Countdown = Countdown(0)

    def _execute(self, statement: str, values: tuple[Any, ...]) -> sqlite3.Cursor:
        self.fault()
        done = super()._execute(statement, values)
        self.fault()
        return done


class FaultyServer(FakeServer):
    """Crashes before a request leaves, or after it arrived and before the answer does."""

    fault: Countdown = Countdown(0)

    def announce(self, round_: int, bucket: int) -> str:
        self.fault()
        ticket = super().announce(round_, bucket)
        self.fault()
        return ticket

    def send(self, round_: int, ticket: str, report: bytes) -> None:
        self.fault()
        super().send(round_, ticket, report)
        self.fault()


def crash_at(point: int, folder: Path, empty: Path) -> bool:
    """Run a round with one crash at this point, and again until it is done; whether the point exists."""
    now = [START]
    service = FakeService(lambda: now[0])
    fault = Countdown(point)
    folder.mkdir()
    shutil.copy(empty, folder / FILE)

    def alive() -> Client:
        server = FaultyServer(service)
        store = FaultyStore(str(folder / FILE), folder)
        store.run("PRAGMA synchronous = OFF")  # this crash takes the process, not the power: the disk may lag
        store.fault = server.fault = fault
        return Client(
            store, server, rand=seeded(str(point).encode() + bytes([len(service.requests)])), clock=lambda: now[0]
        )

    def booked(round_: int) -> None:
        with sqlite3.connect(folder / FILE) as other:
            assert other.execute("SELECT count(*) FROM ledger WHERE round = ?", (round_,)).fetchone() == (1,)
            (kept,) = other.execute("SELECT report FROM rounds WHERE round = ?", (round_,)).fetchone()
        assert {kept} == set().union(*service.offered.values())

    service.on_report = booked
    crashed = False
    for moment in (0, DAY // 2):
        now[0] = START + moment
        for _ in range(2):
            phone = alive()
            try:
                phone.ingest([Call(NUMBER, START - 5, CallKind.MISSED)])
                phone.report(skip_delays=True)
            except Crash:
                crashed = True
            finally:
                phone.store.close()
    store = Store.open(folder)
    row = participation.find(store, "fake://server", 1)
    assert row is not None
    assert row.state == participation.SENT
    assert ledger.spent(store) == 4
    assert store.row("SELECT number FROM reported") == (NUMBER,)
    assert [len(offered) for offered in service.offered.values()] == [1]
    store.close()
    return crashed


def test_a_crash_at_every_statement_and_request(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    point = 1
    while crash_at(point, tmp_path / str(point), tmp_path / FILE):
        point += 1
    assert point > 60  # every statement and request of a round, before and after


def test_the_invariants_catch_a_phone_that_sends_before_it_records(tmp_path: Path) -> None:
    """Were the order wrong, the check above would see it."""
    service = FakeService(lambda: START + DAY // 2)
    store = Store.open(tmp_path)

    def booked(round_: int) -> None:
        assert store.row("SELECT count(*) FROM ledger WHERE round = ?", round_) == (1,)

    service.on_report = booked
    with pytest.raises(AssertionError):
        FakeServer(service).send(1, "0" * 32, b"\x01\x04\x00")


# Forks a child per line of input, which runs one report, and kills it after so many microseconds.
ZYGOTE = """
import os, signal, sys, time
from pathlib import Path
import urllib3
from hushcall.client.reporting.transport import HttpTransport
from hushcall.client.storage.folder import locked
from hushcall.client.client import Client
from hushcall.client.storage.store import Store

folder = Path(sys.argv[1])

def report():
    store = Store.open(folder)
    with locked(folder, 5):
        Client(store, HttpTransport(store.get("server"), store.get("token"))).report(skip_delays=True)

for line in sys.stdin:
    child = os.fork()
    if not child:
        report()
        os._exit(0)
    if int(line) >= 0:
        time.sleep(int(line) / 1e6)
        os.kill(child, signal.SIGKILL)
    print(os.waitpid(child, 0)[1], flush=True)
"""


class Victim:
    """A phone in a folder of its own, whose reports run in processes that are killed."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.store = Store.open(folder)
        self.store.put("server", url)
        self.store.put("token", HttpTransport(url).enrol().token)
        Limits(window=Fraction(10**6), life=Fraction(10**6), rounds_per_day=10**6).save(self.store)
        self.killed, self.dice, self.typical = 0, random.Random(4), 20_000
        self.zygote = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(ZYGOTE), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, microseconds: int) -> int:
        assert self.zygote.stdin is not None
        assert self.zygote.stdout is not None
        self.zygote.stdin.write(f"{microseconds}\n")
        self.zygote.stdin.flush()
        return int(self.zygote.stdout.readline())

    def suffer(self) -> None:
        """Five reports that are killed, at moments spread over a whole run, and one that may live."""
        for _ in range(5):
            self.killed += self.run(self.dice.randrange(self.typical)) == 9
        began = time.monotonic()
        assert self.run(-1) == 0
        self.typical = int((self.typical + (time.monotonic() - began) * 1e6) / 2)

    def kept(self) -> dict[int, bytes]:
        return dict(self.store.rows("SELECT round, report FROM rounds WHERE state = 'sent'"))

    def booked(self, round_: int) -> bool:
        """Whether the ledger on the disk has this round exactly once."""
        with sqlite3.connect(self.folder / FILE, timeout=10) as other:
            return bool(other.execute("SELECT count(*) FROM ledger WHERE round = ?", (round_,)).fetchone() == (1,))

    def end(self) -> None:
        self.zygote.kill()
        self.zygote.wait()
        self.store.close()


@KILLS
def test_kill_9_at_random_moments(tmp_path: Path, kills: int) -> None:
    service = FakeService(time.time, state="announcing", round=1)
    problems: list[str] = []
    with over_http(service) as url:
        victim = Victim(tmp_path, url)

        def arrives(round_: int) -> None:
            if not victim.booked(round_):
                problems.append(f"round {round_}: a report arrived that is not in the ledger exactly once")

        service.on_report = arrives
        rounds = 0
        try:
            while victim.killed < kills and rounds < 2000:
                rounds += 1
                service.round = rounds
                for state in ("announcing", "collecting"):
                    service.state = state
                    victim.suffer()
            ledger_rows = victim.store.row("SELECT count(*), count(DISTINCT round) FROM ledger")
            kept = victim.kept()
        finally:
            victim.end()
    assert victim.killed >= kills
    assert problems == []
    # Every round was reported once, with the one report that the phone has for it and one entry in the ledger.
    assert {len(offered) for offered in service.offered.values()} == {1}
    assert len(service.reports) == rounds
    assert ledger_rows == (rounds, rounds)
    assert kept == {round_: report for (round_, _), report in service.reports.items()}


COMPANY = 20
"""Other devices in the bucket: with fewer than eighteen it would not run."""


@KILLS
def test_the_real_server_counts_a_phone_once_however_often_it_is_killed(tmp_path: Path, kills: int) -> None:
    settings = Settings(
        data=tmp_path / "server",
        round={"decoders": 0, "scheduler": False, "windows": [1], "tolerance": 0},  # type: ignore[arg-type]
        enrol={"mode": "open", "work": 0},  # type: ignore[arg-type]
        intake={"per_device": 10**6},  # type: ignore[arg-type]
    )
    service = open_service(settings)
    unbooked: list[int] = []
    with running(service) as url:
        others = [HttpTransport(url, HttpTransport(url).enrol().token) for _ in range(COMPANY)]
        victim = Victim(tmp_path / "phone", url)
        rounds = 0
        try:
            while victim.killed < kills and rounds < 2000:
                rounds = service.rounds.open(service.now)
                for other in others:
                    other.announce(rounds, 202)
                number = NANP.number(202, 5_550_000 + rounds)  # somebody new: a dummy could be in any bucket
                candidates.note(victim.store, [(number, int(time.time()))])
                victim.suffer()
                service.rounds.start_collecting(rounds, service.now)
                victim.suffer()
                stored = service.store.rows(sa.select(schema.reports.c.body).where(schema.reports.c.round == rounds))
                assert [bytes(row.body) for row in stored] == [victim.kept()[rounds]]
                unbooked += [] if victim.booked(rounds) else [rounds]
                service.rounds.close(rounds)
            service.rounds.learn(rounds)
            ledger_rows = victim.store.row("SELECT count(*), count(DISTINCT round) FROM ledger")
        finally:
            victim.end()
    tallied = service.store.rows(sa.select(schema.tallies.c.count).where(schema.tallies.c.round == rounds))
    service.close()
    assert victim.killed >= kills
    assert unbooked == []
    assert ledger_rows == (rounds, rounds)
    assert [row.count for row in tallied] == [1]
