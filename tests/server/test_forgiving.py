"""What the API holds against nobody: an upload sent again, one that was cut off, and a stranger's."""

from __future__ import annotations

import socket
import time
from urllib.parse import urlsplit

import httpx
import pytest
from tests.server.serving import COLLECTS, Handset, honest_report
from tests.server.stage import NOBODY, Stage

from hushcall.server import metrics
from hushcall.server.rounds import round_status


def test_the_same_report_again_is_no_error_in_any_later_phase(stage: Stage) -> None:
    phone, ticket, body = stage.reported()
    assert phone.report(ticket, body).status_code == 200
    assert phone.report(ticket.upper(), body).status_code == 200
    stage.service.rounds.close(1)
    assert phone.report(ticket, body).status_code == 200
    assert round_status.status(stage.service.store)["reports"] == 1


def test_the_same_announcement_again_gives_the_same_ticket_in_any_later_phase(stage: Stage) -> None:
    phone = stage.phone()
    first = phone.announce()
    assert first.status_code == 201
    stage.at(COLLECTS)
    again = phone.announce()
    assert (again.status_code, again.json()) == (200, first.json())


def test_half_a_report_is_neither_stored_nor_held_against_the_device(stage: Stage) -> None:
    (phone, ticket), _ = stage.collecting()
    body = honest_report(stage.current(), ticket)
    route = "/v1/rounds/{number}/reports/{ticket}"
    head = f"PUT /v1/rounds/1/reports/{ticket} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {phone.token}\r\n"
    hang_up(stage.client, f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:-1], route)
    found = round_status.status(stage.service.store)
    assert (found["reports"], found["refused"]) == (0, {})
    assert phone.report(ticket, body).status_code == 201


def test_a_phone_that_hangs_up_is_no_failure_of_the_server(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    hang_up(stage.client, b'POST /v1/devices HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n{"inv', "/v1/devices")
    assert "request failed" not in caplog.text


def hang_up(client: httpx.Client, request: bytes, route: str) -> None:
    """Send a part of a request, close the connection, and wait until the server has noticed."""
    at = urlsplit(str(client.base_url))
    before = finished(route)
    with socket.create_connection((at.hostname, at.port), timeout=60) as connection:
        connection.sendall(request)
    deadline = time.monotonic() + 60
    while finished(route) == before:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def finished(route: str) -> float:
    samples = (sample for metric in metrics.REQUESTS.collect() for sample in metric.samples)
    return sum(s.value for s in samples if s.name.endswith("_total") and s.labels["route"] == route)


def test_a_stranger_cannot_have_a_round_held(stage: Stage) -> None:
    for _ in range(5):
        assert Handset(stage.client, NOBODY).announce().status_code == 401
    assert round_status.status(stage.service.store)["refused"] == {}
    assert stage.phone().announce(999).status_code == 422
    assert round_status.status(stage.service.store)["refused"] == {"wrong-bucket": 1}
