"""Uploads that arrive while the queue is full are refused at their head, as the framework would, and in order."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest
from tests.server.conftest import MakeService
from tests.server.serving import Handset, serving

from hushcall.server.http import connection, fast_path
from hushcall.server.ingest.ingest import Intake
from hushcall.server.service import Service

TICKET = "0123456789abcdef" * 2
PUT = f"PUT /v1/rounds/1/reports/{TICKET} HTTP/1.1\r\nhost: here\r\n".encode()
POST = b"POST /v1/rounds/1/announcements HTTP/1.1\r\nhost: here\r\n"
REPORT = PUT + b"content-length: 3\r\n\r\nabc"
GET = b"GET /healthz HTTP/1.1\r\nhost: here\r\n\r\n"
FORMS: tuple[tuple[list[bytes], list[bytes], int], ...] = (
    ([REPORT], [b"503"], 1),
    ([POST + b"Content-Length:   2\r\nConnection: keep-alive\r\n\r\n{}"], [b"503"], 1),
    ([PUT.replace(b"abcdef", b"ABCDEF") + b"content-length: 0\r\n\r\n"], [b"503"], 1),
    ([REPORT[:30], REPORT[30:-2], REPORT[-2:]], [b"503"], 1),
    ([PUT + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", b"0\r\n\r\n"], [b"503"], 1),
    ([PUT + b"content-length: 100000\r\n\r\n" + bytes(99_999), b"x" + GET], [b"503", b"200"], 1),
    ([REPORT * 3], [b"503"] * 3, 3),
    ([GET + REPORT + GET], [b"200", b"503", b"200"], 0),
    ([REPORT + GET], [b"503", b"200"], 1),
    ([PUT + b"content-length: 3\r\nexpect: 100-continue\r\n\r\nabc"], [b"503"], 0),
    ([PUT + b"content-length: 3\r\nconnection: close\r\n\r\nabc"], [b"503"], 0),
    ([PUT.replace(b"1.1", b"1.0", 1) + b"content-length: 3\r\n\r\nabc"], [b"503"], 0),
    ([PUT.replace(b" HTTP", b"?a=1 HTTP") + b"content-length: 3\r\n\r\nabc"], [b"503"], 0),
    ([PUT.replace(b"/1/", b"/01/") + b"content-length: 3\r\n\r\nabc"], [b"401"], 0),
    ([PUT.replace(b"PUT", b"POST") + b"content-length: 3\r\n\r\nabc"], [b"405"], 0),
    ([PUT + b"content-length: +3\r\n\r\nabc"], [b"400"], 0),
    ([PUT + b"x: \x00\r\ncontent-length: 3\r\n\r\nabc"], [b"400"], 0),
)
"""What is sent, what is answered, and how many uploads are refused at their head."""


@contextmanager
def crowded(service: Service, monkeypatch: pytest.MonkeyPatch, phones: int = 2) -> Iterator[httpx.Client]:
    """A server whose disk hangs: of the uploads one is being committed, and the others wait."""
    service.rounds.open(service.now)
    accept, hangs, begun = Intake.accept, threading.Event(), threading.Event()

    def slowly(intake: Intake, asked: Any) -> Any:
        begun.set()
        assert hangs.wait(120)
        return accept(intake, asked)

    with serving(service) as client, ExitStack() as stack:
        callers = [Handset.enrolled(client) for _ in range(phones)]
        own = [stack.enter_context(httpx.Client(base_url=client.base_url, timeout=client.timeout)) for _ in callers]
        monkeypatch.setattr(Intake, "accept", slowly)
        answers: list[int] = []

        def announce(phone: Handset, line: httpx.Client) -> None:
            phone.client = line
            answers.append(phone.announce().status_code)

        threads = [threading.Thread(target=announce, args=pair) for pair in zip(callers, own, strict=True)]
        try:
            threads[0].start()
            assert begun.wait(60)
            for thread in threads[1:]:
                thread.start()
            yield client
        finally:
            hangs.set()
            for thread in threads:
                thread.join(60)
    assert answers == [201] * phones, "whoever waited was taken in the end"


def _line(client: httpx.Client) -> socket.socket:
    return socket.create_connection((client.base_url.host, client.base_url.port or 0), timeout=120)


def _answers(line: socket.socket, count: int) -> list[tuple[bytes, dict[bytes, bytes], bytes]]:
    """So many answers: the status, the fields, the body."""
    got, found = b"", list[tuple[bytes, dict[bytes, bytes], bytes]]()
    while len(found) < count:
        head, whole, rest = got.partition(b"\r\n\r\n")
        fields = dict(re.findall(rb"\r\n([^:]+): ([^\r]*)", head))
        if not whole or len(rest) < int(fields[b"content-length"]):
            more = line.recv(1 << 16)
            assert more, got
            got += more
            continue
        length = int(fields[b"content-length"])
        found.append((head[9:12], fields, rest[:length]))
        got = rest[length:]
    assert not got
    return found


def _hung_up_on(line: socket.socket) -> bool:
    try:
        line.sendall(GET)
        return not line.recv(1)
    except ConnectionError:
        return True


def _refused(client: httpx.Client, pieces: list[bytes]) -> tuple[bytes, dict[bytes, bytes], bytes]:
    """What a stranger's upload is told once as many wait as may: until then, that its token is unknown."""
    while True:
        with _line(client) as line:
            for piece in pieces:
                line.sendall(piece)
            (answer,) = _answers(line, 1)
        if answer[0] != b"401":
            return answer


@pytest.fixture
def at_head(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was refused at its head."""
    refusals, refusal = list[bytes](), fast_path.refusal

    def noted(*arguments: Any) -> bytes:
        refusals.append(refusal(*arguments))
        return refusals[-1]

    monkeypatch.setattr(fast_path, "refusal", noted)
    return refusals


def test_it_is_told_what_the_framework_tells(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch, at_head: list[bytes]
) -> None:
    with crowded(make_service(intake={"queue": 1}), monkeypatch) as client:
        short = _refused(client, [REPORT])
        count = len(at_head)
        assert count
        long = _refused(client, [REPORT.replace(b"content-length", b"expect: 100-continue\r\ncontent-length")])
        assert len(at_head) == count, "by the framework"
    for answer in (short, long):
        answer[1].pop(b"date", None)
        assert int(answer[1].pop(b"retry-after")) in range(1, 5)
    assert short == long
    assert short[0] == b"503"


def test_uploads_in_any_form_are_answered_in_order(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch, at_head: list[bytes]
) -> None:
    with crowded(make_service(intake={"queue": 1}), monkeypatch) as client:
        _refused(client, [REPORT])
        for pieces, statuses, count in FORMS:
            at_head.clear()
            with _line(client) as line:
                for piece in pieces:
                    line.sendall(piece)
                assert [status for status, _, _ in _answers(line, len(statuses))] == statuses, pieces
            assert len(at_head) == count, pieces


def test_answers_leave_in_the_order_of_what_was_asked(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "REFUSAL_SECONDS", 3600.0)
    with crowded(make_service(intake={"queue": 1}), monkeypatch) as client:
        _refused(client, [PUT + b"content-length: 3\r\nconnection: close\r\n\r\nabc"])
        with _line(client) as line:
            line.sendall(REPORT)
            line.sendall(GET)
            assert [status for status, _, _ in _answers(line, 2)] == [b"503", b"200"]
            line.sendall(REPORT)
            line.sendall(REPORT + GET)
            assert [status for status, _, _ in _answers(line, 3)] == [b"503", b"503", b"200"]
        with _line(client) as leaves:
            leaves.sendall(REPORT)  # and is gone before it is told
        assert client.get("/healthz").status_code == 200


def test_refusals_are_counted(make_service: MakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    from hushcall.server import metrics

    def counted() -> tuple[float, float]:
        requests = metrics.REQUESTS.labels("/v1/rounds/{number}/reports/{ticket}", 503)
        return requests._value.get(), metrics.REFUSED.labels("busy")._value.get()

    with crowded(make_service(intake={"queue": 1}), monkeypatch) as client:
        _refused(client, [REPORT])
        before = counted()
        with _line(client) as line:
            for _ in range(3):
                line.sendall(REPORT)
                _answers(line, 1)
        assert counted() == (before[0] + 3, before[1] + 3)


def test_when_every_connection_is_at_work_the_next_is_told_so(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        crowded(make_service(server={"connections": 1}), monkeypatch, phones=1) as client,
        _line(client) as line,
    ):
        line.sendall(GET)
        ((status, fields, _),) = _answers(line, 1)
        assert (status, fields[b"connection"]) == (b"503", b"close")
        assert int(fields[b"retry-after"]) in range(1, 5)
        assert line.recv(1) == b"", "and hung up on"
        monkeypatch.setattr(connection, "MAX_EXCESS", 0)
        with _line(client) as other:
            assert _hung_up_on(other)
