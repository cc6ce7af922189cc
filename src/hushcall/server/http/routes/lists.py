"""Downloads: TUF metadata and targets as they were signed, and exports."""

from __future__ import annotations

import re
from typing import Annotated

import sqlalchemy as sa
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from hushcall.formats.blocklists import WRITERS, Writer, shortened
from hushcall.server.db import schema
from hushcall.server.db.rows import newest_version
from hushcall.server.http.context import context_of, service_of
from hushcall.server.http.public_cache import PublishedList, answer, unchanged
from hushcall.server.problems import Problem, refusals
from hushcall.server.signing import signer
from hushcall.server.web.rendering import Served

router = APIRouter(prefix="/v1/lists", tags=["lists"], default_response_class=Response)
_RANGE = re.compile(r"bytes=([0-9]{0,12})-([0-9]{0,12})")
_FOREVER = "public, max-age=31536000, immutable"
_ANSWERS: dict[int | str, dict[str, object]] = {
    200: {"description": "the file", "content": {"application/octet-stream": {}, "application/json": {}}},
    304: {"description": "as before"},
    **refusals("not-found", "busy"),
}


@router.get("/root.json", responses=_ANSWERS, summary="The trusted root, for a first start")
def root(request: Request) -> Response:
    """The newest root. A phone that trusts on first use starts from it. One that was given a root does not ask."""
    rows = service_of(request).store.rows(sa.select(schema.files.c.path))
    return _file(request, signer.newest_root_path({row.path: b"" for row in rows}), "no-cache")


@router.get("/metadata/{name}", responses=_ANSWERS, summary="TUF metadata")
def metadata(request: Request, name: Annotated[str, Path(max_length=200)]) -> Response:
    """``timestamp.json``, ``N.root.json``, ``N.snapshot.json``, ``N.targets.json``."""
    return _file(request, f"metadata/{name}", "no-cache" if name == "timestamp.json" else _FOREVER)


@router.get("/targets/{path:path}", responses=_ANSWERS, summary="TUF targets")
def target(request: Request, path: Annotated[str, Path(max_length=200)]) -> Response:
    """``<sha256>.blocklist.jsonl``, ``<sha256>.delta-3-4.jsonl``, ``exports/<sha256>.…``."""
    return _file(request, f"targets/{path}", _FOREVER)


@router.get("/current/blocklist.jsonl", responses=_ANSWERS, summary="The list, unsigned")
def current(request: Request) -> Response:
    """For pages and people. A phone verifies signatures instead."""
    with service_of(request).store.read() as connection:
        newest = newest_version(connection)
    if newest is None:
        raise Problem("not-found", "No list has been published yet.")
    return _file(request, f"targets/{newest.sha256}.blocklist.jsonl", "no-cache")


@router.get("/current/imported.jsonl", responses=_ANSWERS, summary="Imported complaints, unsigned")
def imported(request: Request) -> Response:
    """Numbers that others complain about, with their sources. Phones did not find them, and they are on no list."""
    published = context_of(request).lists.imported()
    if published is None:
        raise Problem("not-found", "Nothing is imported.")
    return _file(request, published.path, "no-cache")


@router.get("/current/{name}", responses=_ANSWERS, summary="The list in an app's format")
def export(
    request: Request,
    name: Annotated[str, Path(max_length=100, description="an export's file, such as yacb.csv")],
    limit: Annotated[int | None, Query(ge=1, le=1 << 31, description="only so many, the largest by estimate")] = None,
) -> Response:
    """An address that stays, for apps that subscribe. Unsigned: ``targets/exports/`` has what is signed."""
    writer = next((writer for writer in WRITERS.values() if writer.filename == name), None)
    current = context_of(request).lists.newest()
    if writer is None or current is None:
        raise Problem("not-found", "No such export, or no list has been published yet.")
    served = _export(request, current, writer, limit)
    headers = {"etag": served.etag, "cache-control": "public, max-age=600", "accept-ranges": "bytes"}
    if unchanged(request, served.etag):
        return Response(status_code=304, headers=headers)
    return _ranged(request, served.data, headers, served.media)


def _export(request: Request, current: PublishedList, writer: Writer, limit: int | None) -> Served:
    """An export. Like the signed ones it holds the numbers that block."""
    blocklist = current.blocklist
    size = min(limit or len(blocklist.entries), len(blocklist.entries))
    key = ("export", blocklist.version, writer.name, size)
    return context_of(request).rendered.get(
        key, lambda: (writer.write(shortened(blocklist.to_block(), size or None)), writer.media_type)
    )


def _ranged(request: Request, data: bytes, headers: dict[str, str], media: str) -> Response:
    """All of it, or one range (RFC 9110), so that a broken download can go on."""
    match = _RANGE.fullmatch(request.headers.get("range", ""))
    if match is None or request.headers.get("if-range", headers["etag"]) != headers["etag"] or not any(match.groups()):
        return Response(data, headers=headers, media_type=media)
    first = int(match[1]) if match[1] else max(0, len(data) - int(match[2]))
    last = min(int(match[2]) if match[1] and match[2] else len(data) - 1, len(data) - 1)
    if first > last:
        return Response(status_code=416, headers={**headers, "content-range": f"bytes */{len(data)}"})
    content_range = {"content-range": f"bytes {first}-{last}/{len(data)}"}
    return Response(data[first : last + 1], 206, {**headers, **content_range}, media_type=media)


def _file(request: Request, path: str, caching: str) -> Response:
    store = service_of(request).store
    if "\x00" in path:  # no database stores it in a text
        raise Problem("not-found")
    rows = store.rows(sa.select(schema.files.c.sha256).where(schema.files.c.path == path))
    if not rows:
        raise Problem("not-found")
    sha256 = rows[0].sha256
    media = "application/json" if path.endswith(".json") else "application/octet-stream"

    def read() -> tuple[bytes, str]:
        file = store.file(path)
        if file is None:
            raise Problem("not-found")
        return file[0], media

    etag = f'"{sha256}"'
    if unchanged(request, etag):
        return Response(status_code=304, headers={"etag": etag, "cache-control": caching})
    return answer(request, context_of(request).rendered.get(("file", path, sha256), read), caching)
