"""What machines that watch the service call: alive, ready, metrics. All answer within seconds, in any trouble."""

from __future__ import annotations

import time
from typing import Literal

import sqlalchemy as sa
from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import JSONResponse, PlainTextResponse, Response

from hushcall.server import metrics
from hushcall.server.access.tokens import token_hash
from hushcall.server.http.gauges import DOWN, Gauges, gauges
from hushcall.server.http.readiness import Silent, Standing, Watch
from hushcall.server.http.requests import bearer, operator, service_of
from hushcall.server.problems import Problem, refusals
from hushcall.version import __version__

router = APIRouter(tags=["probes"])
REMEMBERED = 3600.0
"""Seconds for which a token that may read is known without the database: figures are wanted most when that is away."""
_MOST_READERS = 100


class Readiness(BaseModel):
    """Whether to send requests here, and what is wrong by part; ``late`` is for the operator, not for a balancer."""

    status: Literal["ready", "not ready"]
    missing: dict[str, str]
    late: dict[str, str]


@router.get("/healthz", summary="Alive?")
async def health() -> dict[str, str]:
    """The process answers: no database is asked, so that a slow one does not restart it."""
    return {"status": "alive", "version": __version__}


@router.get(
    "/readyz",
    summary="Ready?",
    response_model=Readiness,
    responses={503: {"description": "something that is needed is missing", "model": Readiness}},
)
async def ready(request: Request) -> Response:
    """The database takes writes, the published signatures are in date, the online keys are there."""
    found: Standing = await _watch(request).standing()
    status = "not ready" if found.missing else "ready"
    return JSONResponse({"status": status, "missing": found.missing, "late": found.late}, 503 if found.missing else 200)


def _watch(request: Request) -> Watch:
    watch: Watch = request.app.state.watch
    return watch


@router.get(
    "/metrics",
    summary="Prometheus",
    response_class=PlainTextResponse,
    responses=refusals("unknown-token", "revoked", "forbidden", "busy"),
    openapi_extra={"security": [{"operator": []}]},
)
async def prometheus(request: Request) -> Response:
    """Needs an operator's token with the scope ``read``: how many phones take part is nobody else's business.

    While the database is away, those who were let in within the last hour are told what is counted in memory.
    """
    readers: dict[bytes, float] = request.app.state.__dict__.setdefault("readers", {})
    reader, now = token_hash(bearer(request)), time.monotonic()

    def question() -> Gauges:
        operator(request, "read")
        return gauges(service_of(request))

    try:
        found = await _watch(request).ask(question)
    except (Silent, sa.exc.SQLAlchemyError, OSError):
        if readers.get(reader, float("-inf")) < now - REMEMBERED:
            raise Problem("busy", "The database does not answer.", retry_after=10) from None
        found = DOWN
    except Problem:
        readers.pop(reader, None)
        raise
    else:
        if len(readers) >= _MOST_READERS:
            readers.clear()
        readers[reader] = now
    return Response(metrics.exposition(found), media_type="text/plain; version=0.0.4")
