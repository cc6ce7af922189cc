"""What every request passes through: a size limit on the way in; headers, counters and problem details on the way out.

Plain ASGI, since uploads pass through it thousands of times a second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hushcall.server import metrics
from hushcall.server.http.share import Pace
from hushcall.server.logs import log
from hushcall.server.problems import Problem

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HUNG_UP = 499
"""How a request that its caller did not finish is counted."""
PIECE = 1 << 16
"""Bytes of an answer that are handed to a connection at a time."""
HEADERS = [
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
]


class Border:
    """The outermost layer."""

    def __init__(self, app: ASGIApp, max_body: int, access_log: bool = False) -> None:
        self.app, self.max_body, self.access_log, self.pace = app, max_body, access_log, Pace()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = _Answer(send, scope, self.pace)
        if scope["method"] == "HEAD":  # whatever can be got can be asked about
            scope, answer.silent = {**scope, "method": "GET"}, True
        try:
            if _declared_length(scope) > self.max_body:
                raise Problem("oversized", f"A request may have {self.max_body} bytes.")
            await self.app(scope, _limited(receive, self.max_body), answer)
        except Problem as problem:
            await answer.problem(problem)
        except ClientDisconnect:
            answer.status = HUNG_UP  # nobody is left to be told
        except Exception as error:
            log("request failed", level=logging.ERROR, error=error, route=_route(scope))
            await answer.problem(Problem("internal"))
        metrics.REQUESTS.labels(_route(scope), answer.status).inc()
        if self.access_log:
            log("request", method=scope["method"], route=_route(scope), status=answer.status)


class _Answer:
    """The way out: adds our headers, and remembers what was answered."""

    def __init__(self, send: Send, scope: Scope, pace: Pace) -> None:
        self.send, self.scope, self.pace = send, scope, pace
        self.status, self.started, self.silent = 0, False, False

    async def __call__(self, message: Message) -> None:
        """One message of the answer."""
        if message["type"] == "http.response.start":
            self.started, self.status = True, message["status"]
            message["headers"] = [*message["headers"], *HEADERS]
        elif self.silent:
            message = {**message, "body": b""}
        elif len(message.get("body", b"")) > PIECE:
            await self._in_pieces(message)
            return
        await self.send(message)

    async def _in_pieces(self, message: Message) -> None:
        """A long body, the next piece when the caller has taken the last one: what it does not read is not kept twice.

        Its bytes may be shared by all who ask for them; what waits in a connection is a copy. Uploads come first.
        """
        state = self.scope["app"].state
        body, more = memoryview(message["body"]), message.get("more_body", False)
        for at in range(0, len(body), PIECE):
            last = at + PIECE >= len(body)
            await self.pace.piece(state.last_upload, PIECE)
            await self.send({**message, "body": bytes(body[at : at + PIECE]), "more_body": more or not last})

    async def problem(self, problem: Problem) -> None:
        """Refuse, unless an answer is under way already."""
        metrics.REFUSED.labels(problem.name).inc()
        if self.started:
            return
        body = problem.body()
        headers = [(key.encode(), value.encode()) for key, value in problem.headers().items()]
        headers.append((b"content-length", str(len(body)).encode()))
        await self({"type": "http.response.start", "status": problem.kind.status, "headers": headers})
        await self({"type": "http.response.body", "body": body})


def _limited(receive: Receive, most: int) -> Callable[[], Any]:
    seen = 0

    async def limited() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise Problem("oversized", f"A request may have {most} bytes.")
        return message

    return limited


def _declared_length(scope: Scope) -> int:
    for key, value in scope["headers"]:
        if key == b"content-length":
            return int(value) if value.isdigit() and len(value) < 16 else 0
    return 0


def _route(scope: Scope) -> str:
    """The pattern that matched, never the address itself: that may name a ticket."""
    return str(getattr(scope.get("route"), "path", "other"))
