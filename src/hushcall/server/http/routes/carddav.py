"""A read-only CardDAV address book at ``/dav/books/LIMIT/``, which a FRITZ!Box blocks as a whole.

Any user name and password will do: the list is public. What would change something is refused.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from starlette.responses import RedirectResponse, Response

from hushcall.errors import InvalidData
from hushcall.formats import carddav
from hushcall.formats.carddav import DEFAULT_LIMIT, HOME, ROOT, Book, DavRequest
from hushcall.protocol.blocklist import Blocklist
from hushcall.server.db import list_entries
from hushcall.server.http.context import context_of, service_of
from hushcall.server.http.public_cache import answer
from hushcall.server.problems import Problem
from hushcall.server.web.rendering import Served

router = APIRouter(include_in_schema=False)
Limit = Annotated[int, Path(ge=1, le=1_000_000)]
_DAV = {"dav": "1, 3, addressbook", "allow": "OPTIONS, GET, HEAD, PROPFIND, REPORT"}


async def _read(request: Request) -> DavRequest:
    try:
        return carddav.read_request(await request.body())
    except InvalidData as problem:
        raise Problem("bad-request", f"The body must {problem.rule}.") from None


Body = Annotated[DavRequest, Depends(_read)]


def _many(document: bytes) -> Response:
    return Response(document, 207, _DAV, "application/xml; charset=utf-8")


@router.api_route("/.well-known/carddav", methods=["GET", "PROPFIND"])
def entrance() -> Response:
    """The start for clients that know only a host (RFC 6764)."""
    return RedirectResponse(ROOT, 301)


@router.options("/dav/{rest:path}")
def options(rest: str) -> Response:  # noqa: ARG001 (the same everywhere)
    return Response(headers=_DAV)


@router.api_route(ROOT, methods=["PROPFIND"])
def principal(request: Request, asked: Body) -> Response:
    rows = [carddav.response(ROOT, carddav.root_properties(ROOT), asked)]
    if _deep(request):
        rows.append(carddav.response(HOME, carddav.root_properties(HOME), asked))
    return _many(carddav.multistatus(rows))


@router.api_route(HOME, methods=["PROPFIND"])
def home(request: Request, asked: Body) -> Response:
    rows = [carddav.response(HOME, carddav.root_properties(HOME), asked)]
    if _deep(request):
        book = _book(request, DEFAULT_LIMIT)
        rows.append(carddav.response(book.href, carddav.book_properties(book), asked))
    return _many(carddav.multistatus(rows))


@router.api_route(HOME + "{limit}/", methods=["PROPFIND"])
def contents(request: Request, limit: Limit, asked: Body) -> Response:
    book = _book(request, limit)
    rows = [carddav.response(book.href, carddav.book_properties(book), asked)]
    if _deep(request):
        rows += [
            carddav.response(book.href + name, carddav.card_properties(book, name, content=False), asked)
            for name in book.cards
        ]
    return _many(carddav.multistatus(rows))


@router.api_route(HOME + "{limit}/", methods=["REPORT"])
def report(request: Request, limit: Limit, asked: Body) -> Response:
    book = _book(request, limit)
    if asked.kind in ("c:addressbook-multiget", "c:addressbook-query"):
        return _many(carddav.multiget(book, asked))
    if asked.kind != "d:sync-collection":
        raise Problem("bad-request", "This book knows addressbook-multiget, addressbook-query and sync-collection.")
    old = _older(request, asked, limit)
    if asked.token and old is None:
        return Response(carddav.STALE, 403, headers=_DAV, media_type="application/xml; charset=utf-8")
    return _many(carddav.changes(old, book, asked))


@router.api_route(HOME + "{limit}/{name}", methods=["GET", "HEAD"])
def card(request: Request, limit: Limit, name: Annotated[str, Path(max_length=100)]) -> Response:
    """One contact as a vCard, with its ETag: a number that left is a 404."""
    book = _book(request, limit)
    if name not in book.cards:
        raise Problem("not-found")
    served = Served(book.cards[name], "text/vcard; charset=utf-8", book.etag(name))
    return answer(request, served, "no-cache", **_DAV)


def _deep(request: Request) -> bool:
    return request.headers.get("depth", "0") != "0"


def _book(request: Request, limit: int) -> Book:
    current = context_of(request).lists.newest()
    if current is None:
        raise Problem("not-found", "No list has been published yet.")
    return current.book(limit)


def _older(request: Request, asked: DavRequest, limit: int) -> Book | None:
    """The book of the version that a token names, as long as it is kept."""
    version = carddav.version_of(asked.token, limit)
    if version is None:
        return None
    with service_of(request).store.read() as connection:
        data = list_entries.whole(connection, version)
    return None if data is None else Book(Blocklist.from_bytes(data).to_block(), limit)
