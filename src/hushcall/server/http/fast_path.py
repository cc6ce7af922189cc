"""Announcements and reports, answered without the web framework: that saves a third of their time.

The routes in ``routes.phones`` describe them, and answer paths and methods that do not match exactly. Both ways end in
:func:`announce` and :func:`report`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from types import SimpleNamespace

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from hushcall.errors import InvalidParameter
from hushcall.protocol.seeds import TICKET_PATTERN, ticket_bytes
from hushcall.server import metrics
from hushcall.server.anonymity import is_token
from hushcall.server.auth.devices import token_hash
from hushcall.server.http.context import Context, token_in
from hushcall.server.http.middleware import HEADERS
from hushcall.server.ingest.ingest import Announce, Answer, Upload
from hushcall.server.logs import log
from hushcall.server.problems import Problem

PATH = re.compile(rf"/v1/rounds/([1-9][0-9]{{0,8}})/(?:announcements|reports/((?i:{TICKET_PATTERN})))", re.ASCII)
ANNOUNCEMENTS, REPORTS = "/v1/rounds/{number}/announcements", "/v1/rounds/{number}/reports/{ticket}"
_ANNOUNCED = metrics.ACCEPTED.labels("announcement")
_REPORTED = metrics.ACCEPTED.labels("report")
_BUSY = metrics.REFUSED.labels("busy")


async def announce(context: Context, authorization: str, round_id: int, body: bytes) -> Answer:
    caller = _caller(context, authorization)
    answer = await context.queue.submit(Announce(caller, round_id, _bucket(body)))
    _ANNOUNCED.inc()
    return answer


async def report(context: Context, authorization: str, round_id: int, ticket: str, body: bytes) -> Answer:
    caller = _caller(context, authorization)
    try:
        name = ticket_bytes(ticket.lower())
    except InvalidParameter:
        raise Problem("unknown-ticket") from None
    answer = await context.queue.submit(Upload(caller, round_id, name, body))
    _REPORTED.inc()
    return answer


def _caller(context: Context, authorization: str) -> bytes:
    """The hash of the caller's token, or its blind token, if it is within the rate limit."""
    blind = _blind_token_in(authorization)
    token = blind or token_hash(token_in(authorization))
    context.device_limit.check(hashlib.sha256(blind).digest() if blind else token)
    return token


def _blind_token_in(authorization: str) -> bytes:
    """The token of an ``Authorization: PrivateToken`` header (RFC 9577, section 2.2). Empty for another scheme."""
    scheme, _, parameters = authorization.partition(" ")
    if scheme.lower() != "privatetoken":
        return b""
    name, _, value = parameters.strip().partition("=")
    try:
        token = base64.urlsafe_b64decode(value.strip('"'))
    except ValueError:
        token = b""
    if name != "token" or not is_token(token):
        raise Problem("foreign-token", "There is no token of ours in the request.")
    return token


def _bucket(body: bytes) -> int:
    try:
        bucket = json.loads(body)["bucket"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Problem("bad-request", 'The body must be {"bucket": an area code, or 0}.') from None
    if type(bucket) is not int or not 0 <= bucket <= 999:
        raise Problem("bad-request", "bucket must be a whole number from 0 to 999.")
    return bucket


def upload_route(method: str, path: str) -> re.Match[str] | None:
    """The match of an upload's path, if the method fits: its groups are the round and a report's ticket."""
    match = PATH.fullmatch(path)
    return match if match and method == ("PUT" if match[2] else "POST") else None


def refusal(context: Context, route: re.Match[str]) -> bytes:
    """The whole answer to an upload that is refused because the queue is full, as bytes. It is counted."""
    context.throttle.note_upload()
    name = REPORTS if route[2] else ANNOUNCEMENTS
    metrics.REQUESTS.labels(name, 503).inc()
    if context.service.settings.server.access_log:
        log("request", method="PUT" if route[2] else "POST", route=name, status=503)
    return busy_bytes(context)


def busy_bytes(context: Context, *, close: bool = False) -> bytes:
    """A counted answer 503 with ``Retry-After``. ``close`` says that it is the connection's last."""
    _BUSY.inc()
    return _busy_bytes(context.queue.spread.next_seconds(), b"connection: close\r\n" if close else b"")


@cache
def _busy_bytes(retry_after: int, connection: bytes) -> bytes:
    response = Problem("busy", retry_after=retry_after).response()
    head = b"".join(b"%b: %b\r\n" % field for field in [*response.raw_headers, *HEADERS])
    return b"HTTP/1.1 503 Service Unavailable\r\n" + head + connection + b"\r\n" + bytes(response.body)


class FastPath:
    def __init__(self, app: ASGIApp, context: Context) -> None:
        self.app, self.context = app, context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match = upload_route(scope["method"], scope["path"]) if scope["type"] == "http" else None
        if match is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = SimpleNamespace(path=REPORTS if match[2] else ANNOUNCEMENTS)
        self.context.throttle.note_upload()
        await self.context.queue.refuse_if_full()
        body = await Request(scope, receive).body()  # a disconnect raises: half a report must not be judged
        header = next((value for key, value in scope["headers"] if key == b"authorization"), b"").decode("latin-1")
        if match[2]:
            answer = await report(self.context, header, int(match[1]), match[2], body)
        else:
            answer = await announce(self.context, header, int(match[1]), body)
        text = json.dumps(answer.body).encode() if answer.body else b""
        headers = [(b"content-length", str(len(text)).encode())]
        if text:
            headers.append((b"content-type", b"application/json"))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": text})
