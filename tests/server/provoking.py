"""How to provoke each problem of the API: a scene a row, for ``test_problems.py`` to play."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import httpx
import sqlalchemy as sa
from tests.server.anonymous import Stranger, told
from tests.server.serving import CLOSES, COLLECTS, PERIOD, SPAM, START, Handset, bearer, honest_report, operator_token
from tests.server.stage import NOBODY, Stage

from hushcall.server.db import schema
from hushcall.server.http import limits
from hushcall.server.ingest.ingest import Announce, Answer, Intake, Upload
from hushcall.server.problems import Problem
from hushcall.server.rounds import holding, round_status

LIMIT = 512
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


@provokes("private-reports-only")
def a_report_in_the_clear(stage: Stage) -> httpx.Response:
    return stage.client.post("/api/report-call/+12025550143")


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
    holding.hold(stage.service.store, 1, "a look")
    return stage.phone().announce()


@provokes("wrong-phase")
def holding_a_round_twice(stage: Stage) -> httpx.Response:
    holding.hold(stage.service.store, 1, "a look")
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
    stage.patch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: 130.0))
    phone = stage.phone()
    assert [phone.announce().status_code for _ in range(2)] == [201, 200]
    assert stage.phone().announce().status_code == 201  # another device is not its business
    answer = phone.announce()
    assert answer.headers["retry-after"] == "50"
    return answer


@provokes("too-many", enrol={"per_minute": 1})
def more_enrolments_than_a_minute_may_have(stage: Stage) -> httpx.Response:
    stage.clock.now += 10
    stage.phone()
    answer = stage.client.post("/v1/devices")
    assert answer.headers["retry-after"] == "50"
    return answer


@provokes("work-needed", enrol={"mode": "open", "work": 4})
def an_enrolment_without_work(stage: Stage) -> httpx.Response:
    return stage.client.post("/v1/devices", json={"work": "12345:0000000000000000"})


@provokes("internal")
def a_route_that_fails(stage: Stage) -> httpx.Response:
    def fail(*_: object) -> None:
        raise RuntimeError(f"x12345 {SPAM}")

    stage.patch.setattr(round_status, "round_info", fail)
    return stage.client.get("/v1/rounds/current", headers={"x-trace": "x12345"})


@provokes("internal")
def a_commit_that_fails(stage: Stage) -> httpx.Response:
    phone = stage.phone()

    def fail(*_: object) -> None:
        raise OSError(f"disk full at {phone.token}")

    stage.patch.setattr(Intake, "accept", fail)
    return phone.announce()


@provokes("not-anonymous")
def a_token_for_a_round_that_takes_none(stage: Stage) -> httpx.Response:
    return stage.client.post("/v1/rounds/1/tokens", content=bytes(259), headers=bearer(stage.phone().token))


@provokes("already-issued", round={"anonymous": True})
def a_second_token_for_one_device(stage: Stage) -> httpx.Response:
    stranger, (terms, seed) = Stranger(stage.client, stage.phone().token), told(stage.service)
    assert stranger.ask(terms, stranger.wish(terms, seed)).status_code == 200
    return stranger.ask(terms, stranger.wish(terms, seed, "another"))


@provokes("token-spent", round={"anonymous": True})
def a_token_for_two_buckets(stage: Stage) -> httpx.Response:
    stranger, (terms, seed) = Stranger(stage.client, stage.phone().token), told(stage.service)
    token = stranger.token(terms, seed)
    assert stranger.announce(token).status_code == 201
    return stranger.announce(token, bucket=212)


@provokes("expired-token", round={"anonymous": True})
def a_token_of_yesterday(stage: Stage) -> httpx.Response:
    stranger, (terms, seed) = Stranger(stage.client, stage.phone().token), told(stage.service)
    token = stranger.token(terms, seed)
    for moment in (COLLECTS, CLOSES, START + PERIOD):
        stage.at(moment)
    return stranger.announce(token, number=2)


@provokes("foreign-token", round={"anonymous": True})
def a_token_that_nobody_signed(stage: Stage) -> httpx.Response:
    return Stranger(stage.client, "").announce(b"x" * 354)


@provokes("sealed-otherwise")
def a_seal_for_somebody_else(stage: Stage) -> httpx.Response:
    return stage.client.post("/.well-known/ohttp-gateway", content=bytes(100))


@provokes("busy", intake={"queue": 1})
def a_queue_that_is_full(stage: Stage) -> httpx.Response:
    three, entered, go = [stage.phone() for _ in range(3)], threading.Event(), threading.Event()
    accept = Intake.accept

    def slowly(intake: Intake, asked: Sequence[Announce | Upload]) -> list[Answer | Problem]:
        entered.set()
        assert go.wait(120)
        return accept(intake, asked)

    stage.patch.setattr(Intake, "accept", slowly)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(three[0].announce)
        assert entered.wait(60)  # it is being committed: one more may wait, the third may not
        others = [pool.submit(phone.announce) for phone in three[1:]]
        done, waiting = wait(others, timeout=60, return_when=FIRST_COMPLETED)
        go.set()
        assert first.result().status_code == 201
        assert [future.result().status_code for future in waiting] == [201]
    (refused,) = (future.result() for future in done)
    assert int(refused.headers["retry-after"]) in range(1, 5)
    return refused
