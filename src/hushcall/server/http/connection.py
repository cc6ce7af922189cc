"""One connection, within bounds: how much a head may hold, how long a caller may take, how many there may be.

The server beneath (uvicorn) bounds none of them: heads grow in memory, a caller that says nothing stays, and so does
one that does not read. Here a head has so many bytes and fields, a request arrives within so many seconds, an answer is
taken off our hands within so many, and when there are as many connections as there may be, the one that has been idle
for longest makes room: an honest phone is never idle for long. Where all are at work a few more are told when to come
back, as uploads are while too many wait (``shedding``). Descriptors are left over for the database, the scheduler and
the decoders.
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

from hushcall.server.http.shedding import Shedding
from hushcall.server.intake.group_commit import REFUSAL_SECONDS

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
RESERVED = 192
"""Descriptors that are not for connections."""
SCARCE = 0.9
"""Share of the connections up to which whoever is refused waits to hear of it: nothing makes refusals as cheap."""
SPARE, SPARE_SECONDS = 64, 2.0
"""Of those, for callers that come when all connections are at work, to be told so; and for how long they may take."""
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


@dataclass
class Keeper:
    """Knows the connections of a process: which are idle, longest first, and which take too long."""

    most: int
    idle: dict[Connection, None] = field(default_factory=dict)
    spare: set[Connection] = field(default_factory=set)
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

    def scarce(self, known: set[Any]) -> bool:
        """Whether so many are taken that none is kept for longer than it must."""
        return len(known) > SCARCE * self.most

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
        self._between = True  # no request has begun that has not ended
        self._refusal = b""  # what is about to be said to an upload
        self.shedding: Shedding | None = getattr(getattr(self.app, "state", None), "shedding", None)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it; where all the others are at work it is told so when it says something, if it is one of a few."""
        room = self.keeper.make_room(self.connections)
        super().connection_made(transport)
        self.keeper.watch(self.connections, self.loop)
        if room:
            self.keeper.idle[self] = None
            self._allow(REQUEST_SECONDS)
        elif self.shedding is not None and len(self.keeper.spare) < SPARE:
            self.keeper.spare.add(self)
            self._allow(SPARE_SECONDS)
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self.keeper.idle.pop(self, None)
        self.keeper.spare.discard(self)
        self._refusal = b""
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request. A field that never ends is kept by the parser: so the head is counted here as well."""
        if self._refusal:
            self._refuse()  # before whatever comes next
        if self._turned_away(data):
            return
        if self._in_head and self._head_bytes > HEAD_BYTES:
            self._refuse_head()
            return
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)

    def _turned_away(self, data: bytes) -> bool:
        """Whether nothing is to be made of these bytes: there is no room for their connection, or for an upload."""
        if self.shedding is None:
            return False
        if self in self.keeper.spare:
            if not self.transport.is_closing():
                self.transport.write(self.shedding.no_room())
                self.transport.close()
            return True
        answered = self.cycle is None or self.cycle.response_complete
        if not (self._between and answered) or self.flow.write_paused:
            return False
        refusal = self.shedding.refusal(data)
        if refusal is None:
            return False
        self._unset_keepalive_if_required()
        self.keeper.idle.pop(self, None)
        self.until, self._refusal = float("inf"), refusal
        if self.keeper.scarce(self.connections):
            self._refuse()
        else:
            self.loop.call_later(REFUSAL_SECONDS, self._refuse)
        return True

    def _refuse(self) -> None:
        """Say that an upload was not taken. Not at once, where there is room: who asks again at once takes time.

        Whoever says something else meanwhile hears of it then: what comes from the timer finds nothing to say.
        """
        refusal, self._refusal = self._refusal, b""
        if refusal and not self.transport.is_closing():
            self.keeper.idle[self] = None
            self._allow(KEEP_ALIVE_SECONDS)
            self.transport.write(refusal)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._between = False
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
        self._between = True
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
