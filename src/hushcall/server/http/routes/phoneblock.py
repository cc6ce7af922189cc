"""PhoneBlock's dialect, so that apps which speak it (SpamBlocker among them) work by changing one address."""

from __future__ import annotations

from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from hushcall.formats import phoneblock
from hushcall.formats.phoneblock import Change, CheckIndex, Format
from hushcall.server.db import schema
from hushcall.server.http.requests import service_of
from hushcall.server.problems import refusals
from hushcall.server.publishing.publisher import newest_list

router = APIRouter(prefix="/api", tags=["PhoneBlock"], default_response_class=Response)
Sha1 = Annotated[str, Query(pattern="^[0-9A-Fa-f]{40}$", description="SHA-1 of the number as +E.164, in hex")]
Prefix = Annotated[str, Query(pattern="^[0-9A-Fa-f]{4,40}$", description="the first hex digits of that")]
_REFUSED: dict[int | str, dict[str, Any]] = {
    200: {"description": "in the format asked for", "content": {"application/json": {}, "application/xml": {}}},
    **refusals("bad-request"),
}


@router.get("/blocklist", responses=_REFUSED, summary="The list, or what changed since a version")
def blocklist(
    request: Request,
    since: Annotated[int, Query(ge=0, le=1 << 31, description="the version that the app has")] = 0,
    format: Format = "json",  # noqa: A002  (the dialect's own word)
) -> Response:
    """``votes: 0`` removes a number. However old the app's version is, it ends with exactly the current list."""
    table = schema.changes.c
    query = sa.select(schema.changes).where(table.version > since)
    if since == 0:
        query = query.where(table.votes > 0)
    with service_of(request).store.read() as connection:
        version = connection.execute(sa.select(sa.func.max(schema.versions.c.version))).scalar() or 0
        rows = connection.execute(query.order_by(table.number)).all()
    changes = [Change(row.number, row.votes, row.last_ms) for row in rows]
    return _answer(phoneblock.document(changes, version, format))


@router.get("/check", responses=_REFUSED, summary="Is the number with this hash listed?")
def check(request: Request, sha1: Sha1, format: Format = "json") -> Response:  # noqa: A002
    """Apps that care ask for a prefix instead, and look the rest up themselves."""
    return _answer(phoneblock.check_document(index.check(sha1) if (index := _index(request)) else None, format))


@router.get("/check-prefix", responses=_REFUSED, summary="Which listed numbers have a hash that begins like this?")
def check_prefix(request: Request, sha1: Prefix, format: Format = "json") -> Response:  # noqa: A002
    """The server learns a few digits of a hash, which thousands of numbers share."""
    return _answer(phoneblock.prefix_document(index.prefix(sha1) if (index := _index(request)) else [], format))


def _index(request: Request) -> CheckIndex | None:
    """The current list by hash, made once a version and worker; None before the first version."""
    state, store = request.app.state, service_of(request).store
    newest = store.rows(sa.select(sa.func.max(schema.versions.c.version)))[0][0] or 0
    kept: tuple[int, Any] = getattr(state, "check_index", (-1, None))
    if kept[0] != newest:
        with store.read() as connection:
            found = newest_list(connection)
        kept = state.check_index = (newest, CheckIndex(found) if found else None)
    index: CheckIndex | None = kept[1]
    return index


def _answer(document: tuple[bytes, str]) -> Response:
    return Response(document[0], media_type=document[1])
