"""A server with another country's plan, over HTTP: phones enrol, learn the plan, report, sync and check callers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.server.conftest import MakeService
from tests.server.serving import Clock

from hushcall.formats.blocklists import WRITERS
from hushcall.formats.calls.call import Call, CallKind
from hushcall.phone.phone import Phone
from hushcall.privacy.coins import seeded
from hushcall.protocol.blocklist import Blocklist
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.serve import running
from hushcall.server.service import Service

PLANTED = {"FR": ("06 39 98 18 18", "+33639981818"), "DE": ("03303 22", "+49330322")}


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


@pytest.mark.parametrize("region", ["FR", pytest.param("DE", marks=pytest.mark.slow)])
def test_a_planted_spammer_is_listed_synced_and_checked_in_national_notation(
    region: str, make_service: MakeService, clock: Clock, tmp_path: Path
) -> None:
    """Germany's items have 27 bits: half a gigabyte and some seconds."""
    written, listed = PLANTED[region]
    service = make_service(round={"plan": region})
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


def service_list(service: Service) -> Blocklist:
    with service.store.read() as connection:
        found = newest_list(connection)
    assert found is not None
    return found
