"""PhoneBlock's interface, so that its apps (SpamBlocker among them) work by changing one address.

Reports in the clear are refused.
"""

from __future__ import annotations

from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import PlainTextResponse, Response

from hushcall.errors import InvalidNumber
from hushcall.formats import phoneblock
from hushcall.formats.phoneblock import Change, CheckIndex, Format, sha1_of
from hushcall.server.db import schema
from hushcall.server.db.store import Store
from hushcall.server.http.context import context_of, service_of
from hushcall.server.http.public_cache import answer
from hushcall.server.problems import Problem, refusals

router = APIRouter(prefix="/api", tags=["PhoneBlock"], default_response_class=Response)
_HASH, _BEGINNING = "^[0-9A-Fa-f]{40}$", "^[0-9A-Fa-f]{4,40}$"
Sha1 = Annotated[str, Query(pattern=_HASH, description="SHA-1 of the number as +E.164, in hex")]
Prefix = Annotated[str, Query(pattern=_BEGINNING, description="the first hex digits of that")]
Ten = Annotated[str | None, Query(pattern=_BEGINNING, description="the same of the number without its last digit")]
Hundred = Annotated[str | None, Query(pattern=_BEGINNING, description="the same without its last two digits")]
Since = Annotated[str, Query(pattern="^[0-9]{0,10}$", description="the version that the app has; empty: none")]
Limit = Annotated[int | None, Query(ge=1, le=1 << 31, description="at most so many numbers, the largest ones")]
FormatQuery = Annotated[Format | None, Query(alias="format", description="json or xml; otherwise as Accept says")]
_REFUSED: dict[int | str, dict[str, Any]] = {
    200: {"description": "in the format asked for", "content": {"application/json": {}, "application/xml": {}}},
    304: {"description": "as before"},
    **refusals("bad-request", "busy"),
}


@router.get("/blocklist", responses=_REFUSED, summary="The list, or what changed since a version")
def blocklist(request: Request, since: Since = "0", limit: Limit = None, form: FormatQuery = None) -> Response:
    """``votes: 0`` removes a number. However old the app's version is, it ends with exactly the current list."""
    store, written = service_of(request).store, _format(request, form)
    version, entries = store.rows(
        sa.select(sa.func.max(schema.versions.c.version), sa.func.max(schema.versions.c.entries))
    )[0]
    start = min(int(since or 0), version or 0)
    size = None if limit is None or (start == 0 and limit >= (entries or 0)) else limit

    def make() -> tuple[bytes, str]:
        return phoneblock.document(_changes(store, start, version or 0, size), version or 0, written)

    served = context_of(request).rendered.get(("phoneblock", version, start, size, written), make)
    return answer(request, served, "public, no-cache")


def _changes(store: Store, since: int, version: int, limit: int | None) -> list[Change]:
    table = schema.changes.c
    query = sa.select(schema.changes).where(table.version > since, table.version <= version)
    if since == 0:
        query = query.where(table.votes > 0)
    changes = [Change(row.number, row.votes, row.last_ms) for row in store.rows(query.order_by(table.number))]
    return changes if limit is None else phoneblock.largest(changes, limit)


@router.get("/num/{phone}", responses=_REFUSED, summary="Is this number listed?")
def number(request: Request, phone: Annotated[str, Path(max_length=40)], form: FormatQuery = None) -> Response:
    """The server learns which number was asked for. Apps that care ask for the beginning of a hash instead."""
    try:
        text = str(service_of(request).plan.parse(phone))
    except InvalidNumber:
        text = phoneblock.UNKNOWN
    index = _index(request)
    entry = index.check(sha1_of(text)) if index else None
    block = index.ranges.around(text) if index else None
    votes = phoneblock.range_votes(block) if block else 0
    return _answer(phoneblock.check_document(entry, _format(request, form), text, votes))


@router.get("/check", responses=_REFUSED, summary="Is the number with this hash listed?")
def check(
    request: Request, sha1: Sha1, prefix10: Ten = None, prefix100: Hundred = None, form: FormatQuery = None
) -> Response:
    """Apps that care ask for a prefix instead, and look the rest up themselves."""
    index = _index(request)
    entry = index.check(sha1) if index else None
    votes = index.wildcard(prefix10, prefix100) if index and entry is None else 0
    return _answer(phoneblock.check_document(entry, _format(request, form), wildcard=votes))


@router.get("/check-prefix", responses=_REFUSED, summary="Which listed numbers have a hash that begins like this?")
def check_prefix(
    request: Request, sha1: Prefix, prefix10: Ten = None, prefix100: Hundred = None, form: FormatQuery = None
) -> Response:
    """The server learns a few digits of a hash, which thousands of numbers share.

    With ``prefix10`` and ``prefix100`` besides it learns which number it is: hardly two share all three.
    """
    index = _index(request)
    entries = index.prefix(sha1) if index else []
    blocks = index.blocks(prefix10, prefix100) if index else ([], [])
    return _answer(phoneblock.prefix_document(entries, _format(request, form), blocks))


@router.get("/test", summary="Is this a server that speaks the dialect?", response_class=PlainTextResponse)
def test() -> PlainTextResponse:
    """Apps ask it when they are set up. Any key will do: reading the list needs none."""
    return PlainTextResponse("ok")


@router.post("/rate", responses=refusals("private-reports-only"), summary="Refused: reports are private here")
def rate() -> Response:
    """What would be sent is a number in the clear. Nothing of it is read."""
    raise Problem("private-reports-only")


@router.post("/report-call/{phone}", responses=refusals("private-reports-only"), summary="Refused, likewise")
def report_call(phone: Annotated[str, Path(max_length=40)]) -> Response:  # noqa: ARG001 (the dialect's address)
    """A phone reports once a day, through its randomiser."""
    raise Problem("private-reports-only")


def _format(request: Request, form: Format | None) -> Format:
    """The format of the query, or else of the Accept header: XML only if that names neither JSON nor HTML."""
    accepts = request.headers.get("accept", "")
    return form or ("xml" if "xml" in accepts and "json" not in accepts and "html" not in accepts else "json")


def _index(request: Request) -> CheckIndex | None:
    current = context_of(request).lists.newest()
    return None if current is None else current.check_index


def _answer(document: tuple[bytes, str]) -> Response:
    return Response(document[0], media_type=document[1])
