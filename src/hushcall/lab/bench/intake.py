"""How fast uploads become durable: a real server, a load generator in another process, and a bare route beside it.

The server and its generator stand as :mod:`hushcall.lab.live.rig` sets them up. The bare route is FastAPI's own speed:
it reads the body, stores nothing and answers. Viewers have the operator's dashboard open, each of which asks for its
live part every two seconds, from a third process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hushcall.errors import InvalidParameter
from hushcall.lab.live.rig import HOST, SERVER, Progress, Runs, cores, drive, filled, on, prepared, process
from hushcall.privacy.coins import os_entropy
from hushcall.server.access.sessions import COOKIE, Sessions, secret_of
from hushcall.server.rounds.round_status import status
from hushcall.server.service import Service

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


def measure(url: str | None, reports: int, connections: int, progress: Progress, viewers: int = 50) -> dict[str, Any]:
    """Throughput and latency of durable uploads on one database, and of the bare route, in one run."""
    server_core, load_core = cores()
    with on(server_core), filled(url or "") as service:
        half = reports // 2
        requests = prepared(service, reports, progress)
        fast, bare, watched = Runs(), Runs(), Runs()
        page = _live_page(service)
        with (
            process(SERVER, service.settings.model_dump_json()) as port,
            process(_BARE) as bare_port,
        ):
            # In turns, so that whatever else the machine does hits all of them alike.
            size = half // (2 * BLOCKS)
            for block in range(BLOCKS):
                progress("uploads, watched and not, and a bare route", block, BLOCKS + 1)
                some, others = (requests[at : at + size] for at in (2 * block * size, (2 * block + 1) * size))
                fast.add(drive(port, some, connections, 0.0, load_core))
                with _viewers(port, page, viewers, load_core):
                    watched.add(drive(port, others, connections, 0.0, load_core))
                bare.add(drive(bare_port, some, connections, 0.0, load_core))
            progress("uploads, at 70 % of that", BLOCKS, BLOCKS + 1)
            steady = Runs()
            steady.add(drive(port, requests[2 * BLOCKS * size :], connections, 0.7 * fast.per_second, load_core))
        stored = int(status(service.store)["reports"])
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
    with on(core):
        looking = subprocess.Popen([sys.executable, "-m", "hushcall.lab.live.load"], stdin=subprocess.PIPE, text=True)
    assert looking.stdin
    looking.stdin.write(given)
    looking.stdin.close()
    time.sleep(1.0)  # until they are all there
    try:
        yield
        if looking.poll() is not None:
            raise InvalidParameter("viewers", "stay until the uploads are over", looking.returncode)
    finally:
        looking.kill()
        looking.wait()
