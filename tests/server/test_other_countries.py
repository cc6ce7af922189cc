"""A server with another country's plan, over HTTP: phones enrol, learn the plan, report, sync and check callers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.formats.blocklists.readers import read
from tests.server.conftest import MakeService
from tests.server.serving import Clock, serving

from hushcall.client.client import Client
from hushcall.errors import InvalidData, InvalidParameter
from hushcall.formats.blocklists import WRITERS
from hushcall.formats.calls.call import Call, CallKind
from hushcall.protocol.blocklist import Blocklist
from hushcall.protocol.numbers import SHIPPED, plans
from hushcall.protocol.numbers.generate import plan_document
from hushcall.protocol.numbers.plans import to_bytes
from hushcall.protocol.randomness import seeded
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.service import Service
from hushcall.server.settings import load_settings
from hushcall_lab.servers import running

PLANTED = {
    "CZ": ("224 123 456", "+420224123456"),
    "FR": ("06 39 98 18 18", "+33639981818"),
    "DE": ("03303 22", "+49330322"),
}


def a_round(service: Service, clock: Clock, phones: list[Client]) -> None:
    """One round, all phones, to a published list."""
    number = service.rounds.open(service.now)
    row = service.rounds.newest()
    assert row is not None
    for phone in phones:
        assert phone.report().action in ("waiting", "announced"), phone.report().words
    clock.now = row.collects - 1
    for phone in phones:
        phone.report()
    service.rounds.start_collecting(number, row.collects)
    clock.now = row.closes - 1
    for phone in phones:
        assert phone.report().action in ("sent", "done", "skipped"), phone.report().words
    clock.now = row.closes
    service.rounds.close(number)
    service.rounds.learn(number)
    service.rounds.publish(number, service.now)


@pytest.mark.parametrize("region", ["FR", "CZ", pytest.param("DE", marks=pytest.mark.slow)])
def test_a_planted_spammer_is_listed_synced_and_checked_in_national_notation(
    region: str, make_service: MakeService, clock: Clock, tmp_path: Path
) -> None:
    """Germany's items have 27 bits: half a gigabyte and some seconds."""
    written, listed = PLANTED[region]
    if region not in SHIPPED:
        (tmp_path / "plan.json").write_bytes(to_bytes(plan_document(region)))
    service = make_service(round={"plan": region if region in SHIPPED else str(tmp_path / "plan.json")})
    with running(service, scheduler=False) as address:
        limits, plan = {"report": 20.0, "window": 40.0}, service.settings.round.chosen_plan().name
        phones = [Client.set_up(tmp_path / str(place), address, limits=limits, agreed_plan=plan) for place in range(8)]
        for place, phone in enumerate(phones):
            phone.clock, phone.rand = clock, seeded(b"abroad %d" % place)
            assert phone.plan.region == region
            counts = phone.ingest([Call(written, int(clock.now) - 60, CallKind.MISSED)])
            assert (counts.strangers, counts.foreign) == (1, 0)
        a_round(service, clock, phones)
        assert phones[0].sync().version == 1
        verdict = phones[0].check(written)
        assert (verdict.entry.number if verdict.entry else None) == listed
        assert phones[0].check("0" + written).entry is None
        exported = {name: read(name, writer.write(service_list(service))) for name, writer in WRITERS.items()}
        one_number = {name: found for name, found in exported.items() if not name.endswith("-ranges")}
        assert set(map(frozenset, one_number.values())) == {frozenset({listed})}
        assert Client.open(tmp_path / "0").plan == phones[0].plan
        for phone in phones:
            phone.close()


def test_a_phone_takes_no_plan_but_the_one_that_the_server_named(
    make_service: MakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The phone runs in a process of its own, which knows no plan that the server took; nothing is kept."""
    (tmp_path / "plan.json").write_bytes(to_bytes(plan_document("CZ")))
    service = make_service(round={"plan": str(tmp_path / "plan.json")})
    plan = service.settings.round.chosen_plan().name
    told = {"right": to_bytes(plan_document("CZ")), "wrong": to_bytes(plan_document("SK")), "changed": b"{}"}
    with running(service, scheduler=False) as address:
        for name, data in told.items():
            monkeypatch.setattr(plans, "_TAKEN", dict(plans._TAKEN))
            monkeypatch.setattr("hushcall.server.http.routes.phones.plan_file", lambda _, data=data: data)
            if name == "right":
                with pytest.raises(InvalidParameter, match=f"phone init --plan {plan}"):
                    Client.set_up(tmp_path / "not asked", address)
                Client.set_up(tmp_path / name, address, agreed_plan=plan).close()
                plans._TAKEN.clear()
                phone = Client.open(tmp_path / name)
                assert phone.plan.region == "CZ", "it kept the file"
                phone.close()
                continue
            with pytest.raises(InvalidData, match="plan must be"):
                Client.set_up(tmp_path / name, address, agreed_plan=plan)
            with pytest.raises(InvalidParameter, match="enrolled first"):
                Client.open(tmp_path / name)


def test_every_shipped_plan_is_served(make_service: MakeService) -> None:
    with serving(make_service()) as client:
        for name in plans.PLANS:
            assert client.get(f"/v1/plans/{name}").json()["name"] == name
        assert client.get("/v1/plans/pl-0").status_code == 404


def test_wide_plans_are_refused_where_the_mechanism_cannot_hold_them() -> None:
    for profile, most in (("balanced-whole", 24), ("paper", 26)):
        with pytest.raises(InvalidParameter, match=f"at most {most} bits .* has 27: choose a profile with subspace"):
            load_settings(round={"plan": "DE", "profile": profile})
    with pytest.raises(InvalidParameter, match=r"plan must be a file that can be read \(no such file"):
        load_settings(round={"plan": "nowhere.json"})


def service_list(service: Service) -> Blocklist:
    with service.store.read() as connection:
        found = newest_list(connection)
    assert found is not None
    return found


def test_a_server_of_another_region_than_the_owners_is_refused(make_service: MakeService, tmp_path: Path) -> None:
    service = make_service(round={"plan": "DE"})
    with running(service, scheduler=False) as address:
        with pytest.raises(InvalidParameter, match="plan must be that of the server, de-f9328cd872b6, got 'US'"):
            Client.set_up(tmp_path / "phone", address, agreed_plan="US")
        with pytest.raises(InvalidParameter, match="enrolled first"):
            Client.open(tmp_path / "phone")
        for agreed in ("de", "DE", "de-f9328cd872b6", ""):
            phone = Client.set_up(tmp_path / "phone", address, agreed_plan=agreed)
            assert phone.plan.region == "DE"
            phone.close()
