"""Four intake machines and two decoders on one PostgreSQL, one of each killed at its work: nothing is lost, or twice.

Every machine is a process of its own with a data folder of its own: what they share is the database, and copies of keys
and settings. The list is that of one undisturbed process on SQLite, byte for byte.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from tests.postgres import Postgres
from tests.server.serving import START, Clock, bearer, everything, newest, serving, settings_for, state

from hushcall.mechanisms import parameters
from hushcall.protocol.numbers import NANP, Number
from hushcall.protocol.randomness import seeded
from hushcall.protocol.seeds import report_seed
from hushcall.server.db import schema
from hushcall.server.ingest.ingest import ticket_for
from hushcall.server.rounds.round_data import bucket_specs
from hushcall.server.service import Service, open_service
from hushcall.server.settings import Settings, as_toml

HUSHCALL = [sys.executable, "-c", "from hushcall.cli import main; main()"]
INTAKE, DECODERS, AT_ONCE, LONGEST = 4, 2, 8, 120.0
PER_AREA, AREAS = 8, NANP.area_codes[:48]
CALLERS = [NANP.number(area, 5_550_100) for area in AREAS for _ in range(PER_AREA)]
AGES = 40 * 365 * 86_400
"""Seconds of a round that no process ends by its own clock."""


@dataclass
class Machine:
    """A process over a data folder of its own."""

    popen: subprocess.Popen[bytes]
    said: Path

    def address(self) -> str:
        """Where it serves, once it does."""

        def alive() -> bool:
            assert self.popen.poll() is None, self.said.read_text("utf-8")
            words = self.said.read_text("utf-8").split()
            try:
                return "serves" in words and httpx.get(words[words.index("serves") + 1] + "/healthz").is_success
            except httpx.HTTPError:
                return False

        wait_for(alive)
        words = self.said.read_text("utf-8").split()
        return words[words.index("serves") + 1]


def wait_for(true: Callable[[], bool], longest: float = LONGEST) -> None:
    deadline = time.monotonic() + longest
    while not true():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.02)


@contextmanager
def machine(settings: Settings, folder: Path, command: str, *options: str) -> Iterator[Machine]:
    """A machine with copies of the keys and the settings."""
    folder.mkdir()
    shutil.copytree(settings.keys, folder / "data" / "keys")
    here = settings.model_copy(update={"data": folder / "data"})
    (folder / "hushcall.toml").write_text(as_toml(here), encoding="utf-8")
    with (folder / "said").open("wb") as out:
        line = [*HUSHCALL, command, "--config", str(folder / "hushcall.toml"), *options]
        popen = subprocess.Popen(line, stdout=out, stderr=out, cwd=folder, env={**os.environ, "COLUMNS": "200"})
    try:
        yield Machine(popen, folder / "said")
    finally:
        if popen.poll() is None:
            popen.kill()
        popen.wait(30)


def opened(folder: Path, url: str) -> tuple[Service, list[tuple[int, str]]]:
    """The same server with the same phones, and its first round, on whichever database."""
    settings = settings_for(folder, url, round={"period": AGES, "scheduler": True}, list={"exports": ["all"]})
    service = open_service(settings, seeded(b"machines"), Clock())
    devices = service.devices.enrol_many(len(CALLERS), service.now)
    assert service.rounds.open(START) == 1
    return service, devices


@dataclass(frozen=True)
class Asked:
    """A request of a phone."""

    method: str
    path: str
    token: str
    body: bytes


def announcements(devices: Sequence[tuple[int, str]]) -> list[Asked]:
    return [
        Asked("POST", "/v1/rounds/1/announcements", token, b'{"bucket": %d}' % caller.area)
        for (_, token), caller in zip(devices, CALLERS, strict=True)
    ]


def reports(service: Service, devices: Sequence[tuple[int, str]]) -> list[Asked]:
    row = newest(service)
    mechanisms = {one.bucket: parameters.from_plain(one.parameters) for one in bucket_specs(service.store, 1)}

    def one(device: int, token: str, caller: Number) -> Asked:
        ticket = ticket_for(row.secret, device)
        body = mechanisms[caller.area].privatise(caller.suffix, report_seed(row.seed, ticket), seeded(b"%d" % device))
        return Asked("PUT", f"/v1/rounds/1/reports/{ticket.hex()}", token, body)

    return [one(*device, caller) for device, caller in zip(devices, CALLERS, strict=True)]


def send(asked: Sequence[Asked], addresses: Sequence[str], answered: Callable[[int], None] = lambda _: None) -> int:
    """Each to its machine, and to the next one if that is gone, until it is acknowledged; how many went on."""
    went_on, lock = 0, threading.Lock()
    with httpx.Client(timeout=60) as client, ThreadPoolExecutor(AT_ONCE) as threads:

        def one(place: int) -> None:
            nonlocal went_on
            request = asked[place]
            for attempt in range(len(addresses)):
                at = (place + attempt) % len(addresses)
                try:
                    where, who = addresses[at] + request.path, bearer(request.token)
                    answer = client.request(request.method, where, content=request.body, headers=who)
                except httpx.TransportError:
                    with lock:
                        went_on += 1
                    continue
                assert answer.status_code in (200, 201), answer.text
                answered(at)
                return
            raise AssertionError("no machine is left")

        list(threads.map(one, range(len(asked))))
    return went_on


def results(service: Service) -> dict[str, Any]:
    found = everything(service)
    targets = {path: data for path, data in service.store.files().items() if path.startswith("targets/")}
    return {name: found[name] for name in ("buckets", "tallies", "hitters", "decodings", "versions")} | targets


def undisturbed(folder: Path) -> dict[str, Any]:
    """What one process on SQLite makes of the same phones."""
    service, devices = opened(folder, "")
    with serving(service) as client:
        address = str(client.base_url).rstrip("/")
        send(announcements(devices), [address])
        service.rounds.start_collecting(1, START)
        send(reports(service, devices), [address])
    service = open_service(service.settings, seeded(b"again"), Clock())
    service.rounds.close(1, START)
    service.rounds.advance(START)
    assert state(service) == "published"
    found = results(service)
    service.close()
    return found


def in_hand(service: Service, pid: int) -> list[str]:
    """The jobs that a process has a lease for, and has not written the result of."""
    leases, tallies, parts = schema.leases.c, schema.tallies.c, schema.decodings.c
    with service.store.read() as connection:
        mine = leases.holder.startswith(f"{pid}-") & leases.name.startswith("round 1/") & (leases.until > 0)
        names = set(connection.execute(sa.select(leases.name).where(mine)).scalars())
        sealed = connection.execute(sa.select(tallies.bucket)).scalars().all()
        decoded = connection.execute(sa.select(parts.bucket, parts.part)).all()
    done = {f"round 1/{bucket}/seal" for bucket in sealed} | {f"round 1/{one.bucket}/{one.part}" for one in decoded}
    return sorted(names - done)


def leader(service: Service) -> int:
    rows = service.store.rows(sa.select(schema.leases.c.holder).where(schema.leases.c.name == "scheduler"))
    return int(rows[0].holder.partition("-")[0]) if rows else 0


def kill_at_work(service: Service, decoders: Sequence[Machine]) -> int:
    """Kill the one that leads while it has a job in hand; its process id. It is stopped while we look."""
    wait_for(lambda: leader(service) in {one.popen.pid for one in decoders})
    pid = leader(service)

    def caught() -> bool:
        assert state(service) == "closed", "it was too quick"
        os.kill(pid, signal.SIGSTOP)
        at_work = bool(in_hand(service, pid))
        os.kill(pid, signal.SIGKILL if at_work else signal.SIGCONT)
        return at_work

    wait_for(caught)
    return pid


@pytest.mark.slow
def test_four_intakes_and_two_decoders_one_of_each_killed(postgres: Postgres, tmp_path: Path) -> None:
    wanted, url = undisturbed(tmp_path / "alone"), postgres.fresh()
    service, devices = opened(tmp_path / "data", url)
    shared = service.settings

    def start(name: str, command: str, *options: str) -> Any:
        return machine(shared, tmp_path / name, command, *options)

    serve = ("serve", "--port", "0", "--intake-only")
    with start("1", *serve) as one, start("2", *serve) as two, start("3", *serve) as three, start("4", *serve) as four:
        intakes: list[Machine] = [one, two, three, four]
        addresses = [each.address() for each in intakes]
        assert send(announcements(devices), addresses) == 0
        service.rounds.start_collecting(1, START)
        acknowledged, lock = [0] * INTAKE, threading.Lock()

        def answered(at: int) -> None:
            with lock:
                acknowledged[at] += 1
                if acknowledged[0] == PER_AREA:
                    one.popen.kill()  # SIGKILL, with others of its requests in flight

        assert send(reports(service, devices), addresses, answered) > 0
        assert one.popen.wait(30) == -signal.SIGKILL
        assert PER_AREA <= acknowledged[0] < len(CALLERS) // INTAKE
        assert sum(acknowledged) == len(CALLERS)
        assert all(each.popen.poll() is None for each in intakes[1:])
        assert len(service.store.rows(sa.select(schema.reports.c.ticket))) == len(CALLERS)
    service.rounds.close(1, START)
    with start("5", "decode", "--lead") as five, start("6", "decode", "--lead") as six:
        killed = kill_at_work(service, [five, six])
        dead, alive = (five, six) if killed == five.popen.pid else (six, five)
        assert dead.popen.wait(30) == -signal.SIGKILL
        wait_for(lambda: state(service) == "published")
        assert alive.popen.poll() is None
        alive.popen.terminate()
        assert alive.popen.wait(30) == 0
    found = results(service)
    assert sum(row[2] for row in found["tallies"]) == len(CALLERS), "each acknowledged report once"
    assert found == wanted
    service.close()
    postgres.drop(url)
