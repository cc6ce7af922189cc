"""Who may enrol: invitations unless told otherwise, work in open mode, one limit for all workers."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import Clock, bearer, operator_token, serving

from hushcall.client.reporting.transport import HttpTransport
from hushcall.protocol.proof_of_work import NONCE_BYTES, proves, solve
from hushcall.protocol.randomness import seeded
from hushcall.server.db import schema
from hushcall.server.problems import Problem
from hushcall.server.service import Service
from hushcall.server.settings import WORK_BITS, load_settings

ANSWER = dict[str, object]


def devices(service: Service) -> int:
    return len(service.store.rows(sa.select(schema.devices.c.id)))


@pytest.mark.parametrize("name", ["", "x-forwarded-for", "x-forwarded-proto", "forwarded", "x-real-ip", "via"])
def test_strangers_through_a_proxy_on_this_machine_get_nothing_unless_told(
    make_service: MakeService, name: str
) -> None:
    """What a proxy that adds no header sends is what any program of this machine sends."""
    service, headers = make_service(enrol={"mode": ""}), {name: "192.0.2.7"} if name else {}
    with serving(service) as client:
        said = Counter(client.post("/v1/devices", headers=headers).status_code for _ in range(30))
        assert said == {403: 30}
        code = service.devices.invite(1, "", service.now)
        assert client.post("/v1/devices", headers=headers, json={"invite": code}).status_code == 201
        by_operator = {**headers, **bearer(operator_token(service))}
        assert client.post("/v1/devices", headers=by_operator).status_code == 201
    assert devices(service) == 2
    assert service.store.rows(sa.select(schema.limits.c.count))[0].count == 1  # they did not use up anybody's minute


@pytest.mark.parametrize("unset", [{"mode": None, "work": None}, {"mode": "", "work": ""}, {}])
def test_who_said_nothing_said_invite(unset: dict[str, Any]) -> None:
    """Earlier releases recorded null in a data folder."""
    settings = load_settings(alone=True, enrol=unset).enrol
    assert (settings.mode, settings.work) == ("invite", WORK_BITS)


def test_open_mode_asks_for_work_that_a_phone_does_by_itself(make_service: MakeService) -> None:
    service = make_service(enrol={"mode": "open", "work": 8})
    with serving(service) as client:
        assert client.post("/v1/devices").json()["type"].endswith("work-needed")
        phones = [HttpTransport(str(client.base_url)).enrol("", seeded(b"%d" % phone)).device for phone in range(3)]
        assert len(set(phones)) == 3, "the same challenge, but not the same answer"
        given = client.get("/v1/devices/challenge").json()
        nonce = solve(given["challenge"].encode(), given["bits"])
        work = {"work": f"{given['challenge']}:{nonce.hex()}"}
        assert client.post("/v1/devices", json=work).status_code == 201
        assert client.post("/v1/devices", json=work).json()["detail"] == "This answer was given before."
    assert devices(service) == 4


@pytest.mark.parametrize("work", ["", ":", "x:y", "CHALLENGE:", "CHALLENGE:zz", "CHALLENGE:" + "ff" * 9, "CHALLENGE"])
def test_work_that_is_none_is_refused(make_service: MakeService, work: str) -> None:
    service = make_service(enrol={"mode": "open", "work": 24})
    given = work.replace("CHALLENGE", service.enrolments.challenge(service.now)[0])
    with pytest.raises(Problem, match="work-needed"):
        service.enrolments.enrol("", given, service.now)


def test_a_challenge_is_good_for_a_while_and_then_no_more(make_service: MakeService, clock: Clock) -> None:
    service = make_service(enrol={"mode": "open", "work": 6})
    text, bits = service.enrolments.challenge(service.now)
    solved = f"{text}:{solve(text.encode(), bits).hex()}"
    with pytest.raises(Problem, match="work-needed"):
        service.enrolments.enrol("", solved, service.now + 1200)
    assert service.enrolments.enrol("", solved, service.now + 600)[0] > 0


def test_an_operators_rule_decides_instead_of_work(make_service: MakeService, tmp_path: Path) -> None:
    rule = "import sys; sys.exit(0 if input() == 'member 12' else 1)"
    service = make_service(enrol={"mode": "open", "command": [sys.executable, "-c", rule]})
    assert service.enrolments.challenge(service.now)[1] == 0
    assert service.enrolments.enrol("member 12", "", service.now)[0] > 0
    with pytest.raises(Problem, match="enrolment-closed"):
        service.enrolments.enrol("a stranger", "", service.now)
    absent = make_service(folder="absent", enrol={"mode": "open", "command": [str(tmp_path / "no-such-command")]})
    with pytest.raises(Problem, match="enrolment-closed"):
        absent.enrolments.enrol("member 12", "", service.now)


def test_the_minutes_limit_counts_all_workers(make_service: MakeService, database: str, clock: Clock) -> None:
    workers = [make_service(database, enrol={"per_minute": 3}) for _ in range(2)]
    for place in range(3):
        workers[place % 2].enrolments.enrol("", "", int(clock.now))
    for worker in workers:
        with pytest.raises(Problem, match="too-many") as caught:
            worker.enrolments.enrol("", "", int(clock.now))
        assert caught.value.retry_after == 60 - int(clock.now) % 60
    assert devices(workers[0]) == 3
    clock.now += 60
    assert workers[0].enrolments.enrol("", "", int(clock.now))[0] > 0


def test_work_is_as_hard_as_it_says() -> None:
    tries = [int.from_bytes(solve(b"%d" % place, 6), "big") + 1 for place in range(200)]
    assert 40 < sum(tries) / len(tries) < 95  # 64 expected; seeded by nothing, so the same on every machine
    assert not proves(b"x", b"", 0)
    assert proves(b"x", bytes(NONCE_BYTES), 0)


def test_a_phone_refuses_to_work_for_ever(monkeypatch: pytest.MonkeyPatch, client: httpx.Client) -> None:
    transport = HttpTransport(str(client.base_url))
    monkeypatch.setattr(transport, "_request", lambda *_: None)
    monkeypatch.setattr(transport, "_json", lambda _: {"challenge": "x", "bits": 60})
    with pytest.raises(Exception, match="ask for at most 32 bits of work"):
        transport._proof_of_work(seeded(b"a phone"))
