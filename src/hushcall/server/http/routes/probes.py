"""Routes for monitoring: alive, ready, metrics. All answer within seconds, whatever the database does."""

from __future__ import annotations

import time
from typing import Literal

import sqlalchemy as sa
from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import JSONResponse, PlainTextResponse, Response

from hushcall.protocol.blocklist import iso
from hushcall.server import metrics
from hushcall.server.auth.devices import token_hash
from hushcall.server.http.context import bearer, context_of, operator, service_of
from hushcall.server.http.readiness import DOWN, Gauges, Silent, gauges
from hushcall.server.problems import Problem, refusals
from hushcall.version import __version__

router = APIRouter(tags=["probes"])
MONTH_SECONDS = 30 * 86_400
READER_SECONDS = 3600.0
"""How long a token that may read is accepted without the database: metrics are needed most when that is away."""
_MAX_READERS = 100


class Readiness(BaseModel):
    """Whether to send requests here, and what is wrong by part. ``late`` is for the operator, not for a balancer."""

    status: Literal["ready", "not ready"]
    missing: dict[str, str]
    late: dict[str, str]


@router.get("/healthz", summary="Alive?")
async def health() -> dict[str, str]:
    """The process answers: no database is asked, so that a slow one does not restart it."""
    return {"status": "alive", "version": __version__}


@router.get("/.well-known/security.txt", include_in_schema=False)
async def security(request: Request) -> Response:
    """RFC 9116. Its date is always more than five months and less than six ahead."""
    service = service_of(request)
    if not (contact := service.settings.server.security_contact):
        raise Problem("not-found")
    expires = service.now // MONTH_SECONDS * MONTH_SECONDS + 6 * MONTH_SECONDS
    return PlainTextResponse(f"Contact: {contact}\nExpires: {iso(expires)}\nPreferred-Languages: en\n")


@router.get(
    "/readyz",
    summary="Ready?",
    response_model=Readiness,
    responses={503: {"description": "something that is needed is missing", "model": Readiness}},
)
async def ready(request: Request) -> Response:
    """The database takes writes, the published signatures are in date, the online keys are there."""
    standing = await context_of(request).readiness.standing()
    status = "not ready" if standing.missing else "ready"
    document = {"status": status, "missing": standing.missing, "late": standing.late}
    return JSONResponse(document, 503 if standing.missing else 200)


@router.get(
    "/metrics",
    summary="Prometheus",
    response_class=PlainTextResponse,
    responses=refusals("unknown-token", "revoked", "forbidden", "busy"),
    openapi_extra={"security": [{"operator": []}]},
)
async def prometheus(request: Request) -> Response:
    """Needs an operator's token with the scope ``read``: how many phones take part is nobody else's business.

    While the database is away, readers of the last hour get what is counted in memory.
    """
    readiness = context_of(request).readiness
    readers, reader, now = readiness.readers, token_hash(bearer(request)), time.monotonic()

    def question() -> Gauges:
        operator(request, "read")
        service = service_of(request)
        return gauges(service.store, service.now)

    try:
        values = await readiness.ask(question)
    except (Silent, sa.exc.SQLAlchemyError, OSError):
        if readers.get(reader, float("-inf")) < now - READER_SECONDS:
            raise Problem("busy", "The database does not answer.", retry_after=10) from None
        values = DOWN
    except Problem:
        readers.pop(reader, None)
        raise
    else:
        if len(readers) >= _MAX_READERS:
            readers.clear()
        readers[reader] = now
    return Response(metrics.exposition(values), media_type="text/plain; version=0.0.4")
