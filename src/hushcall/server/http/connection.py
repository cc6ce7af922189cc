"""One connection, within bounds: how much a head may hold, how long a caller may take, how many there may be.

The server beneath (uvicorn) bounds none of them: heads grow in memory, a caller that says nothing stays, and so does
one that does not read. Here a head has so many bytes and fields, a request arrives within so many seconds, an answer is
taken off our hands within so many, and when there are as many connections as there may be, the one that has been idle
for longest makes room: an honest phone is never idle for long. Descriptors are left over for the database, the
scheduler and the decoders.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 1 << 14
HEAD_FIELDS = 64
REQUEST_SECONDS = 20.0
"""From the first byte (or the connection) to the last byte of a request. Uploads have a few hundred."""
MOST_AHEAD = 16
"""Requests that may be sent before the answer to the first one is there."""
WRITE_SECONDS = 30.0
"""For a piece of an answer, 64 KB (``middleware``): 2 KB a second is slow for a phone, and no connection at all."""
KEEP_ALIVE_SECONDS = 75
"""Longer than a proxy before us keeps its connections (nginx: 60): otherwise it would send into one that we close."""
SWEEP_SECONDS = 1.0
RESERVED = 128
"""Descriptors that are not for connections."""
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


@dataclass
class Keeper:
    """Knows the connections of a process: which are idle, longest first, and which take too long."""

    most: int
    idle: dict[Connection, None] = field(default_factory=dict)
    _sweeping: bool = False

    def make_room(self, known: set[Any]) -> bool:
        """Whether there is room for one more; the longest idle connection goes if need be."""
        if len(known) < self.most:
            return True
        oldest = next(iter(self.idle), None)
        if oldest is None:
            return False
        self.idle.pop(oldest)
        oldest.transport.abort()
        return True

    def watch(self, known: set[Any], loop: asyncio.AbstractEventLoop) -> None:
        """Look once a second, for as long as there is anybody."""
        if not self._sweeping:
            self._sweeping = True
            loop.call_later(SWEEP_SECONDS, self._sweep, known, loop)

    def _sweep(self, known: set[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._sweeping = False
        now = loop.time()
        for one in list(known):
            if isinstance(one, Connection) and one.until < now:
                one.transport.abort()
        if known:
            self.watch(known, loop)


class Connection(HttpToolsProtocol):
    """uvicorn's connection, with ``until``: when it has taken too long for what it is doing."""

    def __init__(self, keeper: Keeper, **given: Any) -> None:
        super().__init__(**given)
        self.keeper, self.until = keeper, float("inf")
        self._in_head, self._head_bytes, self._seen, self._too_large = True, 0, 0, False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it, or hang up where all the others are at work."""
        room = self.keeper.make_room(self.connections)
        super().connection_made(transport)
        if not room:
            transport.abort()
            return
        self.keeper.idle[self] = None
        self._allow(REQUEST_SECONDS)
        self.keeper.watch(self.connections, self.loop)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self.keeper.idle.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request. A field that never ends is kept by the parser: so the head is counted here as well."""
        if self._in_head and self._head_bytes > HEAD_BYTES:
            self._refuse_head()
            return
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_head, self._head_bytes, self._seen = True, 0, 0
        self._allow(REQUEST_SECONDS)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A part of the address."""
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """One field."""
        super().on_header(name, value)
        self._count(len(name) + len(value))

    def _count(self, size: int) -> None:
        self._seen += size
        if self._seen > HEAD_BYTES or len(self.headers) > HEAD_FIELDS:
            self._too_large = True
            raise httptools.HttpParserError("the head is too large")

    def on_headers_complete(self) -> None:
        """The head is here."""
        self._in_head = False
        if len(self.pipeline) >= MOST_AHEAD:
            raise httptools.HttpParserError("too many requests ahead of their answers")
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is here: how long the answer takes is ours to say. It may have been answered unread."""
        self._answering()
        if self.until == float("inf"):
            self.keeper.idle.pop(self, None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The answer is on its way; the next request may come."""
        super().on_response_complete()
        if not self.transport.is_closing() and not self.pipeline:
            self.keeper.idle[self] = None
            if not self.flow.write_paused:
                self._allow(KEEP_ALIVE_SECONDS)

    def send_400_response(self, msg: str) -> None:
        """What cannot be read is refused, and what is too large by its own name."""
        if self._too_large:
            self._refuse_head()
        else:
            super().send_400_response(msg)

    def _refuse_head(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def pause_writing(self) -> None:
        """The caller does not read as fast as we write."""
        self._allow(WRITE_SECONDS)
        super().pause_writing()

    def resume_writing(self) -> None:
        """It has."""
        self._answering()
        super().resume_writing()

    def _answering(self) -> None:
        if self.cycle is not None and self.cycle.response_complete:
            self._allow(KEEP_ALIVE_SECONDS)
        else:
            self.until = float("inf")

    def _allow(self, seconds: float) -> None:
        self.until = self.loop.time() + seconds


def bounded(most: int) -> Any:
    """What makes connections, for uvicorn's ``http``: at most so many, and never as many as there are descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < most + RESERVED:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, most + RESERVED), hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return partial(Connection, keeper=Keeper(max(min(most, soft - RESERVED), 1)))
