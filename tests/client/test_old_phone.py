"""A phone's folder of an earlier release opens: nothing spent is forgotten, its round goes on, its list blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.client.fake_server import DAY, FakeServer, FakeService
from tests.client.lists_on_disk import BLOCKED, CLEAN, WARNED
from tests.kept import unpacked

from hushcall.client.client import Client
from hushcall.client.reporting import ledger
from hushcall.client.storage.personal import Action
from hushcall.client.storage.store import Store
from hushcall.formats.calls.call import Call, CallKind
from hushcall.protocol.randomness import seeded

OLD = Path(__file__).parent / "old" / "home.tar.xz"
DAILY, FRIEND = "+12025550177", "+12025550199"


@pytest.fixture
def known(tmp_path: Path) -> dict[str, Any]:
    return unpacked(OLD, tmp_path)


@pytest.fixture
def now(known: dict[str, Any]) -> list[int]:
    return [known["now"]]


@pytest.fixture
def service(known: dict[str, Any], now: list[int]) -> FakeService:
    made = FakeService(lambda: now[0])
    round_, _, bucket, ticket = known["row"]
    made.tickets[round_, 1] = bucket, ticket
    return made


@pytest.fixture
def old(tmp_path: Path, service: FakeService, now: list[int]) -> Iterator[Client]:
    phone = Client(Store.open(tmp_path), FakeServer(service), rand=seeded(b"today"), clock=lambda: now[0])
    yield phone
    phone.close()


def spent(phone: Client) -> list[tuple[int, str, str]]:
    return [(one.round, str(one.epsilon), one.what) for one in ledger.spends(phone.store)]


def test_its_ledger_and_its_list_are_what_they_were(old: Client, known: dict[str, Any]) -> None:
    assert spent(old) == [tuple(row) for row in known["spent"]]
    verdicts = [old.check(number).action for number in (BLOCKED, WARNED, CLEAN, FRIEND)]
    assert verdicts == [Action.BLOCK, Action.WARN, Action.ALLOW, Action.ALLOW]


def test_its_round_goes_on_and_nobody_is_reported_twice(
    old: Client, service: FakeService, known: dict[str, Any], now: list[int]
) -> None:
    now[0] += DAY // 2
    assert old.report(skip_delays=True).action == "sent"
    assert len(service.reports) == 1
    assert spent(old)[:2] == [tuple(row) for row in known["spent"]]
    for _ in range(20):  # the caller of the first day rings every day, and is in no report for the rest of the horizon
        now[0] += DAY // 2
        old.ingest([Call(DAILY, now[0] - 60, CallKind.MISSED)])
        old.report(skip_delays=True)
        now[0] += DAY // 2
        old.report(skip_delays=True)
    numbers = old.store.rows("SELECT number FROM reported")
    assert (DAILY,) in numbers
    made = old.store.rows("SELECT seq FROM reported WHERE number = ?", DAILY)
    assert made == [(1,)]
    assert len(spent(old)) > len(known["spent"])
