"""Callers that send too much, too slowly, nothing at all, or do not read: each is bounded, and phones are served."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest
from tests.server.conftest import MakeService
from tests.server.serving import Handset, serving

from hushcall.server.http import connection
from hushcall.server.http.limits import ReadThrottle
from hushcall.server.http.middleware import PIECE_BYTES, RequestMiddleware

GET = b"GET /healthz HTTP/1.1\r\nhost: here\r\n"
CHUNKED = b"POST /v1/devices HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n"


@contextmanager
def _raw(client: httpx.Client, said: bytes = b"") -> Iterator[socket.socket]:
    with socket.create_connection((client.base_url.host, client.base_url.port or 0), timeout=300) as raw:
        raw.sendall(said)
        yield raw


def _answer(raw: socket.socket) -> bytes:
    """Everything until the server hangs up."""
    got = b""
    try:
        while more := raw.recv(1 << 16):
            got += more
    except ConnectionResetError:
        pass
    return got


def _flood(raw: socket.socket, piece: bytes, times: int) -> int:
    """How many pieces were taken until the server hung up."""
    for place in range(times):
        try:
            raw.sendall(piece)
        except OSError:
            return place
    return times


@pytest.mark.parametrize(
    "head",
    [
        GET + b"".join(b"x-%d: 1\r\n" % place for place in range(connection.HEAD_FIELDS + 1)) + b"\r\n",
        GET + b"x: " + b"y" * connection.HEAD_BYTES + b"\r\n\r\n",
        b"GET /" + b"y" * connection.HEAD_BYTES + b" HTTP/1.1\r\nhost: here\r\n\r\n",
    ],
    ids=["fields", "a field", "the address"],
)
def test_a_head_that_is_too_large_is_refused(client: httpx.Client, head: bytes) -> None:
    with _raw(client, head) as raw:
        assert _answer(raw).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("piece", [b"x-y: " + b"z" * 60 + b"\r\n", b"z" * 1000], ids=["fields", "a field"])
@pytest.mark.parametrize("start", [GET + b"x: ", CHUNKED + b"0\r\nx: "], ids=["a head", "a trailer"])
def test_a_head_that_never_ends_is_not_kept(client: httpx.Client, start: bytes, piece: bytes) -> None:
    with _raw(client, start) as raw:
        many = 50_000_000 // len(piece)
        assert _flood(raw, piece * 100, many // 100) < many // 100, "50 MB were not taken"
    assert client.get("/healthz").status_code == 200


def test_usual_heads_are_taken(client: httpx.Client) -> None:
    headers = {f"x-{place}": "y" * 200 for place in range(50)}
    assert client.get("/healthz", headers=headers).status_code == 200


def test_idle_connections_make_room_for_phones(make_service: MakeService) -> None:
    service = make_service(server={"connections": 8})
    service.rounds.open(service.now)
    with serving(service) as client, ExitStack() as stack:

        def come() -> httpx.Client:
            """With a connection of its own: one that was idle may be on its way out, which its owner cannot know."""
            return stack.enter_context(httpx.Client(base_url=client.base_url, timeout=client.timeout))

        quiet = [stack.enter_context(_raw(client, b"GET / HT")) for _ in range(30)]
        phone = Handset.enrolled(come())
        assert phone.announce().status_code == 201
        assert _answer(quiet[0]) == b"", "the one that had been idle for longest is gone"
        others = [stack.enter_context(_raw(client)) for _ in range(30)]
        assert come().get("/readyz").status_code == 200
        assert _answer(others[0]) == b""


def test_who_is_at_work_is_not_sent_away() -> None:
    limit = connection.ConnectionLimit(2)
    assert not limit.make_room(2)
    assert limit.make_room(1)


def test_a_request_that_does_not_end_is_ended(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REQUEST_SECONDS", 0.2)
    monkeypatch.setattr(connection, "SWEEP_SECONDS", 0.05)
    with (
        _raw(client) as silent,
        _raw(client, GET) as head,
        _raw(client, b"POST /v1/devices HTTP/1.1\r\nhost: here\r\ncontent-length: 9\r\n\r\n{") as body,
    ):
        assert [_answer(raw) for raw in (silent, head, body)] == [b"", b"", b""]
    monkeypatch.setattr(connection, "REQUEST_SECONDS", 20.0)
    assert client.get("/healthz").status_code == 200


def test_a_caller_that_does_not_read_is_sent_away(make_service: MakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    service = make_service()
    with serving(service) as client:
        service.store.change_files(lambda _: {"targets/large": bytes(16 << 20)})
        gone, lost = threading.Event(), connection.Connection.connection_lost

        def noticed(one: connection.Connection, error: Exception | None) -> None:
            lost(one, error)
            gone.set()

        monkeypatch.setattr(connection.Connection, "connection_lost", noticed)
        monkeypatch.setattr(connection, "WRITE_SECONDS", 0.2)
        monkeypatch.setattr(connection, "SWEEP_SECONDS", 0.05)
        with _raw(client, b"GET /v1/lists/targets/large HTTP/1.1\r\nhost: here\r\n\r\n") as raw:
            assert gone.wait(60)
            assert len(_answer(raw)) < 16 << 20, "what was on its way, and no more"


def test_requests_by_the_thousand_without_waiting_for_answers_are_refused(client: httpx.Client) -> None:
    with _raw(client, (GET + b"\r\n") * 2000) as raw:
        got = _answer(raw)
    assert got.count(b"HTTP/1.1 200 ") < 100
    assert b"HTTP/1.1 400 " in got


def test_a_long_answer_leaves_in_pieces() -> None:
    data = bytes(range(256)) * 1024

    async def app(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": data})

    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    scope = {"type": "http", "method": "GET", "headers": [], "path": "/"}
    asyncio.run(RequestMiddleware(app, ReadThrottle(), 1000)(scope, receive, send))
    bodies = [message["body"] for message in sent[1:]]
    assert b"".join(bodies) == data
    assert max(len(body) for body in bodies) == PIECE_BYTES
    assert [message["more_body"] for message in sent[1:]] == [True] * 3 + [False]


def test_what_can_be_got_can_be_asked_about(client: httpx.Client) -> None:
    for path in ("/", "/healthz", "/readyz", "/v1/lists/root.json", "/docs", "/v1/rounds/current", "/nothing"):
        got, asked = client.get(path), client.head(path)
        assert (asked.status_code, asked.content) == (got.status_code, b"")
        assert asked.headers["content-type"] == got.headers["content-type"]
        if path != "/":
            assert asked.headers["content-length"] == str(len(got.content))
    assert client.head("/v1/devices").status_code == 405


def test_connections_are_kept_for_longer_than_a_proxy_keeps_them(client: httpx.Client) -> None:
    del client
    assert connection.KEEP_ALIVE_SECONDS > 60
