"""How fast uploads become durable: a real server, a load generator in another process, and a bare route beside it.

The server (with its database) is held on one core and the generator on another, where the machine has two. Each figure
is of that one core. The bare route is FastAPI's own speed: it reads the body, stores nothing and answers.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hushcall.errors import InvalidParameter
from hushcall.numbers import NANP
from hushcall.privacy.coins import seeded
from hushcall.report import parameters
from hushcall.report.hashing import derive
from hushcall.server.intake import Announce, Answer, Intake
from hushcall.server.rounds import document
from hushcall.server.running import free_port
from hushcall.server.service import Service, open_service
from hushcall.server.settings import load_settings
from hushcall.server.tokens import token_hash

HOST = "127.0.0.1"
AREAS = 40
_BARE = """
import sys, uvicorn
from fastapi import FastAPI, Request, Response
app = FastAPI()

@app.put("/v1/rounds/{number}/reports/{ticket}")
async def bare(request: Request, number: int, ticket: str) -> Response:
    await request.body()
    return Response(status_code=201)

uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_config=None, access_log=False)
"""
_SERVER = """
import sys
from hushcall.server.running import serve
from hushcall.server.settings import Settings
serve(Settings.model_validate_json(sys.argv[2]), int(sys.argv[1]))
"""


def measure(
    url: str | None, reports: int, connections: int, progress: Callable[[str, int, int], None]
) -> dict[str, Any]:
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
        half = reports // 2
        requests = _prepared(service, reports, progress)
        port = free_port(HOST, 0)
        with _process([_SERVER, str(port), settings.model_dump_json()], port):
            progress("uploads, as fast as they go", 0, 3)
            fastest = _drive(port, requests[:half], connections, 0.0, load_core)
            per_second = half / fastest["seconds"]
            progress("uploads, at 70 % of that", 1, 3)
            steady = _drive(port, requests[half:], connections, 0.7 * per_second, load_core)
        port = free_port(HOST, 0)
        with _process([_BARE, str(port)], port):
            progress("a bare route", 2, 3)
            bare = _drive(port, requests[:half], connections, 0.0, load_core)
        stored = _stored(service)
        service.close()
    bare_per_second = half / bare["seconds"]
    return {
        "database": "postgresql" if url else "sqlite",
        "reports": reports,
        "stored": stored,
        "connections": connections,
        "per_second": per_second,
        "p50_ms": _quantile(fastest, 0.50),
        "p99_ms": _quantile(fastest, 0.99),
        "steady_per_second": half / steady["seconds"],
        "steady_p50_ms": _quantile(steady, 0.50),
        "steady_p99_ms": _quantile(steady, 0.99),
        "bare_per_second": bare_per_second,
        "share_of_bare": per_second / bare_per_second,
        "statuses": {key: fastest["statuses"].get(key, 0) + steady["statuses"].get(key, 0) for key in ("201", "200")},
        "cores": {"server": server_core, "load": load_core},
    }


def _prepared(service: Service, count: int, progress: Callable[[str, int, int], None]) -> list[bytes]:
    """Enrol phones, let them announce, open the collection, and write down every phone's upload."""
    now = service.now
    number = service.rounds.open(now)
    devices = service.devices.enrol_many(count, now)
    intake, tickets = Intake(service.store, "bench"), []
    for at in range(0, count, 1000):
        progress("phones announce", at, count)
        asked = [
            Announce(token_hash(token), number, NANP.area_codes[place % AREAS])
            for place, (_, token) in enumerate(devices[at : at + 1000])
        ]
        for answer in intake.accept(asked):
            assert isinstance(answer, Answer)  # noqa: S101
            tickets.append((answer.body["bucket"], answer.body["ticket"]))
    service.rounds.decide(number, now)
    shown = document(service.store, service.rounds.newest())
    seed, coins, uploads = bytes.fromhex(shown["seed"]), seeded(b"bench"), []
    for (_, token), (bucket, ticket) in zip(devices, tickets, strict=True):
        mechanism = parameters.from_plain(shown["buckets"][str(bucket)]["parameters"])
        body = mechanism.privatise(5_550_143, derive("report", seed, bytes.fromhex(ticket)), coins)
        head = (
            f"PUT /v1/rounds/{number}/reports/{ticket} HTTP/1.1\r\nhost: {HOST}\r\nauthorization: Bearer {token}\r\n"
            f"content-type: application/octet-stream\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        uploads.append(head.encode() + body)
    return uploads


def _stored(service: Service) -> int:
    from hushcall.server.rounds import status  # noqa: PLC0415

    return int(status(service.store)["reports"])


def _drive(port: int, requests: list[bytes], connections: int, rate: float, core: int | None) -> dict[str, Any]:
    plan = {"host": HOST, "port": port, "connections": connections, "rate": rate}
    given = json.dumps({**plan, "requests": [request.hex() for request in requests]})
    with _on(core):
        done = subprocess.run(
            [sys.executable, "-m", "hushcall.lab.load"], input=given, capture_output=True, text=True, check=True
        )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _quantile(run: dict[str, Any], share: float) -> float:
    latencies: list[float] = run["latencies"]
    return 1000 * statistics.quantiles(latencies, n=1000)[round(share * 1000) - 1]


@contextmanager
def _process(arguments: list[str], port: int) -> Iterator[None]:
    """A server in a process of its own, ready when this begins and gone when it ends."""
    process = subprocess.Popen([sys.executable, "-c", *arguments], stderr=subprocess.DEVNULL)  # noqa: S603
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://{HOST}:{port}/openapi.json", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        else:
            raise InvalidParameter("server", "start within 30 s", port)
        yield
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
