"""How fast uploads become durable: a real server, and beside it a bare route, which stores nothing."""

from typing import Any

from hushcall.server.rounds.round_status import status
from hushcall_lab.simulation.load import Runs
from hushcall_lab.simulation.rig import SERVER, Progress, cores, drive, filled, on, prepared, process

BLOCKS = 8
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


def measure(url: str, reports: int, connections: int, progress: Progress) -> dict[str, Any]:
    server_core, load_core = cores()
    durable, bare = Runs(), Runs()
    with on(server_core), filled(url) as service:
        requests = prepared(service, reports, progress)
        with process(SERVER, service.settings.model_dump_json()) as port, process(_BARE) as bare_port:
            size = reports // BLOCKS
            for block in range(BLOCKS):  # in turns, so that other work on the machine hits both alike
                progress("uploads, and a bare route", block, BLOCKS)
                uploads = requests[block * size : (block + 1) * size]
                durable.add(drive(port, uploads, connections, 0.0, load_core))
                bare.add(drive(bare_port, uploads, connections, 0.0, load_core))
        stored = int(status(service.store)["reports"])
    return {
        "database": "postgresql" if url else "sqlite",
        "reports": reports,
        "stored": stored,
        "connections": connections,
        "per_second": durable.per_second,
        "p50_ms": durable.quantile_ms(0.50),
        "p99_ms": durable.quantile_ms(0.99),
        "bare_per_second": bare.per_second,
        "share_of_bare": durable.per_second / bare.per_second,
        "statuses": dict(durable.statuses),
        "cores": {"server": server_core, "load": load_core},
    }
