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
from tests.phone.fake_server import DAY, START, FakeServer, FakeService, over_http

from hushcall.formats.calls.call import Call, CallKind
from hushcall.phone import diary, ledger
from hushcall.phone.client import HttpServer
from hushcall.phone.ledger import Limits
from hushcall.phone.phone import Phone
from hushcall.phone.store import FILE, Store
from hushcall.privacy.coins import seeded

KILLS = 200
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

    def alive() -> Phone:
        server = FaultyServer(service)
        store = FaultyStore(str(folder / FILE), folder)
        store.run("PRAGMA synchronous = OFF")  # this crash takes the process, not the power: the disk may lag
        store.fault = server.fault = fault
        return Phone(
            store, server, coins=seeded(str(point).encode() + bytes([len(service.requests)])), clock=lambda: now[0]
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
                phone.report(hurry=True)
            except Crash:
                crashed = True
            finally:
                phone.store.close()
    store = Store.open(folder)
    row = diary.find(store, "fake://server", 1)
    assert row is not None
    assert row.state == diary.SENT
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
from hushcall.phone.client import HttpServer
from hushcall.phone.lock import locked
from hushcall.phone.phone import Phone
from hushcall.phone.store import Store

folder = Path(sys.argv[1])

def report():
    store = Store.open(folder)
    with locked(folder, 5):
        Phone(store, HttpServer(store.get("server"), store.get("token"))).report(hurry=True)

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


def test_kill_9_at_two_hundred_random_moments(tmp_path: Path) -> None:
    service = FakeService(time.time, state="announcing", round=1)
    dice = random.Random(4)
    with over_http(service) as url:
        store = Store.open(tmp_path)
        store.put("server", url)
        store.put("token", HttpServer(url).enrol().token)
        Limits(window=Fraction(10**6), life=Fraction(10**6), rounds_per_day=10**6).save(store)
        problems: list[str] = []

        def booked(round_: int) -> None:
            with sqlite3.connect(tmp_path / FILE, timeout=10) as other:
                if other.execute("SELECT count(*) FROM ledger WHERE round = ?", (round_,)).fetchone() != (1,):
                    problems.append(f"round {round_}: a report arrived that is not in the ledger exactly once")

        service.on_report = booked
        zygote = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(ZYGOTE), str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

        def run(microseconds: int) -> int:
            assert zygote.stdin is not None
            assert zygote.stdout is not None
            zygote.stdin.write(f"{microseconds}\n")
            zygote.stdin.flush()
            return int(zygote.stdout.readline())

        try:
            killed, rounds = 0, 0
            typical = 20_000
            while killed < KILLS:
                rounds += 1
                service.round = rounds
                for state in ("announcing", "collecting"):
                    service.state = state
                    for _ in range(5):
                        killed += run(dice.randrange(typical)) == 9
                    began = time.monotonic()
                    assert run(-1) == 0
                    typical = int((typical + (time.monotonic() - began) * 1e6) / 2)  # kills spread over a whole run
                    assert rounds < 2000
        finally:
            zygote.kill()
            zygote.wait()
        assert problems == []
        # Every round was reported once, with the one report that the phone has for it and one entry in the ledger.
        assert {len(offered) for offered in service.offered.values()} == {1}
        assert len(service.reports) == rounds
        assert store.row("SELECT count(*), count(DISTINCT round) FROM ledger") == (rounds, rounds)
        kept = {row[0]: row[1] for row in store.rows("SELECT round, report FROM rounds WHERE state = 'sent'")}
        assert kept == {round_: report for (round_, _), report in service.reports.items()}
        store.close()
