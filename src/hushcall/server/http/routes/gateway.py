"""The gateway: sealed requests from a relay come in, are opened and answered here, and the answers leave sealed.

It sees what was asked and never from where: a relay passes on no address. Only what a phone does without a name can be
asked for; everything else is refused inside the seal.
"""

from __future__ import annotations

import re
from typing import Any

from fastapi import APIRouter, Request
from starlette.requests import Request as Plain
from starlette.responses import Response
from starlette.types import Message

from hushcall.anonymity import binary_http, ohttp
from hushcall.errors import InvalidMessage
from hushcall.privacy.coins import os_entropy
from hushcall.protocol.tickets import TICKET_PATTERN
from hushcall.server.anonymity.round_keys import gateway_key
from hushcall.server.http.requests import service_of
from hushcall.server.problems import Problem, refusals

router = APIRouter(tags=["phones"])
ADDRESS = "/.well-known/ohttp-gateway"
PADDED = 4096
"""All answers are multiples of this many bytes: a relay cannot tell one kind from another by its size."""
_ROUND = r"/v1/rounds/[1-9][0-9]{0,8}"
_ALLOWED = re.compile(
    rf"GET /v1/rounds/current|POST {_ROUND}/announcements|PUT {_ROUND}/reports/{TICKET_PATTERN}", re.ASCII
)
_KEPT = (b"content-type", b"retry-after", b"etag")
_PASSED = frozenset({"authorization", "content-type", "if-none-match"})
_SEALED = {"schema": {"type": "string", "format": "binary"}, "example": "\x01\x00\x20"}


@router.get(ADDRESS, response_class=Response, summary="The gateway's key")
def keys(request: Request) -> Response:
    """As RFC 9540 lets others find it. Phones take it from the round's document, where everybody sees the same."""
    config, _ = _key(request)
    return Response(ohttp.encode_configs(config), media_type=ohttp.KEYS_TYPE)


@router.post(
    ADDRESS,
    response_class=Response,
    responses={
        200: {"description": "a sealed answer", "content": {ohttp.RESPONSE_TYPE: _SEALED}},
        **refusals("bad-request", "sealed-otherwise", "oversized", "too-many"),
    },
    openapi_extra={"requestBody": {"required": True, "content": {ohttp.REQUEST_TYPE: _SEALED}}},
    summary="A sealed request (RFC 9458)",
)
async def gateway(request: Request) -> Response:
    """Open it, answer it, seal the answer. What goes wrong inside is told inside."""
    request.app.state.sealed.check(b"all")
    config, secret = _key(request)
    try:
        plain, exchange = ohttp.decapsulate_request(config, secret, await request.body())
    except InvalidMessage as error:
        raise Problem("sealed-otherwise", f"The {error.field} must {error.rule}.") from None
    answer = binary_http.padded((await _answered(request, plain)).to_bytes(), PADDED)
    return Response(ohttp.encapsulate_response(exchange, answer, os_entropy), media_type=ohttp.RESPONSE_TYPE)


def _key(request: Request) -> tuple[ohttp.KeyConfig, bytes]:
    state = request.app.state
    if not hasattr(state, "gateway_key"):
        service = service_of(request)
        state.gateway_key = gateway_key(service.store, service.coins)
    found: tuple[ohttp.KeyConfig, bytes] = state.gateway_key
    return found


async def _answered(request: Plain, plain: bytes) -> binary_http.Response:
    try:
        asked = binary_http.read_request(plain)
    except InvalidMessage as error:
        return _refused(Problem("bad-request", f"The {error.field} must {error.rule}."))
    if not _ALLOWED.fullmatch(f"{asked.method} {asked.path}"):
        return _refused(Problem("not-found"))
    return await _through(request, asked)


async def _through(request: Plain, asked: binary_http.Request) -> binary_http.Response:
    """The same way as any request, through the application, with no client and none of the relay's headers."""
    body, got = iter([asked.content]), _Gathered()
    scope: dict[str, Any] = {
        **{key: request.scope[key] for key in ("type", "asgi", "http_version", "server") if key in request.scope},
        "method": asked.method,
        "scheme": "https",
        "path": asked.path,
        "raw_path": asked.path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), value) for name, value in asked.fields if name in _PASSED],
        "client": None,
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": next(body, b""), "more_body": False}

    await request.app(scope, receive, got)
    return binary_http.Response(got.status, tuple(got.fields), got.content)


class _Gathered:
    """An answer, put together from its messages."""

    def __init__(self) -> None:
        self.status, self.content = 500, b""
        self.fields: list[tuple[str, bytes]] = []

    async def __call__(self, message: Message) -> None:
        """One of them."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.fields = [(key.decode(), value) for key, value in message["headers"] if key.lower() in _KEPT]
        else:
            self.content += message.get("body", b"")


def _refused(problem: Problem) -> binary_http.Response:
    fields = tuple((key.lower(), value.encode()) for key, value in problem.headers().items())
    return binary_http.Response(problem.kind.status, fields, problem.body())
