"""A server with another country's plan, over HTTP: phones enrol, learn the plan, report, sync and check callers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.server.conftest import MakeService
from tests.server.serving import Clock

from hushcall.errors import InvalidData, InvalidParameter
from hushcall.formats.blocklists import WRITERS
from hushcall.formats.calls.call import Call, CallKind
from hushcall.numbers import SHIPPED, plans
from hushcall.numbers.generate import plan_document
from hushcall.numbers.plan_files import to_bytes
from hushcall.phone.phone import Phone
from hushcall.privacy.coins import seeded
from hushcall.protocol.blocklist import Blocklist
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.serve import running
from hushcall.server.service import Service
from hushcall.server.settings import load_settings

PLANTED = {
    "CZ": ("224 123 456", "+420224123456"),
    "FR": ("06 39 98 18 18", "+33639981818"),
    "DE": ("03303 22", "+49330322"),
}


def a_round(service: Service, clock: Clock, phones: list[Phone]) -> None:
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
        phones = [
            Phone.set_up(tmp_path / str(place), address, limits={"report": 20.0, "window": 40.0}) for place in range(8)
        ]
        for place, phone in enumerate(phones):
            phone.clock, phone.coins = clock, seeded(b"abroad %d" % place)
            assert phone.plan.region == region
            counts = phone.ingest([Call(written, int(clock.now) - 60, CallKind.MISSED)])
            assert (counts.strangers, counts.foreign) == (1, 0)
        a_round(service, clock, phones)
        assert phones[0].sync().version == 1
        verdict = phones[0].check(written)
        assert (verdict.entry.number if verdict.entry else None) == listed
        assert phones[0].check("0" + written).entry is None
        exported = {name: writer.read(writer.write(service_list(service))) for name, writer in WRITERS.items()}
        one_number = {name: found for name, found in exported.items() if not name.endswith("-ranges")}
        assert set(map(frozenset, one_number.values())) == {frozenset({listed})}
        assert Phone.open(tmp_path / "0").plan == phones[0].plan
        for phone in phones:
            phone.close()


def test_a_phone_takes_no_plan_but_the_one_that_the_server_named(
    make_service: MakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The phone runs in a process of its own, which knows no plan that the server took; nothing is kept."""
    (tmp_path / "plan.json").write_bytes(to_bytes(plan_document("CZ")))
    service = make_service(round={"plan": str(tmp_path / "plan.json")})
    told = {"right": to_bytes(plan_document("CZ")), "wrong": to_bytes(plan_document("SK")), "changed": b"{}"}
    with running(service, scheduler=False) as address:
        for name, data in told.items():
            monkeypatch.setattr(plans, "_TAKEN", dict(plans._TAKEN))
            monkeypatch.setattr("hushcall.server.http.routes.phones.taken_file", lambda _, data=data: data)
            if name == "right":
                Phone.set_up(tmp_path / name, address).close()
                plans._TAKEN.clear()
                phone = Phone.open(tmp_path / name)
                assert phone.plan.region == "CZ", "it kept the file"
                phone.close()
                continue
            with pytest.raises(InvalidData, match="plan must be"):
                Phone.set_up(tmp_path / name, address)
            with pytest.raises(InvalidParameter, match="enrolled first"):
                Phone.open(tmp_path / name)


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
