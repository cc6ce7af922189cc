"""What phones and content networks download: TUF metadata and targets, byte for byte as they were signed."""

from __future__ import annotations

import re
from typing import Annotated

import sqlalchemy as sa
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from hushcall.formats.blocklists import WRITERS, Writer, shortened
from hushcall.protocol.blocklist import Blocklist
from hushcall.server.db import schema
from hushcall.server.db.rows import newest_version
from hushcall.server.http.rendered import answer, rendered, unchanged
from hushcall.server.http.requests import service_of
from hushcall.server.pages.rendering import Served
from hushcall.server.problems import Problem, refusals
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.signing import tuf_files

router = APIRouter(prefix="/v1/lists", tags=["lists"], default_response_class=Response)
_RANGE = re.compile(r"bytes=([0-9]{0,12})-([0-9]{0,12})")
_FOREVER = "public, max-age=31536000, immutable"
_BYTES: dict[int | str, dict[str, object]] = {
    200: {"description": "the file", "content": {"application/octet-stream": {}, "application/json": {}}},
    304: {"description": "as before"},
}


@router.get(
    "/root.json", responses={**_BYTES, **refusals("not-found", "busy")}, summary="The trusted root, for a first start"
)
def root(request: Request) -> Response:
    """The newest root. A phone that trusts on first use starts from it; one that was given a root does not ask."""
    rows = service_of(request).store.rows(sa.select(schema.files.c.path))
    return _file(request, tuf_files.newest_root_path({row.path: b"" for row in rows}), "no-cache")


@router.get("/metadata/{name}", responses={**_BYTES, **refusals("not-found", "busy")}, summary="TUF metadata")
def metadata(request: Request, name: Annotated[str, Path(max_length=200)]) -> Response:
    """``timestamp.json``, ``N.root.json``, ``N.snapshot.json``, ``N.targets.json``."""
    return _file(request, f"metadata/{name}", "no-cache" if name == "timestamp.json" else _FOREVER)


@router.get("/targets/{path:path}", responses={**_BYTES, **refusals("not-found", "busy")}, summary="TUF targets")
def target(request: Request, path: Annotated[str, Path(max_length=200)]) -> Response:
    """``<sha256>.blocklist.jsonl``, ``<sha256>.delta-3-4.jsonl``, ``exports/<sha256>.…``."""
    return _file(request, f"targets/{path}", _FOREVER)


@router.get(
    "/current/blocklist.jsonl", responses={**_BYTES, **refusals("not-found", "busy")}, summary="The list, unsigned"
)
def current(request: Request) -> Response:
    """For pages and people. A phone verifies signatures instead."""
    with service_of(request).store.read() as connection:
        newest = newest_version(connection)
    if newest is None:
        raise Problem("not-found", "No list has been published yet.")
    return _file(request, f"targets/{newest.sha256}.blocklist.jsonl", "no-cache")


@router.get(
    "/current/{name}", responses={**_BYTES, **refusals("not-found", "busy")}, summary="The list in an app's format"
)
def export(
    request: Request,
    name: Annotated[str, Path(max_length=100, description="an export's file, such as yacb.csv")],
    limit: Annotated[int | None, Query(ge=1, le=1 << 31, description="only so many, the largest by estimate")] = None,
) -> Response:
    """An address that stays, for apps that subscribe. Unsigned: what is signed lies under ``targets/exports/``."""
    writer = next((writer for writer in WRITERS.values() if writer.filename == name), None)
    found = current_list(request)
    if writer is None or found is None:
        raise Problem("not-found", "No such export, or no list has been published yet.")
    made = _written(request, found, writer, limit)
    headers = {"etag": made.etag, "cache-control": "public, max-age=600", "accept-ranges": "bytes"}
    if unchanged(request, made.etag):
        return Response(status_code=304, headers=headers)
    return _ranged(request, made.data, headers, made.media)


def current_list(request: Request) -> Blocklist | None:
    """The version in force, read once a version and worker; None before the first."""
    state, store = request.app.state, service_of(request).store
    newest = store.rows(sa.select(sa.func.max(schema.versions.c.version)))[0][0] or 0
    kept: tuple[int, Blocklist | None] = getattr(state, "current_list", (-1, None))
    if kept[0] != newest:
        with store.read() as connection:
            kept = state.current_list = (newest, newest_list(connection))
    return kept[1]


def _written(request: Request, found: Blocklist, writer: Writer, limit: int | None) -> Served:
    """An export, made once: many apps ask for the same ones. Like the signed ones it holds what blocks."""
    most = min(limit or len(found.entries), len(found.entries))
    key = ("export", found.version, writer.name, most)
    return rendered(request).get(
        key, lambda: (writer.write(shortened(found.to_block(), most or None)), writer.media_type)
    )


def _ranged(request: Request, data: bytes, headers: dict[str, str], media: str) -> Response:
    """All of it, or the one range that was asked for (RFC 9110): a download that broke off goes on."""
    asked = _RANGE.fullmatch(request.headers.get("range", ""))
    if asked is None or request.headers.get("if-range", headers["etag"]) != headers["etag"] or not any(asked.groups()):
        return Response(data, headers=headers, media_type=media)
    first = int(asked[1]) if asked[1] else max(0, len(data) - int(asked[2]))
    last = min(int(asked[2]) if asked[1] and asked[2] else len(data) - 1, len(data) - 1)
    if first > last:
        return Response(status_code=416, headers={**headers, "content-range": f"bytes */{len(data)}"})
    place = {"content-range": f"bytes {first}-{last}/{len(data)}"}
    return Response(data[first : last + 1], 206, {**headers, **place}, media_type=media)


def _file(request: Request, path: str, caching: str) -> Response:
    store = service_of(request).store
    if "\x00" in path:  # no database stores it in a text
        raise Problem("not-found")
    known = store.rows(sa.select(schema.files.c.sha256).where(schema.files.c.path == path))
    if not known:
        raise Problem("not-found")
    media = "application/json" if path.endswith(".json") else "application/octet-stream"

    def read() -> tuple[bytes, str]:
        found = store.file(path)
        if found is None:
            raise Problem("not-found")
        return found[0], media

    etag = f'"{known[0].sha256}"'
    if unchanged(request, etag):
        return Response(status_code=304, headers={"etag": etag, "cache-control": caching})
    return answer(request, rendered(request).get(("file", path, known[0].sha256), read), caching)
