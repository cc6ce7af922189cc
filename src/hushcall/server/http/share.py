"""Uploads come first: those who only look take turns, a few at a time, and pause between turns while uploads come in.

A page that takes a millisecond is followed by two for uploads, so that however many look, at most a third of the time
goes to them. A turn ends where the answer begins: whoever reads slowly keeps nobody waiting. What long answers take of
the processor is their bytes: all of them together get so many a second (:class:`Pace`) while uploads come in.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hushcall.server.problems import Problem

AT_ONCE = 4
PAUSE = 2.0
"""How long a place stays empty after a turn, as a multiple of it, while uploads come in."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.01, 0.25
"""Seconds. Before its turn and after it a request costs something too, which no turn shows."""
RECENT = 0.5
"""Seconds for which an upload counts as coming in: longer than a commit takes, while all who upload wait for it."""
BYTES_A_SECOND = 32e6
"""Of all long answers together, while uploads come in; that is a tenth of one processor or so."""
MOST_WAITING = 1000
PATIENCE = 10.0
LOOKS = frozenset({"GET", "HEAD", "OPTIONS", "PROPFIND", "REPORT"})
_OPERATORS = "/v1/admin/"


class Pace:
    """Long answers go out piece by piece, one after the other for all who download, while uploads come in."""

    def __init__(self) -> None:
        self.free = 0.0  # when the next piece may go

    async def piece(self, last_upload: float, size: int) -> None:
        """Wait until so many bytes may go."""
        if time.monotonic() - last_upload > RECENT:
            return
        now = asyncio.get_running_loop().time()
        due = max(now, self.free)
        self.free = due + size / BYTES_A_SECOND
        await asyncio.sleep(due - now)


class Share:
    """Passes requests on; those that look, in turns."""

    def __init__(self, app: ASGIApp) -> None:
        self.app, self.free = app, AT_ONCE
        self.waiting: deque[asyncio.Future[None]] = deque()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope["method"] not in LOOKS or scope["path"].startswith(_OPERATORS):
            await self.app(scope, receive, send)
            return
        await self._turn()
        loop, state, left = asyncio.get_running_loop(), scope["app"].state, False
        started = loop.time()

        def leave() -> None:
            nonlocal left
            if left:
                return
            left = True
            if time.monotonic() - state.last_upload > RECENT:
                self._next()
            else:
                took = PAUSE * (loop.time() - started)
                loop.call_later(min(max(took, SHORTEST_PAUSE), LONGEST_PAUSE), self._next)

        async def answering(message: Message) -> None:
            leave()
            await send(message)

        try:
            await self.app(scope, receive, answering)
        finally:
            leave()

    async def _turn(self) -> None:
        if self.free > 0:
            self.free -= 1
            return
        if len(self.waiting) >= MOST_WAITING:
            raise Problem("busy", retry_after=5)
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(place)
        try:
            await asyncio.wait_for(place, PATIENCE)
        except BaseException as error:
            if place.done() and not place.cancelled():
                self._next()  # it was given a turn at the very moment that it left
            if isinstance(error, TimeoutError):
                raise Problem("busy", retry_after=5) from None
            raise

    def _next(self) -> None:
        while self.waiting:
            place = self.waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self.free += 1
