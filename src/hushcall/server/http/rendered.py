"""What is public is worked out once: a key that names its version comes in, bytes with their tag leave.

Whoever asks again gets the same bytes, or 304. What is kept is bounded in bytes; and since a caller may ask for a
thousand different lengths of a list, so is the time that working them out may take: a fifth of one processor, with some
seconds in hand for the moment after a new list. Beyond it callers are told to come back; uploads are not among them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from threading import Lock

from starlette.requests import Request
from starlette.responses import Response

from hushcall.server.pages.rendering import Served
from hushcall.server.problems import Problem

MOST_BYTES = 64 << 20
SHARE = 0.2
IN_HAND = 10.0
"""Seconds of a processor that may be spent at once."""


class Rendered:
    """The bytes that a process keeps. ``cpu`` is how long this thread has worked: waiting costs nobody anything."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, cpu: Callable[[], float] = time.thread_time
    ) -> None:
        self.clock, self.cpu = clock, cpu
        self._lock, self._kept, self._bytes = Lock(), dict[Hashable, Served](), 0
        self._left, self._at = IN_HAND, clock()

    def get(self, key: Hashable, make: Callable[[], tuple[bytes, str]]) -> Served:
        """The bytes with this key: what ``make`` gave, with its media type, when they were first asked for."""
        found = self._kept.get(key)
        if found is not None:
            return found
        with self._lock:  # one works it out, the others wait for it
            found = self._kept.get(key)
            if found is None:
                started = self._begin()
                found = Served.of(*make())
                self._left -= self.cpu() - started
                self._keep(key, found)
        return found

    def _begin(self) -> float:
        now = self.clock()
        self._left, self._at = min(IN_HAND, self._left + SHARE * (now - self._at)), now
        if self._left <= 0:
            raise Problem("busy", "Too many different lists were asked for.", math.ceil(1 - self._left / SHARE))
        return self.cpu()

    def _keep(self, key: Hashable, made: Served) -> None:
        self._kept[key] = made
        self._bytes += len(made.data)
        while self._bytes > MOST_BYTES and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            self._bytes -= len(self._kept.pop(oldest).data)


def rendered(request: Request) -> Rendered:
    """What this process keeps."""
    kept: Rendered = request.app.state.rendered
    return kept


def answer(request: Request, served: Served, caching: str, **more: str) -> Response:
    """The bytes, or 304 where the caller has them already; ``more`` are further headers."""
    headers = {"etag": served.etag, "cache-control": caching, **more}
    if unchanged(request, served.etag):
        return Response(status_code=304, headers=headers)
    return Response(served.data, headers=headers, media_type=served.media)


def unchanged(request: Request, etag: str) -> bool:
    """Whether the caller has these bytes already."""
    known = request.headers.get("if-none-match", "")
    return known == "*" or etag in (one.strip().removeprefix("W/") for one in known.split(","))
