"""What phones and content networks download: TUF metadata and targets, byte for byte as they were signed."""

from __future__ import annotations

from typing import Annotated

import sqlalchemy as sa
from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from hushcall.server.db import schema
from hushcall.server.db.rows import newest_version
from hushcall.server.http.requests import service_of
from hushcall.server.problems import Problem, refusals
from hushcall.server.signing import tuf_files

router = APIRouter(prefix="/v1/lists", tags=["lists"], default_response_class=Response)
_FOREVER = "public, max-age=31536000, immutable"
_BYTES: dict[int | str, dict[str, object]] = {
    200: {"description": "the file", "content": {"application/octet-stream": {}, "application/json": {}}},
    304: {"description": "as before"},
}


@router.get("/root.json", responses={**_BYTES, **refusals("not-found")}, summary="The trusted root, for a first start")
def root(request: Request) -> Response:
    """The newest root. A phone that trusts on first use starts from it; one that was given a root does not ask."""
    rows = service_of(request).store.rows(sa.select(schema.files.c.path))
    return _file(request, tuf_files.newest_root_path({row.path: b"" for row in rows}), "no-cache")


@router.get("/metadata/{name}", responses={**_BYTES, **refusals("not-found")}, summary="TUF metadata")
def metadata(request: Request, name: Annotated[str, Path(max_length=200)]) -> Response:
    """``timestamp.json``, ``N.root.json``, ``N.snapshot.json``, ``N.targets.json``."""
    return _file(request, f"metadata/{name}", "no-cache" if name == "timestamp.json" else _FOREVER)


@router.get("/targets/{path:path}", responses={**_BYTES, **refusals("not-found")}, summary="TUF targets")
def target(request: Request, path: Annotated[str, Path(max_length=200)]) -> Response:
    """``<sha256>.blocklist.jsonl``, ``<sha256>.delta-3-4.jsonl``, ``exports/<sha256>.…``."""
    return _file(request, f"targets/{path}", _FOREVER)


@router.get("/current/blocklist.jsonl", responses={**_BYTES, **refusals("not-found")}, summary="The list, unsigned")
def current(request: Request) -> Response:
    """For pages and people. A phone verifies signatures instead."""
    with service_of(request).store.read() as connection:
        newest = newest_version(connection)
    if newest is None:
        raise Problem("not-found", "No list has been published yet.")
    return _file(request, f"targets/{newest.sha256}.blocklist.jsonl", "no-cache")


def _file(request: Request, path: str, caching: str) -> Response:
    store = service_of(request).store
    if "\x00" in path:  # no database stores it in a text
        raise Problem("not-found")
    digest = store.rows(sa.select(schema.files.c.sha256).where(schema.files.c.path == path))
    if not digest:
        raise Problem("not-found")
    headers = {"etag": f'"{digest[0].sha256}"', "cache-control": caching}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    found = store.file(path)
    if found is None:
        raise Problem("not-found")
    media = "application/json" if path.endswith(".json") else "application/octet-stream"
    return Response(found[0], headers=headers, media_type=media)
