"""Days without names, through a relay process that is killed now and then: the same list as by name, nobody twice."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.seasons import SHORT, WHOLE, Season
from tests.server.serving import Clock, operator_token, settings_for

from hushcall.client.reporting import ledger
from hushcall.decoding.archive.manifest import Address
from hushcall.protocol.randomness import seeded
from hushcall.server.db import schema
from hushcall.server.http.routes.gateway import ADDRESS
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.rounds import archiving
from hushcall.server.serve import bound, port_of
from hushcall.server.service import Service, open_service
from hushcall_lab.servers import running
from hushcall_lab.simulation.fleet import THREADS, Fleet, Operator
from hushcall_lab.simulation.stream import Stream

RELAY = """
import socket, sys, threading
from hushcall.server.relay import RelaySettings
from hushcall_lab.servers import running_relay
settings = RelaySettings(sys.argv[1], per_address=1_000_000, in_all=10_000_000)
with running_relay(settings, socket.socket(fileno=int(sys.argv[2]))):
    threading.Event().wait()
"""


@dataclass
class Relay:
    """Somebody else's process. Its socket is ours, so that whoever comes while it is dead waits instead of failing.

    It has nothing else of ours: with copies of the server's connections, those that the server closed would stay open,
    and phones would wait on them for an answer.
    """

    gateway: str
    place: socket.socket
    killed: int = 0
    process: subprocess.Popen[bytes] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        number = self.place.fileno()
        command = [sys.executable, "-c", RELAY, self.gateway, str(number)]
        self.process = subprocess.Popen(command, pass_fds=[number])

    def stop(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def kill(self) -> None:
        with self.lock:
            self.stop()
            self.killed += 1
            self.start()


@contextmanager
def relayed(url: str, place: socket.socket) -> Iterator[Relay]:
    relay = Relay(url + ADDRESS, place)
    place.listen(1000)  # who comes before it has started waits
    relay.start()
    try:
        yield relay
    finally:
        relay.stop()


def visit(fleet: Fleet, relay: Relay, kill_at: int = -1) -> None:
    """Every phone looks until none has to try again; the relay dies once on the way where it is told to."""
    fleet.forget_round()
    left, done, lock = list(fleet.phones), Counter[str](), threading.Lock()

    def look(phone: Any) -> bool:
        outcome = phone.report_patiently(timeout_seconds=0)
        with lock:
            done[outcome.action] += 1
            if done.total() == kill_at:
                relay.kill()
        return "tried again" in outcome.words

    for _ in range(20):
        with ThreadPoolExecutor(THREADS) as threads:
            again = list(threads.map(look, left))
        left = [phone for phone, more in zip(left, again, strict=True) if more]
        if not left:
            return
    raise AssertionError(f"{len(left)} phones never got through")


def tallied(service: Service, round_id: int) -> int:
    rows = schema.tallies.c
    return int(service.store.rows(sa.select(sa.func.sum(rows["count"])).where(rows.round == round_id))[0][0])


def findings(service: Service, round_id: int) -> list[tuple[object, ...]]:
    rows = schema.hitters.c
    query = sa.select(rows.number, rows.estimate, rows.low, rows.high, rows.p_value, rows.length)
    return sorted(tuple(row) for row in service.store.rows(query.where(rows.round == round_id)))


@pytest.mark.slow
@pytest.mark.parametrize("season", [SHORT, pytest.param(WHOLE, marks=pytest.mark.night)], ids=["short", "whole"])
def test_days_without_names(
    make_service: MakeService, database: str, clock: Clock, tmp_path: Path, season: Season
) -> None:
    place = bound("127.0.0.1", 0)
    service = make_service(
        database,
        round={
            "profile": "balanced",
            "period": 86_400,
            "decoders": 0,
            "anonymous": True,
            "keep_reports": True,
            "relay": f"http://127.0.0.1:{port_of(place)}",
        },
        list={"window": season.window},
        intake={"per_device": 100_000, "sealed": 1_000_000},
    )
    never = {str(one.number) for one in (season.pharmacy, season.clinic, season.school)}
    stream, lists = Stream(season.phones, season.campaigns), list[dict[str, Any]]()
    with running(service) as url, relayed(url, place) as relay:
        operator = Operator(url, operator_token(service))
        fleet = Fleet(url, operator.enrol(season.phones), clock, relay=f"http://127.0.0.1:{port_of(place)}")
        for number in sorted(never):
            operator.ask("POST", "/v1/admin/allowlist", {"number": number, "why": "a right to call"})
        for day in range(1, season.days + 1):
            fleet.hear(stream.day(day))
            operator.ask("POST", "/v1/admin/rounds/advance")
            fleet.forget_round()
            info = fleet.round
            middle = (info.opens + info.collects) // 2
            for moment in (
                info.opens,
                info.opens + 4500,
                middle - 1,
                info.collects - 1,
                info.collects,
                info.closes - 1,
            ):
                clock.now = moment
                operator.ask("POST", "/v1/admin/rounds/advance")
                visit(fleet, relay, season.phones // 2 if moment in (info.collects - 1, info.closes - 1) else -1)
            clock.now = info.closes
            operator.ask("POST", "/v1/admin/rounds/advance")
            figures = operator.ask("GET", f"/v1/admin/rounds/{info.round}")
            clock.now = info.opens + 86_400
            assert (figures["state"], figures["announced"]) == ("published", season.phones)
            spent = [line for phone in fleet.phones for line in ledger.spends(phone.store) if line.round == info.round]
            assert len(spent) == tallied(service, info.round) > 0  # nobody lost a round, nobody counts twice
            with service.store.read() as connection:
                made = newest_list(connection)
            assert made is not None
            lists.append({entry.number: entry for entry in made.entries})
        fleet.close()
    assert relay.killed == 2 * season.days
    assert all(row.device < 0 for row in service.store.rows(sa.select(schema.announcements.c.device)))
    season.spammers_come_and_go(lists)
    assert not set[str]().union(*lists) & never
    assert findings(service, 1) == found_by_name(service, tmp_path)


def found_by_name(service: Service, folder: Path) -> list[tuple[object, ...]]:
    """What a server that knows of no anonymity makes of the reports of the first round."""
    address = Address(str(folder / "archive"))
    archiving.export_round(service.store, 1, address, lambda _done, _of: None)
    other = open_service(settings_for(folder / "other"), seeded(b"by name"), Clock())
    archiving.import_round(other.store, address, address.round(1), lambda _done, _of: None)
    other.rounds.learn(1)
    found = findings(other, 1)
    other.close()
    return found
