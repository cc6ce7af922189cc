"""Who may enrol: invitations where others reach the service, work in open mode, one limit for all workers."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import Clock, bearer, operator_token, serving

from hushcall.phone.reporting.transport import HttpTransport
from hushcall.protocol.work import NONCE_BYTES, proves, solve
from hushcall.server.access.enrolment import is_loopback
from hushcall.server.db import schema
from hushcall.server.problems import Problem
from hushcall.server.service import Service

PROXIED = {"x-forwarded-for": "192.0.2.7"}
ANSWER = dict[str, object]


def devices(service: Service) -> int:
    return len(service.store.rows(sa.select(schema.devices.c.id)))


@pytest.mark.parametrize(
    ("host", "here"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("192.0.2.7", False), ("a.b", False)]
)
def test_loopback_is_known(host: str, here: bool) -> None:
    assert is_loopback(host) is here


def test_behind_a_proxy_hundreds_of_strangers_get_nothing(lite: Service) -> None:
    with serving(lite) as client:
        said = Counter(client.post("/v1/devices", headers=PROXIED).status_code for _ in range(30))
        assert said == {403: 30}
        code = lite.devices.invite(1, "", lite.now)
        assert client.post("/v1/devices", headers=PROXIED, json={"invite": code}).status_code == 201
    for _ in range(300):
        with pytest.raises(Problem, match="enrolment-closed"):
            lite.enrolments.enrol("", "", lite.now, public=True)
    assert devices(lite) == 1
    assert lite.store.rows(sa.select(schema.limits.c.count))[0].count == 1  # they did not use up anybody's minute


@pytest.mark.parametrize("name", ["x-forwarded-proto", "x-forwarded-host", "forwarded", "x-real-ip", "via"])
def test_a_proxy_that_hides_its_callers_is_noticed_all_the_same(lite: Service, name: str) -> None:
    with serving(lite) as client:
        assert client.post("/v1/devices", headers={name: "https"}).status_code == 403


def test_on_loopback_anybody_may_enrol_unless_told_otherwise(lite: Service, make_service: MakeService) -> None:
    with serving(lite) as client:
        assert client.post("/v1/devices").status_code == 201
        token = operator_token(lite)
        assert client.post("/v1/devices", headers={**PROXIED, **bearer(token)}).status_code == 201
    strict = make_service(folder="strict", enrol={"mode": "invite"})
    with serving(strict) as client:
        assert client.post("/v1/devices").status_code == 403


def test_open_mode_asks_for_work_that_a_phone_does_by_itself(make_service: MakeService) -> None:
    service = make_service(enrol={"mode": "open", "work": 8})
    with serving(service) as client:
        assert client.post("/v1/devices").json()["type"].endswith("work-needed")
        assert HttpTransport(str(client.base_url)).enrol().device > 0
        given = client.get("/v1/devices/challenge").json()
        nonce = solve(given["challenge"].encode(), given["bits"])
        work = {"work": f"{given['challenge']}:{nonce.hex()}"}
        # The phone above was given the same challenge and took the first nonce: it counts once.
        assert client.post("/v1/devices", json=work).json()["detail"] == "This answer was given before."
    assert devices(service) == 1


@pytest.mark.parametrize("work", ["", ":", "x:y", "CHALLENGE:", "CHALLENGE:zz", "CHALLENGE:" + "ff" * 9, "CHALLENGE"])
def test_work_that_is_none_is_refused(make_service: MakeService, work: str) -> None:
    service = make_service(enrol={"mode": "open", "work": 24})
    given = work.replace("CHALLENGE", service.enrolments.challenge(service.now, public=False).text)
    with pytest.raises(Problem, match="work-needed"):
        service.enrolments.enrol("", given, service.now, public=False)


def test_a_challenge_is_good_for_a_while_and_then_no_more(make_service: MakeService, clock: Clock) -> None:
    service = make_service(enrol={"mode": "open", "work": 6})
    asked = service.enrolments.challenge(service.now, public=False)
    solved = f"{asked.text}:{solve(asked.text.encode(), asked.bits).hex()}"
    with pytest.raises(Problem, match="work-needed"):
        service.enrolments.enrol("", solved, service.now + 1200, public=False)
    assert service.enrolments.enrol("", solved, service.now + 600, public=False)[0] > 0


def test_an_operators_rule_decides_instead_of_work(make_service: MakeService, tmp_path: Path) -> None:
    rule = "import sys; sys.exit(0 if input() == 'member 12' else 1)"
    service = make_service(enrol={"mode": "open", "command": [sys.executable, "-c", rule]})
    assert service.enrolments.challenge(service.now, public=True).bits == 0
    assert service.enrolments.enrol("member 12", "", service.now, public=True)[0] > 0
    with pytest.raises(Problem, match="enrolment-closed"):
        service.enrolments.enrol("a stranger", "", service.now, public=True)
    absent = make_service(folder="absent", enrol={"mode": "open", "command": [str(tmp_path / "no-such-command")]})
    with pytest.raises(Problem, match="enrolment-closed"):
        absent.enrolments.enrol("member 12", "", service.now, public=True)


def test_the_minutes_limit_counts_all_workers(make_service: MakeService, database: str, clock: Clock) -> None:
    workers = [make_service(database, enrol={"per_minute": 3}) for _ in range(2)]
    for place in range(3):
        workers[place % 2].enrolments.enrol("", "", int(clock.now), public=False)
    for worker in workers:
        with pytest.raises(Problem, match="too-many") as caught:
            worker.enrolments.enrol("", "", int(clock.now), public=False)
        assert caught.value.retry_after == 60 - int(clock.now) % 60
    assert devices(workers[0]) == 3
    clock.now += 60
    assert workers[0].enrolments.enrol("", "", int(clock.now), public=False)[0] > 0


def test_work_is_as_hard_as_it_says() -> None:
    tries = [int.from_bytes(solve(b"%d" % place, 6), "big") + 1 for place in range(200)]
    assert 40 < sum(tries) / len(tries) < 95  # 64 expected; seeded by nothing, so the same on every machine
    assert not proves(b"x", b"", 0)
    assert proves(b"x", bytes(NONCE_BYTES), 0)


def test_a_phone_refuses_to_work_for_ever(monkeypatch: pytest.MonkeyPatch, client: httpx.Client) -> None:
    transport = HttpTransport(str(client.base_url))
    monkeypatch.setattr(transport, "_ask", lambda *_: None)
    monkeypatch.setattr(transport, "_json", lambda _: {"challenge": "x", "bits": 60})
    with pytest.raises(Exception, match="ask for at most 32 bits of work"):
        transport._work()
