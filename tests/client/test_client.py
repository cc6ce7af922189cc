"""The HTTP form of the protocol: retries, errors in words, and answers that cannot be trusted."""

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.client.fake_server import DAY, START, FakeService, over_http

from hushcall.client.reporting import transport
from hushcall.client.reporting.transport import Enrolment, HttpTransport, checked_url
from hushcall.errors import HushcallError, InvalidParameter, Refused, Unreachable, WrongServer
from hushcall.protocol.round_document import RoundInfo


@pytest.fixture
def service() -> FakeService:
    return FakeService(lambda: START + 10)


@pytest.fixture
def server(service: FakeService) -> Iterator[HttpTransport]:
    with over_http(service) as url:
        yield HttpTransport(url, HttpTransport(url).enrol("CODE").token, sleep=lambda _: None)


def test_the_three_calls(server: HttpTransport, service: FakeService) -> None:
    info = server.current_round()
    assert (info.round, info.state, info.closes) == (1, "announcing", START + DAY)
    ticket = server.announce(1, 202)
    assert ticket == server.announce(1, 202) == service.tickets[1, 1][1]
    service.state = "collecting"
    server.send(1, ticket, b"\x01\x04\x05")
    server.send(1, ticket, b"\x01\x04\x05")
    with pytest.raises(Refused, match="different-report"):
        server.send(1, ticket, b"\x01\x04\x06")


def test_a_problem_keeps_its_type_and_says_what_to_do(server: HttpTransport) -> None:
    stranger = HttpTransport(server.url, "nonsense")
    with pytest.raises(Refused) as caught:
        stranger.announce(1, 202)
    assert (caught.value.problem, caught.value.status, caught.value.todo) == ("unknown-token", 401, "Enrol again.")


def test_busy_answers_are_tried_again_within_reason(server: HttpTransport, service: FakeService) -> None:
    service.problems = [Refused("busy", 503, "full"), Refused("too-many", 429, "slower")]
    assert server.current_round().round == 1
    service.problems = [Refused("busy", 503, "full")] * transport.ATTEMPTS
    with pytest.raises(Refused, match="busy"):
        server.current_round()
    assert service.problems == []


@pytest.mark.parametrize(("header", "pauses"), [("2", [2.0, 2.0, 2.0]), ("", [1.0, 2.0, 4.0]), ("100000", [])])
def test_the_server_may_ask_for_patience_but_not_for_a_day(header: str, pauses: list[float]) -> None:
    slept: list[float] = []
    head = f"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\nRetry-After: {header}\r\n\r\n"
    with raw_server(head.encode()) as url, pytest.raises(Refused):
        HttpTransport(url, sleep=slept.append).current_round()
    assert slept == pauses


def answer(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    "reply",
    [
        answer(b"not json"),
        answer(b"[]"),
        answer(b"{}"),
        answer(b"[" * 100_000),
        answer(b"<html>", "302 Found"),
        answer(b"\xff\xfe", "500 Oops"),
        b"nonsense\r\n\r\n",
        b"",
    ],
    ids=["text", "list", "empty", "deep", "redirect", "500", "no http", "hang up"],
)
def test_nonsense_from_a_server_is_an_error_of_ours(reply: bytes) -> None:
    with raw_server(reply) as url, pytest.raises(HushcallError):
        HttpTransport(url, sleep=lambda _: None).current_round()


def test_a_server_that_moved_is_not_followed_but_its_new_address_is_told() -> None:
    reply = b"HTTP/1.1 301 Moved\r\nLocation: https://new.example/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with raw_server(reply) as url, pytest.raises(Refused, match=r"moved: https://new\.example/ Give the new"):
        HttpTransport(url).current_round()


def test_a_servers_words_cannot_steer_a_terminal() -> None:
    problem = json.dumps({"type": "urn:x:\x1b[2Jodd", "detail": "a\nb\x1b[31mc\u202e", "todo": "\x07"}).encode()
    with raw_server(answer(problem, "403 No")) as url, pytest.raises(Refused) as caught:
        HttpTransport(url).current_round()
    assert str(caught.value).isprintable()
    assert caught.value.detail == "a b [31mc "


def test_an_endless_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_BYTES", 1000)
    with raw_server(answer(b"{" + b" " * 5000 + b"}")) as url, pytest.raises(WrongServer):
        HttpTransport(url).current_round()


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Unreachable, match="does not answer"):
            HttpTransport(url).current_round()


@pytest.mark.parametrize("url", ["", "ftp://a", "calls.example", "http://", "http://a:x", "http://u:p@a", "http://a?b"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(InvalidParameter, match="server must be an address"):
        checked_url(url)


def test_a_token_is_never_shown() -> None:
    assert "secret" not in repr(Enrolment(3, "secret"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("round", -1),
        ("round", "1"),
        ("state", "asleep"),
        ("seed", "00"),
        ("seed", None),
        ("window", 0),
        ("window", 10**9),
        ("opens", "yesterday"),
        ("closes", "1999-01-01T00:00:00Z"),
        ("profile", None),
        ("profile", {"mechanism": "subspace", "epsilon": -1}),
        ("profile", {"mechanism": "subspace", "epsilon": 40.1}),
        ("profile", {"mechanism": "subspace", "epsilon": 10**400}),  # a whole number that is no float
        ("buckets", [1]),
    ],
)
def test_a_round_that_breaks_the_rules_is_refused(service: FakeService, field: str, value: Any) -> None:
    with pytest.raises(InvalidParameter):
        RoundInfo.from_plain(service.document() | {field: value})
    document = service.document()
    del document[field]
    with pytest.raises(InvalidParameter):
        RoundInfo.from_plain(document)


def test_buckets_that_do_not_run_have_no_parameters(service: FakeService) -> None:
    service.state, service.skip = "collecting", frozenset({203})
    info = RoundInfo.from_plain(json.loads(json.dumps(service.document())))
    assert info.parameters_for(202) is not None
    assert info.parameters_for(203) is None
    assert info.parameters_for(999) is None


class raw_server:  # noqa: N801  (used like a function)
    """Answers every connection with the same bytes."""

    def __init__(self, reply: bytes) -> None:
        self.reply = reply
        self.socket = socket.create_server(("127.0.0.1", 0))

    def __enter__(self) -> str:
        threading.Thread(target=self._serve, daemon=True).start()
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                connection.recv(65_536)
                connection.sendall(self.reply)
