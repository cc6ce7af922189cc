"""The relay of Oblivious HTTP (RFC 9458, section 5), which somebody other than the server's operator runs.

It sees addresses and never contents, stores nothing, logs nothing about a request, and passes on no header of a client.
Its limits count hashes of addresses, for a minute, under a key that only this process has. It follows the server by
itself, not when a client asks: so all clients get the same gateway key, and the same log to compare with.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from hushcall.protocol import round_commitment
from hushcall.protocol.anonymity import hpke, ohttp
from hushcall.protocol.blocklist import iso
from hushcall.server.http.limits import RateLimit
from hushcall.server.problems import Problem
from hushcall.server.repeating import Repeating

MAX_BYTES = 1 << 17
"""Of a request. A client's has one kilobyte."""
MAX_ANSWER_BYTES = 64 << 20
"""A list of 400 000 numbers."""
FOLLOW_SECONDS = 300
GATEWAY_PATH = "/.well-known/ohttp-gateway"
CONNECT_SECONDS, READ_SECONDS = 5.0, 20.0


@dataclass(frozen=True, slots=True)
class RelaySettings:
    """``gateway`` is the one address that requests are carried to. The limits are per minute."""

    gateway: str
    per_address: int = 60
    in_all: int = 60_000
    threads: int = 32
    log: Path | None = None


class Follower:
    """Looks at the server as anybody does: the gateway's keys, the round, the list. ``log`` gets each new digest."""

    def __init__(self, settings: RelaySettings, clock: Callable[[], float] = time.time) -> None:
        self.keys = b""
        self._base, self._gateway = settings.gateway.removesuffix(GATEWAY_PATH), settings.gateway
        self._log, self._clock = settings.log, clock
        timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS)
        self.pool = urllib3.PoolManager(maxsize=settings.threads, timeout=timeout, retries=False)
        if self._log is not None:
            self._log.open("ab").close()  # an error at the start where it cannot be written
        entries = map(json.loads, self.log().splitlines())
        self._known = {json.dumps({key: entry[key] for key in entry if key != "at"}) for entry in entries}

    def log(self) -> bytes:
        return self._log.read_bytes() if self._log and self._log.exists() else b""

    def look(self) -> None:
        """What cannot be fetched is looked at again the next time."""
        with suppress(urllib3.exceptions.HTTPError):
            self.keys = self._get(self._gateway) or self.keys
        if self._log is None:
            return
        with suppress(urllib3.exceptions.HTTPError, ValueError, KeyError, TypeError):
            document = json.loads(self._get(f"{self._base}/v1/rounds/current"))
            for part, body in round_commitment.parts(document).items():
                self._append(part, document["round"], round_commitment.digest(body))
        with suppress(urllib3.exceptions.HTTPError, ValueError, KeyError, TypeError):
            signed = json.loads(self._get(f"{self._base}/v1/lists/metadata/timestamp.json"))["signed"]
            snapshot = signed["meta"]["snapshot.json"]
            self._append("snapshot", snapshot["version"], snapshot["hashes"]["sha256"])

    def _append(self, what: str, id_: int, sha256: str) -> None:
        entry = {"id": int(id_), "sha256": str(sha256), "what": what}
        if self._log is None or json.dumps(entry) in self._known:
            return
        line = {"at": iso(int(self._clock())), **entry}
        with self._log.open("ab") as file:
            file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._known.add(json.dumps(entry))

    def _get(self, url: str) -> bytes:
        answer = self.pool.request("GET", url, headers={"User-Agent": "hushcall-relay"}, redirect=False)
        return answer.data if answer.status == 200 else b""


def make_relay(settings: RelaySettings, follower: Follower | None = None) -> ASGIApp:
    following = follower or Follower(settings)
    threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="relay")
    per_address, in_all, key = RateLimit(settings.per_address), RateLimit(settings.in_all), os.urandom(32)

    def carried(body: bytes) -> Response:
        headers = {"Content-Type": ohttp.REQUEST_TYPE, "Accept-Encoding": "identity", "User-Agent": "hushcall-relay"}
        try:
            answer = following.pool.request("POST", settings.gateway, body=body, headers=headers, redirect=False)
        except urllib3.exceptions.HTTPError:
            return _text(502, "The gateway does not answer.")
        if len(answer.data) > MAX_ANSWER_BYTES:
            return _text(502, "The gateway's answer is too long.")
        passed = {"content-type": answer.headers.get("Content-Type", "application/octet-stream")}
        wait = answer.headers.get("Retry-After", "")
        if wait.isdigit() and len(wait) < 6:
            passed["retry-after"] = wait
        return Response(answer.data, answer.status, passed)

    async def relay(scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(ClientDisconnect):
            answer = await answered(Request(scope, receive))
            await answer(scope, receive, send)

    async def read(path: str) -> Response:
        if path == "/healthz":
            return _text(200, "ok\n")
        if path == "/log" and settings.log:
            return Response(following.log(), 200, {"content-type": "application/jsonl"})
        if path != "/":
            return _text(404, "Here are / (the gateway's keys) and /healthz, and /log where one is kept.")
        if not following.keys:
            await asyncio.get_running_loop().run_in_executor(threads, following.look)
        if not following.keys:
            return _text(502, "The gateway does not answer.")
        return Response(following.keys, 200, {"content-type": ohttp.KEYS_TYPE})

    async def answered(request: Request) -> Response:
        if request.method in ("GET", "HEAD"):
            return await read(request.url.path)
        if request.method != "POST":
            return _text(405, "Sealed requests are posted here.")
        address = request.client.host if request.client else ""
        try:
            per_address.check(hashlib.blake2b(address.encode(), key=key, digest_size=16).digest())
            in_all.check(b"")
        except Problem:
            return _text(429, "Too many requests.", {"retry-after": "60"})
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BYTES:
                return _text(413, "This is no sealed request of RFC 9458.")
        if len(body) < ohttp.REQUEST_OVERHEAD or body[1:3] != hpke.KEM_ID.to_bytes(2, "big"):
            return _text(400, "This is no sealed request of RFC 9458.")
        return await asyncio.get_running_loop().run_in_executor(threads, carried, body)

    return relay


def _text(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    return Response(text, status, {"content-type": "text/plain", **(headers or {})})


def server_options(settings: RelaySettings, follower: Follower | None = None) -> dict[str, Any]:
    quiet: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False}
    return {"app": make_relay(settings, follower), "lifespan": "off", **quiet}


def run(settings: RelaySettings, host: str, port: int) -> None:
    """Run until SIGINT or SIGTERM. Nothing is logged about requests, on purpose."""
    follower = Follower(settings)

    def follow() -> None:
        with suppress(OSError):  # a full disk: what was not logged is looked at again
            follower.look()

    Repeating(follow, FOLLOW_SECONDS, "follow").start()
    uvicorn.run(**server_options(settings, follower), host=host, port=port)
