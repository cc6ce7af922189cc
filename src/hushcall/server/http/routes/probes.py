"""What machines that watch the service call: alive, ready, metrics."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

import sqlalchemy as sa
from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import JSONResponse, PlainTextResponse, Response

from hushcall.errors import HushcallError
from hushcall.protocol.states import RoundState
from hushcall.server import metrics
from hushcall.server.db import schema
from hushcall.server.db.rows import newest_version
from hushcall.server.db.store import PublishedFiles
from hushcall.server.http.requests import operator, service_of
from hushcall.server.problems import refusals
from hushcall.server.rounds import round_status
from hushcall.server.signing import signer
from hushcall.version import __version__

router = APIRouter(tags=["probes"])


class Readiness(BaseModel):
    """Whether to send requests here, and what is wrong by part."""

    status: Literal["ready", "not ready"]
    missing: dict[str, str]


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
def ready(request: Request) -> Response:
    """The database answers and the published signatures are in date."""
    try:
        missing = checks(request)
    except sa.exc.SQLAlchemyError:
        missing = {"database": "does not answer"}
    except HushcallError:
        missing = {"lists": "have no signed metadata that can be read"}
    status = 503 if missing else 200
    return JSONResponse({"status": "not ready" if missing else "ready", "missing": missing}, status)


def checks(request: Request) -> dict[str, str]:
    """What is wrong, by part."""
    service = service_of(request)
    with service.store.read() as connection:
        roles = signer.status(PublishedFiles(connection), datetime.fromtimestamp(service.now, UTC))
    return {role.role: "its signature has expired" for role in roles if role.expired}


@router.get(
    "/metrics",
    summary="Prometheus",
    response_class=PlainTextResponse,
    responses=refusals("unknown-token", "revoked", "forbidden"),
    openapi_extra={"security": [{"operator": []}]},
)
def prometheus(request: Request) -> Response:
    """Needs an operator's token with the scope ``read``: how many phones take part is nobody else's business."""
    operator(request, "read")
    return Response(metrics.exposition(_gauges(request)), media_type="text/plain; version=0.0.4")


def _gauges(request: Request) -> dict[str, tuple[str, float]]:
    store = service_of(request).store
    with store.read() as connection:
        newest = newest_version(connection)
    version, entries, made = (newest.version, newest.entries, newest.made) if newest else (0, 0, 0)
    gauges: dict[str, tuple[str, float]] = {
        "hushcall_list_version": ("Version of the published list.", version),
        "hushcall_list_entries": ("Numbers on it.", entries),
        "hushcall_list_made_seconds": ("When its newest round closed, unix time.", made),
        "hushcall_devices": ("Devices enrolled.", store.rows(sa.select(sa.func.count(schema.devices.c.id)))[0][0]),
    }
    if service_of(request).rounds.newest() is not None:
        status: dict[str, Any] = round_status.status(store)
        for name in ("round", "announced", "reports", "buckets_run", "buckets_skipped", "found"):
            gauges[f"hushcall_round_{name}"] = (f"Of the newest round: {name.replace('_', ' ')}.", status[name])
        for state in RoundState:
            gauges[f"hushcall_round_is_{state}"] = (f"1 if it is {state}.", float(status["state"] == state))
    return gauges
