"""Request middleware: size limit, turns of reads, security headers, counters and problem details.

Plain ASGI, since uploads pass through it thousands of times a second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hushcall.server import metrics
from hushcall.server.http.limits import ReadThrottle
from hushcall.server.logs import log
from hushcall.server.problems import Problem

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
DISCONNECTED = 499
"""Status under which a request is counted whose client hung up before the end."""
PIECE_BYTES = 1 << 16
HEADERS = [
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
READS = frozenset({"GET", "HEAD", "OPTIONS", "PROPFIND", "REPORT"})
_OPERATORS = "/v1/admin/"


class RequestMiddleware:
    def __init__(self, app: ASGIApp, throttle: ReadThrottle, max_body: int, access_log: bool = False) -> None:
        self.app, self.throttle, self.max_body, self.access_log = app, throttle, max_body, access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = _Answer(send, self.throttle)
        if scope["method"] == "HEAD":
            scope, answer.headers_only = {**scope, "method": "GET"}, True
        try:
            if _declared_length(scope) > self.max_body:
                raise _oversized(self.max_body)
            if scope["method"] in READS and not scope["path"].startswith(_OPERATORS):
                answer.end_turn = await self.throttle.begin_turn()
            await self.app(scope, _limited(receive, self.max_body), answer)
        except Problem as problem:
            await answer.refuse(problem, scope, receive)
        except ClientDisconnect:
            answer.status = DISCONNECTED
        except Exception as error:
            log("request failed", level=logging.ERROR, error=error, route=_route(scope))
            await answer.refuse(Problem("internal"), scope, receive)
        finally:
            answer.end_turn()
        metrics.REQUESTS.labels(_route(scope), answer.status).inc()
        if self.access_log:
            log("request", method=scope["method"], route=_route(scope), status=answer.status)


class _Answer:
    def __init__(self, send: Send, throttle: ReadThrottle) -> None:
        self.send, self.throttle = send, throttle
        self.status, self.started, self.headers_only = 0, False, False
        self.end_turn: Callable[[], None] = lambda: None  # a request that is no read holds no turn

    async def __call__(self, message: Message) -> None:
        self.end_turn()
        if message["type"] == "http.response.start":
            self.started, self.status = True, message["status"]
            message["headers"] = [*message["headers"], *HEADERS]
        elif self.headers_only:
            message = {**message, "body": b""}
        elif len(message.get("body", b"")) > PIECE_BYTES:
            await self._in_pieces(message)
            return
        await self.send(message)

    async def _in_pieces(self, message: Message) -> None:
        body, more = memoryview(message["body"]), message.get("more_body", False)
        for start in range(0, len(body), PIECE_BYTES):
            last = start + PIECE_BYTES >= len(body)
            await self.throttle.pace(PIECE_BYTES)
            piece = bytes(body[start : start + PIECE_BYTES])
            await self.send({**message, "body": piece, "more_body": more or not last})

    async def refuse(self, problem: Problem, scope: Scope, receive: Receive) -> None:
        """Refuse, unless an answer is under way already."""
        metrics.REFUSED.labels(problem.name).inc()
        if not self.started:
            await problem.response()(scope, receive, self)


def _oversized(max_body: int) -> Problem:
    return Problem("oversized", f"A request may have {max_body} bytes.")


def _limited(receive: Receive, max_body: int) -> Receive:
    size = 0

    async def limited() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > max_body:
            raise _oversized(max_body)
        return message

    return limited


def _declared_length(scope: Scope) -> int:
    for key, value in scope["headers"]:
        if key == b"content-length":
            return int(value) if value.isdigit() and len(value) < 16 else 0
    return 0


def _route(scope: Scope) -> str:
    """The pattern of the route, never the path itself: that may name a ticket."""
    return str(getattr(scope.get("route"), "path", "other"))
