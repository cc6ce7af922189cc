"""Limits of HTTP connections: size of a head, time for each step, number of connections. uvicorn bounds none of them.

An upload that arrives while the queue is full is refused here, when its head is parsed, with a prebuilt answer: that
takes a fifth of the processor time of an upload.
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

from hushcall.server.http import fast_path
from hushcall.server.http.context import Context
from hushcall.server.ingest.group_commit import REFUSAL_SECONDS

HEAD_BYTES = 1 << 14
HEAD_FIELDS = 64
REQUEST_SECONDS = 20.0
"""From the connection, or the first byte of a request, to its last byte. Uploads have a few hundred."""
MAX_AHEAD = 16
"""Requests that may be sent before the answer to the first one."""
WRITE_SECONDS = 30.0
"""For a piece of an answer, 64 KB (``middleware``): slower than 2 KB a second is no connection."""
KEEP_ALIVE_SECONDS = 75
"""Longer than a proxy keeps its connections (nginx: 60): otherwise it would send into one that is being closed."""
SWEEP_SECONDS = 1.0
RESERVED_DESCRIPTORS = 192
"""For the database, the scheduler and the decoders."""
SCARCE = 0.9
"""Share of the connections beyond which a refusal is sent without delay."""
MAX_EXCESS, EXCESS_SECONDS = 64, 2.0
"""Connections beyond the limit that are answered 503 before they are closed, and the time that each may take."""
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_NEVER = float("inf")


@dataclass
class ConnectionLimit:
    """The connections of a process: which are idle, longest first, and which came beyond the limit."""

    max_connections: int
    idle: dict[Connection, None] = field(default_factory=dict)
    excess: set[Connection] = field(default_factory=set)
    sweeping: bool = False

    def make_room(self, count: int) -> bool:
        """Whether one more may join ``count`` connections. Closes the longest idle one if there are too many."""
        if count < self.max_connections:
            return True
        oldest = next(iter(self.idle), None)
        if oldest is None:
            return False
        self.idle.pop(oldest)
        oldest.transport.abort()
        return True


class Connection(HttpToolsProtocol):
    """uvicorn's connection with limits. It is closed when ``deadline`` has passed."""

    def __init__(self, limit: ConnectionLimit, **options: Any) -> None:
        super().__init__(**options)
        self.limit, self.deadline = limit, _NEVER
        self._unparsed_bytes, self._head_bytes, self._too_large = 0, 0, False
        self._skips_body = False
        self._refusal = b""  # waits to be sent
        self.context: Context = self.app.state.context

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        room = self.limit.make_room(len(self.connections))
        super().connection_made(transport)
        self._sweep_later()
        if room:
            self.limit.idle[self] = None
            self._allow(REQUEST_SECONDS)
        elif len(self.limit.excess) < MAX_EXCESS:
            self.limit.excess.add(self)
            self._allow(EXCESS_SECONDS)
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.limit.idle.pop(self, None)
        self.limit.excess.discard(self)
        self._refusal = b""
        super().connection_lost(exc)

    def shutdown(self) -> None:
        self._send_refusal()
        super().shutdown()

    def _sweep_later(self) -> None:
        if not self.limit.sweeping:
            self.limit.sweeping = True
            self.loop.call_later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        self.limit.sweeping = False
        now = self.loop.time()
        for connection in list(self.connections):
            if isinstance(connection, Connection) and connection.deadline < now:
                connection.transport.abort()
        if self.connections:
            self._sweep_later()

    def data_received(self, data: bytes) -> None:
        if self in self.limit.excess:
            self._send_last(fast_path.busy_bytes(self.context, close=True))
            return
        # The parser keeps a field that does not end: so bytes are counted since its last step.
        if self._unparsed_bytes > HEAD_BYTES:
            self._send_last(_TOO_LARGE)
            return
        self._unparsed_bytes += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._send_refusal()
        self._unparsed_bytes = self._head_bytes = 0
        self._skips_body = False
        self._allow(REQUEST_SECONDS)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._head_bytes += len(name) + len(value)
        self._check_head()

    def _check_head(self) -> None:
        if self._head_bytes > HEAD_BYTES or len(self.headers) > HEAD_FIELDS:
            self._too_large = True
            raise httptools.HttpParserError("the head is too large")

    def on_headers_complete(self) -> None:
        self._head_bytes += len(self.url)
        self._check_head()
        if len(self.pipeline) >= MAX_AHEAD:
            raise httptools.HttpParserError("too many requests ahead of their answers")
        if not self._refuse_upload():
            super().on_headers_complete()

    def _refuse_upload(self) -> bool:
        """Refuse an upload if the queue is full. What ends its connection, or may, goes the usual way."""
        if not self.context.queue.full or self.flow.write_paused or not self._answered():
            return False
        if self.expect_100_continue or self.parser.should_upgrade() or not self.parser.should_keep_alive():
            return False
        route = fast_path.upload_route(self.parser.get_method().decode(), self.url.decode("latin-1"))
        if route is None:
            return False
        self._skips_body, self._refusal = True, fast_path.refusal(self.context, route)
        return True

    def on_body(self, body: bytes) -> None:
        self._unparsed_bytes = 0
        if not self._skips_body:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._skips_body:
            self._await_answer()
            super().on_message_complete()
            return
        self.deadline = _NEVER
        self.limit.idle.pop(self, None)
        if len(self.connections) > SCARCE * self.limit.max_connections:
            self._send_refusal()
        else:
            self.loop.call_later(REFUSAL_SECONDS, self._send_refusal)

    def _send_refusal(self) -> None:
        refusal, self._refusal = self._refusal, b""
        if refusal and not self.transport.is_closing():
            self._rest()
            self.transport.write(refusal)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and not self.pipeline:
            self._rest()

    def send_400_response(self, msg: str) -> None:
        if self._too_large:
            self._send_last(_TOO_LARGE)
        else:
            super().send_400_response(msg)

    def _send_last(self, answer: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()

    def pause_writing(self) -> None:
        self._allow(WRITE_SECONDS)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._await_answer()
        super().resume_writing()

    def _answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _await_answer(self) -> None:
        """How long the application takes is not the client's fault. It may have answered a request unread."""
        if self._answered():
            self._allow(KEEP_ALIVE_SECONDS)
        else:
            self.deadline = _NEVER
            self.limit.idle.pop(self, None)

    def _rest(self) -> None:
        self.limit.idle[self] = None
        if not self.flow.write_paused:
            self._allow(KEEP_ALIVE_SECONDS)

    def _allow(self, seconds: float) -> None:
        self.deadline = self.loop.time() + seconds


def limited(max_connections: int) -> Any:
    """The connection class for uvicorn's ``http``: at most so many, and never as many as there are descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = max_connections + RESERVED_DESCRIPTORS
    if soft < needed:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, needed), hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return partial(Connection, limit=ConnectionLimit(max(min(max_connections, soft - RESERVED_DESCRIPTORS), 1)))
