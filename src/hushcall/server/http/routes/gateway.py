"""The gateway of Oblivious HTTP: opens sealed requests, answers them, and seals the answers.

It sees requests and never addresses. Only the requests of an anonymous participant are allowed. All others are refused
inside the seal.
"""

from __future__ import annotations

import re
from typing import Any

from fastapi import APIRouter, Request
from starlette.requests import Request as Plain
from starlette.responses import Response
from starlette.types import Message

from hushcall.errors import InvalidMessage
from hushcall.protocol.anonymity import binary_http, ohttp
from hushcall.protocol.randomness import os_entropy
from hushcall.protocol.seeds import TICKET_PATTERN
from hushcall.server.http.context import context_of
from hushcall.server.problems import Problem, refusals

router = APIRouter(tags=["phones"])
ADDRESS = "/.well-known/ohttp-gateway"
PADDING_BYTES = 16_384
"""Answers are padded to multiples of so many bytes. A round of up to a hundred buckets is as long as all others."""
_ROUND = r"/v1/rounds/[1-9][0-9]{0,8}"
_ALLOWED = re.compile(
    rf"GET /v1/(rounds/current|lists/(root\.json|metadata/[^/]+|targets/[^/]+))|POST {_ROUND}/announcements"
    rf"|PUT {_ROUND}/reports/{TICKET_PATTERN}",
    re.ASCII,
)
_ANSWER_HEADERS = (b"content-type", b"retry-after", b"etag")
_REQUEST_HEADERS = frozenset({"authorization", "content-type", "if-none-match"})
_SEALED = {"schema": {"type": "string", "format": "binary"}, "example": "\x01\x00\x20"}


@router.get(ADDRESS, response_class=Response, summary="The gateway's keys, newest first")
def keys(request: Request) -> Response:
    """As RFC 9540 lets others find them. Phones get them from their relay, which gives the same ones to all."""
    return Response(ohttp.encode_configs(*context_of(request).gateway_keys.configs()), media_type=ohttp.KEYS_TYPE)


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
    """Open it, answer it, seal the answer. Problems of the request inside are sealed, too."""
    context = context_of(request)
    context.sealed_limit.check(b"all")
    try:
        plain, exchange = context.gateway_keys.opened(await request.body())
    except InvalidMessage as error:
        raise Problem("sealed-otherwise", f"The {error.field} must {error.rule}.") from None
    answer = binary_http.padded((await _answered(request, plain)).to_bytes(), PADDING_BYTES)
    return Response(ohttp.encapsulate_response(exchange, answer, os_entropy), media_type=ohttp.RESPONSE_TYPE)


async def _answered(request: Plain, plain: bytes) -> binary_http.Response:
    """The application's answer to a request with no client address and none of the relay's headers."""
    try:
        inner = binary_http.read_request(plain)
    except InvalidMessage as error:
        return _plain(Problem("bad-request", f"The {error.field} must {error.rule}.").response())
    if not _ALLOWED.fullmatch(f"{inner.method} {inner.path}"):
        return _plain(Problem("not-found").response())
    body, answer = iter([inner.content]), Response(status_code=500)
    scope: dict[str, Any] = {
        **{key: request.scope[key] for key in ("type", "asgi", "http_version", "server") if key in request.scope},
        "method": inner.method,
        "scheme": "https",
        "path": inner.path,
        "raw_path": inner.path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), value) for name, value in inner.fields if name in _REQUEST_HEADERS],
        "client": None,
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": next(body, b""), "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status_code, answer.raw_headers = message["status"], message["headers"]
        else:
            answer.body = bytes(answer.body) + message.get("body", b"")

    await request.app(scope, receive, send)
    return _plain(answer)


def _plain(response: Response) -> binary_http.Response:
    fields = tuple((key.decode(), value) for key, value in response.raw_headers if key in _ANSWER_HEADERS)
    return binary_http.Response(response.status_code, fields, bytes(response.body))
