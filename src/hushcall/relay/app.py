"""A relay of Oblivious HTTP (RFC 9458, section 5): phones' sealed bytes come in and leave to one gateway.

It sees addresses and never contents; the gateway the other way round. Stateless: nothing is stored, nothing is logged
about a request, and the limiter remembers, for a minute, keyed hashes of addresses under a key that only this process
has. No header of a phone is passed on.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import urllib3
from starlette.types import ASGIApp, Receive, Scope, Send

from hushcall.anonymity import hpke, ohttp

MOST_BYTES = 1 << 17
"""Of a request; a phone's has one kilobyte."""
MOST_ANSWER = 4 << 20
CONNECT_SECONDS, READ_SECONDS = 5.0, 20.0


@dataclass(frozen=True, slots=True)
class RelaySettings:
    """``gateway`` is the one address that anything is carried to; the limits are per minute."""

    gateway: str
    per_address: int = 60
    in_all: int = 60_000
    threads: int = 32


@dataclass(slots=True)
class Limiter:
    """Counts requests a minute; forgets everything when the minute is over."""

    settings: RelaySettings
    key: bytes = field(default_factory=lambda: os.urandom(32), repr=False)
    minute: int = 0
    total: int = 0
    seen: dict[bytes, int] = field(default_factory=dict, repr=False)

    def allows(self, address: str, seconds: float) -> bool:
        """Whether this one may pass. ``seconds`` is a clock that never goes back."""
        if int(seconds) // 60 != self.minute:
            self.minute, self.total, self.seen = int(seconds) // 60, 0, {}
        name = hashlib.blake2b(address.encode(), key=self.key, digest_size=16).digest()
        count = self.seen[name] = self.seen.get(name, 0) + 1
        self.total += 1
        return count <= self.settings.per_address and self.total <= self.settings.in_all


@dataclass(frozen=True, slots=True)
class _Said:
    status: int
    body: bytes = b""
    kind: str = "text/plain"
    retry_after: int = 0


def make_relay(settings: RelaySettings) -> ASGIApp:
    """The application. One POST address; ``GET /healthz`` for those who watch it."""
    pool = urllib3.PoolManager(
        num_pools=1,
        maxsize=settings.threads,
        timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
        retries=False,
    )
    threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="relay")
    limiter = Limiter(settings)

    def carried(body: bytes) -> _Said:
        headers = {"Content-Type": ohttp.REQUEST_TYPE, "Accept-Encoding": "identity", "User-Agent": "hushcall-relay"}
        try:
            answer = pool.request("POST", settings.gateway, body=body, headers=headers, redirect=False)
        except urllib3.exceptions.HTTPError:
            return _Said(502, b"The gateway does not answer.")
        if len(answer.data) > MOST_ANSWER:
            return _Said(502, b"The gateway's answer is too long.")
        wait = answer.headers.get("Retry-After", "")
        kind = answer.headers.get("Content-Type", "application/octet-stream")
        return _Said(answer.status, answer.data, kind, int(wait) if wait.isdigit() and len(wait) < 6 else 0)

    async def relay(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            await _say(send, await answered(scope, receive))

    async def answered(scope: Scope, receive: Receive) -> _Said:
        if scope["method"] in ("GET", "HEAD") and scope["path"] == "/healthz":
            return _Said(200, b"ok\n")
        if scope["method"] != "POST":
            return _Said(405, b"Sealed requests are posted here.")
        address = scope["client"][0] if scope.get("client") else ""
        if not limiter.allows(address, time.monotonic()):
            return _Said(429, b"Too many requests.", retry_after=60)
        body = await _body(receive)
        if body is None or len(body) < ohttp.REQUEST_OVERHEAD or body[1:3] != hpke.KEM_ID.to_bytes(2, "big"):
            return _Said(400 if body is not None else 413, b"This is no sealed request of RFC 9458.")
        return await asyncio.get_running_loop().run_in_executor(threads, carried, body)

    return relay


async def _body(receive: Receive) -> bytes | None:
    """What was sent; None where it is too long."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        body, more = body + message.get("body", b""), message.get("more_body", False)
        if len(body) > MOST_BYTES:
            return None
    return body


async def _say(send: Send, said: _Said) -> None:
    headers = [(b"content-type", said.kind.encode()), (b"content-length", str(len(said.body)).encode())]
    if said.retry_after:
        headers.append((b"retry-after", str(said.retry_after).encode()))
    await send({"type": "http.response.start", "status": said.status, "headers": headers})
    await send({"type": "http.response.body", "body": said.body})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
