"""A server as the protocol describes it, in memory and over HTTP on loopback: what the phone's tests speak to.

It keeps every request it was sent, and every different report it was offered for a ticket, taken or refused.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from hushcall.errors import Refused
from hushcall.mechanisms.parameters import to_plain
from hushcall.mechanisms.registry import MECHANISMS
from hushcall.protocol.blocklist import iso
from hushcall.protocol.numbers import NANP
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.seeds import derive
from hushcall.protocol.wire import COVER

DAY = 86_400
START = 20_000 * DAY


@dataclass(frozen=True)
class Request:
    """What an eavesdropper sees of one request."""

    device: int
    method: str
    path: str
    size: int
    at: int


@dataclass
class FakeService:
    """Rounds of a day by ``clock``; ``state`` forces one where a test drives the rounds by hand."""

    clock: Callable[[], float]
    epsilon: float = 4.0
    mechanism: str = "subspace"
    length: int = DAY
    window: int = 7
    state: str = ""
    round: int | None = None
    skip: frozenset[int] = frozenset()
    parameters: dict[str, Any] | None = None
    changes: dict[str, Any] = field(default_factory=dict)  # what a server that lies puts into its document
    tickets: dict[tuple[int, int], tuple[int, str]] = field(default_factory=dict)
    reports: dict[tuple[int, str], bytes] = field(default_factory=dict)
    offered: dict[tuple[int, str], set[bytes]] = field(default_factory=dict)
    covers: list[tuple[int, str, bytes]] = field(default_factory=list)  # thrown away unread: kept here for tests
    requests: list[Request] = field(default_factory=list)
    on_report: Callable[[int], None] = lambda _: None
    problems: list[Refused] = field(default_factory=list)  # refusals to answer with first

    def document(self) -> dict[str, Any]:
        now = int(self.clock())
        place, into = divmod(now - START, self.length)
        number, opens = (place + 1 if self.round is None else self.round), now - into
        collects = opens + self.length // 2
        state = self.state or ("announcing" if now < collects else "collecting")
        profile = {"name": "test", "mechanism": self.mechanism, "epsilon": self.epsilon, "tau": 10, "level": 0.001}
        found = {
            "round": number,
            "state": state,
            "opens": iso(opens),
            "collects": iso(collects),
            "closes": iso(opens + self.length),
            "server_time": iso(now),
            "seed": derive("test round", str(number).encode()).hex(),
            "plan": NANP.name,
            "window": self.window,
            "profile": profile,
            "buckets": None if state == "announcing" else self._buckets(),
        }
        return found | self.changes

    def announce(self, device: int, round_: int, bucket: int) -> str:
        self._refuse()
        if self._state(round_) != "announcing":
            raise Refused("wrong-phase", 409, "not announcing")
        known = self.tickets.get((round_, device))
        if known is None:
            known = bucket, derive("ticket", str((round_, device)).encode())[:16].hex()
            self.tickets[round_, device] = known
        if known[0] != bucket:
            raise Refused("already-announced", 409, "another bucket")
        return known[1]

    def send(self, device: int, round_: int, ticket: str, report: bytes) -> None:
        self._refuse()
        bucket, known = self.tickets.get((round_, device), (0, ""))
        if ticket == known and (bucket in self.skip or report.startswith(COVER)):
            self.covers.append((round_, ticket, report))
            return
        self.offered.setdefault((round_, ticket), set()).add(report)
        self.on_report(round_)
        if self._state(round_) != "collecting":
            raise Refused("wrong-phase", 409, "not collecting")
        if self.tickets.get((round_, device), (0, ""))[1] != ticket:
            raise Refused("unknown-ticket", 404, "no such ticket")
        if self.reports.setdefault((round_, ticket), report) != report:
            raise Refused("different-report", 409, "other bytes")

    def _state(self, round_: int) -> str:
        found = self.document()
        return str(found["state"]) if found["round"] == round_ else "closed"

    def _refuse(self) -> None:
        if self.problems:
            raise self.problems.pop(0)

    def _buckets(self) -> dict[str, Any]:
        spec = MECHANISMS["whole-number" if self.mechanism == "whole-number" else "subspace"]
        parameters = to_plain(spec.client(self.epsilon, 7, spec.items.bits(NANP)))
        runs = {"runs": True, "report_bytes": 3, "parameters": self.parameters or parameters}
        areas = MECHANISMS[self.mechanism].items.buckets(NANP)
        return {str(area): {"runs": False} if area in self.skip else runs for area in areas}


@dataclass
class FakeServer:
    """One phone's view of the service: what ``Client`` is given."""

    service: FakeService
    device: int = 1
    url: str = "fake://server"

    def current_round(self) -> RoundInfo:
        self._seen("GET", "/v1/rounds/current", b"")
        return RoundInfo.from_plain(self.service.document())

    def announce(self, round_: int, bucket: int) -> str:
        self._seen("POST", f"/v1/rounds/{round_}/announcements", json.dumps({"bucket": bucket}).encode())
        return self.service.announce(self.device, round_, bucket)

    def send(self, round_: int, ticket: str, report: bytes) -> None:
        self._seen("PUT", f"/v1/rounds/{round_}/reports/", report)
        self.service.send(self.device, round_, ticket, report)

    def _seen(self, method: str, path: str, body: bytes) -> None:
        self.service.requests.append(Request(self.device, method, path, len(body), int(self.service.clock())))


@contextmanager
def over_http(service: FakeService) -> Iterator[str]:
    """The service on loopback; gives its address. Device n has the token ``hcd_n``."""
    devices = iter(range(1, 1 << 30))
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            if len(body) < length:  # the client died between its headers and its body: this is no request
                self.close_connection = True
                return
            try:
                with lock:
                    status, answer = self.answer_to(body)
            except Refused as refusal:
                status = refusal.status
                answer = {
                    "type": f"urn:hushcall:problem:{refusal.problem}",
                    "title": refusal.problem,
                    "status": status,
                    "detail": refusal.detail,
                    "todo": refusal.todo,
                }
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            if status in (429, 503):
                self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = handle_any  # noqa: N815

        def answer_to(self, body: bytes) -> tuple[int, Any]:
            parts = self.path.strip("/").split("/")
            token = self.headers.get("Authorization", "").removeprefix("Bearer hcd_")
            match self.command, parts:
                case "POST", ["v1", "devices"]:
                    device = next(devices)
                    return 201, {"device": device, "token": f"hcd_{device}"}
                case "GET", ["v1", "rounds", "current"]:
                    service._refuse()
                    return 200, service.document()
            if not token.isdigit():
                raise Refused("unknown-token", 401, "no such token", "Enrol again.")
            match self.command, parts:
                case "POST", ["v1", "rounds", number, "announcements"]:
                    bucket = json.loads(body)["bucket"]
                    ticket = service.announce(int(token), int(number), bucket)
                    return 201, {"round": int(number), "bucket": bucket, "ticket": ticket}
                case "PUT", ["v1", "rounds", number, "reports", ticket]:
                    service.send(int(token), int(number), ticket, body)
                    return 201, {}
            raise Refused("not-found", 404, "no such thing")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that was killed mid-request is what some tests are about."""

    server = Quiet(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
