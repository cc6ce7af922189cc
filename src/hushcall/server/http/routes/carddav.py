"""A read-only CardDAV address book at ``/dav/books/LIMIT/``, which a FRITZ!Box blocks as a whole.

Any user name and password will do: the list is public. What would change something is refused.
"""

from __future__ import annotations

from typing import Annotated

import sqlalchemy as sa
from fastapi import APIRouter, Depends, Path, Request
from starlette.responses import RedirectResponse, Response

from hushcall.errors import InvalidData
from hushcall.formats import carddav
from hushcall.formats.carddav import HOME, ROOT, USUAL_LIMIT, Asked, Book
from hushcall.protocol.blocklist import Blocklist
from hushcall.server.db import schema
from hushcall.server.http.rendered import unchanged
from hushcall.server.http.requests import service_of
from hushcall.server.http.routes.lists import current_list
from hushcall.server.problems import Problem

router = APIRouter(include_in_schema=False)
Limit = Annotated[int, Path(ge=1, le=1_000_000)]
_DAV = {"dav": "1, 3, addressbook", "allow": "OPTIONS, GET, HEAD, PROPFIND, REPORT"}


async def _read(request: Request) -> Asked:
    try:
        return carddav.read(await request.body())
    except InvalidData as problem:
        raise Problem("bad-request", f"The body must {problem.rule}.") from None


Body = Annotated[Asked, Depends(_read)]


def _many(document: bytes) -> Response:
    return Response(document, 207, _DAV, "application/xml; charset=utf-8")


@router.api_route("/.well-known/carddav", methods=["GET", "PROPFIND"])
def entrance() -> Response:
    """Where clients begin that were given nothing but a host (RFC 6764)."""
    return RedirectResponse(ROOT, 301)


@router.options("/dav/{rest:path}")
def options(rest: str) -> Response:  # noqa: ARG001 (the same everywhere)
    """What this is, and what may be done: look."""
    return Response(headers=_DAV)


@router.api_route(ROOT, methods=["PROPFIND"])
def principal(request: Request, asked: Body) -> Response:
    """Everybody is the same principal."""
    rows = [carddav.found(ROOT, carddav.root_properties(ROOT), asked)]
    if _deep(request):
        rows.append(carddav.found(HOME, carddav.root_properties(HOME), asked))
    return _many(carddav.multistatus(rows))


@router.api_route(HOME, methods=["PROPFIND"])
def home(request: Request, asked: Body) -> Response:
    """One book is shown; any other limit is a book, too."""
    rows = [carddav.found(HOME, carddav.root_properties(HOME), asked)]
    if _deep(request):
        book = _book(request, USUAL_LIMIT)
        rows.append(carddav.found(book.href, carddav.book_properties(book), asked))
    return _many(carddav.multistatus(rows))


@router.api_route(HOME + "{limit}/", methods=["PROPFIND"])
def contents(request: Request, limit: Limit, asked: Body) -> Response:
    """The book, and at depth 1 its contacts with their tags."""
    book = _book(request, limit)
    rows = [carddav.found(book.href, carddav.book_properties(book), asked)]
    if _deep(request):
        rows += [
            carddav.found(book.href + name, carddav.card_properties(book, name, whole=False), asked)
            for name in book.cards
        ]
    return _many(carddav.multistatus(rows))


@router.api_route(HOME + "{limit}/", methods=["REPORT"])
def report(request: Request, limit: Limit, asked: Body) -> Response:
    """Contacts by name, all of them, or what changed since a version."""
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
    headers = {**_DAV, "etag": book.etag(name), "cache-control": "no-cache"}
    if unchanged(request, headers["etag"]):
        return Response(status_code=304, headers=headers)
    return Response(book.cards[name], headers=headers, media_type="text/vcard; charset=utf-8")


def _deep(request: Request) -> bool:
    return request.headers.get("depth", "0") != "0"


def _book(request: Request, limit: int) -> Book:
    """The book of the version in force; the last few are kept, with their contacts made."""
    made = current_list(request)
    if made is None:
        raise Problem("not-found", "No list has been published yet.")
    kept: dict[tuple[int, int], Book] = request.app.state.__dict__.setdefault("books", {})
    if (made.version, limit) not in kept:
        if len(kept) >= 8:
            kept.pop(next(iter(kept)), None)
        kept[made.version, limit] = Book(made.to_block(), limit)
    return kept[made.version, limit]


def _older(request: Request, asked: Asked, limit: int) -> Book | None:
    """The book of the version that a token names, as long as it is kept."""
    version = carddav.version_of(asked.token, limit)
    if version is None:
        return None
    rows = service_of(request).store.rows(sa.select(schema.versions.c.data).where(schema.versions.c.version == version))
    return (
        Book(Blocklist.from_bytes(bytes(rows[0].data)).to_block(), limit) if rows and rows[0].data is not None else None
    )
