"""Everything the API refuses, over real HTTP: each problem has its own type and status, and repeats nothing."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import CLOSES, COLLECTS, SPAM, Clock, Handset, bearer, honest_report, operator_token, serving

from hushcall.server import metrics, schema, standing
from hushcall.server.intake import Announce, Answer, Intake, Upload
from hushcall.server.problems import MEDIA_TYPE, PROBLEMS, URN, Problem
from hushcall.server.routes import phones
from hushcall.server.service import Service

LIMIT = 512
NOBODY = "hcd_" + "5e" * 32


@dataclass
class Stage:
    """A server with a round, and phones in front of it."""

    service: Service
    client: httpx.Client
    clock: Clock
    patch: pytest.MonkeyPatch

    def phone(self) -> Handset:
        return Handset.enrolled(self.client)

    def operator(self, *scopes: str) -> dict[str, str]:
        return bearer(operator_token(self.service, *scopes))

    def at(self, moment: int) -> None:
        """Let time pass, and rounds do what is due."""
        self.clock.now = moment
        self.service.rounds.advance(self.service.now)

    def current(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get("/v1/rounds/current").json()
        return found

    def collecting(self, bucket: int = 202, phones: int = 2) -> list[tuple[Handset, str]]:
        """Phones with their tickets, in a round that takes reports."""
        made = [(phone, phone.ticket(bucket)) for phone in (self.phone() for _ in range(phones))]
        self.at(COLLECTS)
        return made

    def reported(self) -> tuple[Handset, str, bytes]:
        """A phone that has sent its report."""
        (phone, ticket), _ = self.collecting()
        body = honest_report(self.current(), ticket)
        assert phone.report(ticket, body).status_code == 201
        return phone, ticket, body


Scene = Callable[[Stage], httpx.Response]


@dataclass(frozen=True)
class Case:
    """How to provoke a problem."""

    problem: str
    scene: Scene
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    opened: bool = True


CASES: list[Case] = []


def provokes(problem: str, *, opened: bool = True, **sections: dict[str, Any]) -> Callable[[Scene], Scene]:
    def add(scene: Scene) -> Scene:
        CASES.append(Case(problem, scene, sections, opened))
        return scene

    return add


@provokes("bad-request")
def broken_json(stage: Stage) -> httpx.Response:
    return stage.client.post("/v1/devices", content=b'{"invite": "hci_12345')


@provokes("bad-request")
def an_unknown_field_named_like_a_number(stage: Stage) -> httpx.Response:
    return stage.client.post("/v1/devices", json={SPAM: "+12025550199"})


@provokes("bad-request")
def a_field_of_the_wrong_type(stage: Stage) -> httpx.Response:
    return stage.client.post("/v1/admin/invites", json={"uses": "12025550143 times"}, headers=stage.operator())


@provokes("bad-request")
def an_announcement_without_a_bucket(stage: Stage) -> httpx.Response:
    return stage.client.post("/v1/rounds/1/announcements", json=[SPAM], headers=bearer(stage.phone().token))


@provokes("bad-request")
def an_announcement_of_a_whole_number(stage: Stage) -> httpx.Response:
    return stage.phone().announce(2025550143)


@provokes("bad-request")
def an_announcement_nested_too_deeply(stage: Stage) -> httpx.Response:
    token = stage.phone().token
    return stage.client.post("/v1/rounds/1/announcements", content=b"[" * LIMIT, headers=bearer(token))


@provokes("bad-request")
def a_round_that_is_no_number(stage: Stage) -> httpx.Response:
    return stage.phone().announce(number="x12025550143")


@provokes("bad-request")
def a_hash_that_is_none(stage: Stage) -> httpx.Response:
    return stage.client.get("/api/check", params={"sha1": SPAM})


@provokes("unknown-token")
def a_token_that_nobody_has(stage: Stage) -> httpx.Response:
    return Handset(stage.client, NOBODY).announce()


@provokes("unknown-token")
def no_token(stage: Stage) -> httpx.Response:
    return stage.client.put("/v1/rounds/1/reports/" + "00" * 16, content=b"x12345")


@provokes("unknown-token")
def another_scheme(stage: Stage) -> httpx.Response:
    return stage.client.get("/metrics", auth=("operator", "p4ssw0rd"))


@provokes("unknown-token")
def a_devices_token_where_an_operators_is_needed(stage: Stage) -> httpx.Response:
    return stage.client.get("/v1/admin/appeals", headers=bearer(stage.phone().token))


@provokes("unknown-token")
def an_operators_token_where_a_devices_is_needed(stage: Stage) -> httpx.Response:
    return Handset(stage.client, operator_token(stage.service)).announce()


@provokes("revoked")
def a_device_that_was_revoked(stage: Stage) -> httpx.Response:
    phone = stage.phone()
    (device,) = stage.service.store.rows(sa.select(schema.devices.c.id))
    assert stage.client.delete(f"/v1/admin/devices/{device.id}", headers=stage.operator()).status_code == 204
    return phone.announce()


@provokes("revoked")
def an_operator_who_was_revoked(stage: Stage) -> httpx.Response:
    headers = stage.operator()
    stage.service.devices.revoke_admin(1, stage.service.now)
    return stage.client.get("/v1/admin/whoami", headers=headers)


@provokes("forbidden")
def a_token_without_the_scope(stage: Stage) -> httpx.Response:
    return stage.client.post("/v1/admin/rounds/advance", headers=stage.operator("read", "lists", "devices"))


@provokes("enrolment-closed", enrol={"mode": "invite"})
def enrolment_without_an_invitation(stage: Stage) -> httpx.Response:
    return stage.client.post("/v1/devices")


@provokes("enrolment-closed", enrol={"mode": "invite"})
def an_invitation_that_is_used_up(stage: Stage) -> httpx.Response:
    code = stage.service.devices.invite(1, "", stage.service.now)
    assert stage.client.post("/v1/devices", json={"invite": code}).status_code == 201
    return stage.client.post("/v1/devices", json={"invite": code})


@provokes("enrolment-closed", enrol={"mode": "operator"})
def enrolment_where_only_the_operator_enrols(stage: Stage) -> httpx.Response:
    assert stage.client.post("/v1/devices", headers=stage.operator("devices")).status_code == 201
    return stage.client.post("/v1/devices")


@provokes("not-found")
def an_address_of_nothing(stage: Stage) -> httpx.Response:
    return stage.client.get(f"/v1/numbers/{SPAM}")


@provokes("not-found")
def a_file_that_was_never_published(stage: Stage) -> httpx.Response:
    return stage.client.get("/v1/lists/metadata/99999.root.json")


@provokes("not-found")
def a_list_before_the_first_one(stage: Stage) -> httpx.Response:
    return stage.client.get("/v1/lists/current/blocklist.jsonl")


@provokes("no-round", opened=False)
def the_round_before_the_first_one(stage: Stage) -> httpx.Response:
    return stage.client.get("/v1/rounds/current")


@provokes("no-round", opened=False)
def an_announcement_before_the_first_round(stage: Stage) -> httpx.Response:
    return stage.phone().announce()


@provokes("unknown-round")
def a_round_that_an_operator_made_up(stage: Stage) -> httpx.Response:
    return stage.client.get("/v1/admin/rounds/12345", headers=stage.operator())


@provokes("unknown-round")
def holding_a_round_that_is_not_there(stage: Stage) -> httpx.Response:
    return stage.client.post("/v1/admin/rounds/12345/hold", json={"why": "x12345"}, headers=stage.operator())


@provokes("future-round")
def an_announcement_to_a_round_to_come(stage: Stage) -> httpx.Response:
    return stage.phone().announce(number=12345)


@provokes("future-round")
def a_report_to_a_round_to_come(stage: Stage) -> httpx.Response:
    phone = stage.phone()
    return phone.report(phone.ticket(), b"x12345", number=2)


@provokes("unknown-ticket")
def a_ticket_that_nobody_was_given(stage: Stage) -> httpx.Response:
    (phone, _), _ = stage.collecting()
    return phone.report("5e" * 16, b"x12345")


@provokes("unknown-ticket")
def another_devices_ticket(stage: Stage) -> httpx.Response:
    (phone, _), (_, ticket) = stage.collecting()
    return phone.report(ticket, honest_report(stage.current(), ticket))


@provokes("unknown-ticket")
def a_ticket_that_is_no_hexadecimal(stage: Stage) -> httpx.Response:
    return stage.phone().report("ticket12345", b"x12345")


@provokes("method-not-allowed")
def another_method(stage: Stage) -> httpx.Response:
    answer = stage.client.delete("/v1/rounds/current")
    assert answer.headers["allow"] == "GET"
    return answer


@provokes("wrong-phase")
def an_announcement_while_reports_are_taken(stage: Stage) -> httpx.Response:
    stage.collecting()
    return stage.phone().announce()


@provokes("wrong-phase")
def a_report_while_announcements_are_taken(stage: Stage) -> httpx.Response:
    phone = stage.phone()
    return phone.report(phone.ticket(), b"x12345")


@provokes("wrong-phase")
def a_report_after_the_close(stage: Stage) -> httpx.Response:
    (phone, ticket), _ = stage.collecting()
    stage.clock.now = CLOSES
    stage.service.rounds.close(1)
    return phone.report(ticket, b"x12345")


@provokes("wrong-phase")
def an_announcement_after_the_close(stage: Stage) -> httpx.Response:
    stage.at(COLLECTS)
    stage.at(CLOSES)
    assert stage.current()["state"] == "published"
    return stage.phone().announce()


@provokes("wrong-phase")
def anything_while_the_round_is_held(stage: Stage) -> httpx.Response:
    stage.service.rounds.hold(1, "a look")
    return stage.phone().announce()


@provokes("wrong-phase")
def holding_a_round_twice(stage: Stage) -> httpx.Response:
    stage.service.rounds.hold(1, "a look")
    return stage.client.post("/v1/admin/rounds/1/hold", json={"why": "once12345"}, headers=stage.operator())


@provokes("wrong-phase")
def releasing_a_round_that_is_not_held(stage: Stage) -> httpx.Response:
    return stage.client.post("/v1/admin/rounds/1/release", headers=stage.operator())


@provokes("already-announced")
def a_second_bucket(stage: Stage) -> httpx.Response:
    phone = stage.phone()
    phone.ticket(202)
    return phone.announce(212)


@provokes("different-report")
def other_bytes_in_the_place_of_the_first_ones(stage: Stage) -> httpx.Response:
    phone, ticket, body = stage.reported()
    return phone.report(ticket, body[:-1] + bytes([body[-1] ^ 1]))


@provokes("bucket-skipped")
def a_report_of_a_bucket_too_small(stage: Stage) -> httpx.Response:
    (phone, ticket), *_ = stage.collecting(phones=1)
    assert stage.current()["buckets"] == {}
    return phone.report(ticket, b"x12345")


@provokes("oversized", intake={"max_body": LIMIT})
def a_report_whose_length_is_told(stage: Stage) -> httpx.Response:
    return stage.phone().report("00" * 16, b"x12345" * LIMIT)


@provokes("oversized", intake={"max_body": LIMIT})
def a_report_that_comes_in_chunks(stage: Stage) -> httpx.Response:
    return stage.client.put("/v1/rounds/1/reports/" + "00" * 16, content=chunks(), headers=bearer(stage.phone().token))


@provokes("oversized", intake={"max_body": LIMIT})
def a_json_body_that_comes_in_chunks(stage: Stage) -> httpx.Response:
    return stage.client.post("/v1/devices", content=chunks(), headers={"content-type": "application/json"})


def chunks() -> Iterator[bytes]:
    yield from [b"x12345" * 30] * 4


@provokes("wrong-bucket")
def an_area_code_that_does_not_exist(stage: Stage) -> httpx.Response:
    return stage.phone().announce(999)


@provokes("wrong-bucket", round={"profile": "balanced-whole"})
def an_area_code_where_nothing_is_in_the_clear(stage: Stage) -> httpx.Response:
    assert stage.phone().announce(0).status_code == 201
    return stage.phone().announce(202)


@provokes("malformed-report")
def a_report_cut_short(stage: Stage) -> httpx.Response:
    (phone, ticket), _ = stage.collecting()
    return phone.report(ticket, honest_report(stage.current(), ticket)[:-1])


@provokes("malformed-report")
def a_report_with_more_behind_it(stage: Stage) -> httpx.Response:
    (phone, ticket), _ = stage.collecting()
    return phone.report(ticket, honest_report(stage.current(), ticket) + b"x12345")


@provokes("malformed-report")
def an_empty_report(stage: Stage) -> httpx.Response:
    (phone, ticket), _ = stage.collecting()
    return phone.report(ticket, b"")


@provokes("malformed-report")
def a_report_of_another_version(stage: Stage) -> httpx.Response:
    (phone, ticket), _ = stage.collecting()
    return phone.report(ticket, b"\xff" + honest_report(stage.current(), ticket)[1:])


@provokes("malformed-number")
def an_appeal_for_something_else(stage: Stage) -> httpx.Response:
    return stage.client.post(
        "/v1/admin/appeals", json={"number": "202555014", "why": "x12345"}, headers=stage.operator()
    )


@provokes("malformed-number")
def the_history_of_something_else(stage: Stage) -> httpx.Response:
    return stage.client.get("/v1/admin/numbers/+1202555014399", headers=stage.operator())


@provokes("too-many", intake={"per_device": 2})
def a_device_that_asks_too_often(stage: Stage) -> httpx.Response:
    stage.patch.setattr(phones, "time", SimpleNamespace(monotonic=lambda: 130.0))
    phone = stage.phone()
    assert [phone.announce().status_code for _ in range(2)] == [201, 200]
    assert stage.phone().announce().status_code == 201  # another device is not its business
    answer = phone.announce()
    assert answer.headers["retry-after"] == "50"
    return answer


@provokes("too-many", enrol={"per_minute": 1})
def more_enrolments_than_a_minute_may_have(stage: Stage) -> httpx.Response:
    stage.patch.setattr(phones, "time", SimpleNamespace(monotonic=lambda: 130.0))
    stage.phone()
    answer = stage.client.post("/v1/devices")
    assert answer.headers["retry-after"] == "50"
    return answer


@provokes("internal")
def a_route_that_fails(stage: Stage) -> httpx.Response:
    def fail(*_: object) -> None:
        raise RuntimeError(f"x12345 {SPAM}")

    stage.patch.setattr(standing, "document", fail)
    return stage.client.get("/v1/rounds/current", headers={"x-trace": "x12345"})


@provokes("internal")
def a_commit_that_fails(stage: Stage) -> httpx.Response:
    phone = stage.phone()

    def fail(*_: object) -> None:
        raise OSError(f"disk full at {phone.token}")

    stage.patch.setattr(Intake, "accept", fail)
    return phone.announce()


@provokes("busy", intake={"queue": 1})
def a_queue_that_is_full(stage: Stage) -> httpx.Response:
    three, entered, go = [stage.phone() for _ in range(3)], threading.Event(), threading.Event()
    accept = Intake.accept

    def slowly(intake: Intake, asked: Sequence[Announce | Upload]) -> list[Answer | Problem]:
        entered.set()
        assert go.wait(20)
        return accept(intake, asked)

    stage.patch.setattr(Intake, "accept", slowly)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(three[0].announce)
        assert entered.wait(10)  # it is being committed: one more may wait, the third may not
        others = [pool.submit(phone.announce) for phone in three[1:]]
        done, waiting = wait(others, timeout=10, return_when=FIRST_COMPLETED)
        go.set()
        assert first.result().status_code == 201
        assert [future.result().status_code for future in waiting] == [201]
    (refused,) = (future.result() for future in done)
    assert refused.headers["retry-after"] == "2"
    return refused


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.problem}-{case.scene.__name__}")
def test_each_problem_has_its_type_and_status_and_repeats_nothing(
    case: Case, make_service: MakeService, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service(**case.sections)
    if case.opened:
        service.rounds.open(service.now)
    with serving(service) as client:
        answer = case.scene(Stage(service, client, clock, monkeypatch))
    kind = PROBLEMS[case.problem]
    found = answer.json()
    assert (found["type"], answer.status_code) == (URN + case.problem, kind.status), answer.text
    assert (found["status"], found["title"], found["todo"]) == (kind.status, kind.title, kind.todo)
    assert found["detail"]
    assert set(found) == {"type", "title", "status", "detail", "todo"}
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert ("www-authenticate" in answer.headers) == (kind.status == 401)
    for word in sent(answer.request):
        assert word not in answer.text


def sent(request: httpx.Request) -> set[str]:
    """Whatever with a digit in it was sent: numbers, tokens, tickets, texts."""
    try:
        body = request.content.decode("latin-1")
    except httpx.RequestNotRead:  # it was streamed
        body = "x12345"
    text = " ".join([str(request.url.path), str(request.url.query), body, request.headers.get("authorization", "")])
    return {word for word in re.findall(r"\w+", text) if len(word) >= 5 and re.search("[0-9]", word)}


def test_every_problem_of_the_table_is_provoked() -> None:
    assert {case.problem for case in CASES} == set(PROBLEMS)


def test_every_type_is_its_own() -> None:
    assert len({kind.title for kind in PROBLEMS.values()}) == len(PROBLEMS)
    assert all(kind.todo.endswith(".") for kind in PROBLEMS.values())


@pytest.fixture
def stage(lite: Service, client: httpx.Client, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Stage:
    lite.rounds.open(lite.now)
    return Stage(lite, client, clock, monkeypatch)


def test_the_same_report_again_is_no_error_in_any_later_phase(stage: Stage) -> None:
    phone, ticket, body = stage.reported()
    assert phone.report(ticket, body).status_code == 200
    assert phone.report(ticket.upper(), body).status_code == 200
    stage.service.rounds.close(1)
    assert phone.report(ticket, body).status_code == 200
    assert standing.status(stage.service.store)["reports"] == 1


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
    found = standing.status(stage.service.store)
    assert (found["reports"], found["refused"]) == (0, {})
    assert phone.report(ticket, body).status_code == 201


def test_a_phone_that_hangs_up_is_no_failure_of_the_server(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    hang_up(stage.client, b'POST /v1/devices HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n{"inv', "/v1/devices")
    assert "request failed" not in caplog.text


def hang_up(client: httpx.Client, request: bytes, route: str) -> None:
    """Send a part of a request, close the connection, and wait until the server has noticed."""
    at = urlsplit(str(client.base_url))
    before = finished(route)
    with socket.create_connection((at.hostname, at.port), timeout=5) as connection:
        connection.sendall(request)
    deadline = time.monotonic() + 10
    while finished(route) == before:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def finished(route: str) -> float:
    samples = (sample for metric in metrics.REQUESTS.collect() for sample in metric.samples)
    return sum(s.value for s in samples if s.name.endswith("_total") and s.labels["route"] == route)


def test_a_stranger_cannot_have_a_round_held(stage: Stage) -> None:
    for _ in range(5):
        assert Handset(stage.client, NOBODY).announce().status_code == 401
    assert standing.status(stage.service.store)["refused"] == {}
    assert stage.phone().announce(999).status_code == 422
    assert standing.status(stage.service.store)["refused"] == {"wrong-bucket": 1}


def test_a_problem_in_the_description_is_the_one_on_the_wire(stage: Stage) -> None:
    described = stage.client.get("/openapi.json").json()["paths"]["/v1/rounds/current"]["get"]["responses"]["404"]
    example = described["content"][MEDIA_TYPE]["examples"]["no-round"]["value"]
    assert example == json.loads(Problem("no-round").body())
