"""Windows in the service: evidence of several rounds is put together, and tallies stay for as long as it takes.

``cheapest`` reports are nearly noiseless, so what a window finds here does not depend on luck: six phones a day are
below what a day may list with a tolerance of three (a day), and above it in two days together.
"""

from __future__ import annotations

import dataclasses
import json

import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, Clock, Village, bearer, operator_token, serving

from hushcall.mechanisms.profiles import PROFILES
from hushcall.protocol.randomness import seeded
from hushcall.server.db import schema
from hushcall.server.db.rows import RoundRow
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.rounds import holding
from hushcall.server.rounds.round_data import rounds_in_window
from hushcall.server.service import Service

OTHERS = [f"+1202555{place:04}" for place in range(200, 240)]
DAY = [SPAM] * 6 + OTHERS
WEEK = {"windows": [1, 2, 4], "tolerance": 3}


@pytest.fixture
def village(make_service: MakeService, database: str, clock: Clock) -> Village:
    service = make_service(database, seeded(b"windows"), round=WEEK)
    return Village(service, clock)


def findings(service: Service) -> list[tuple[int, str, int]]:
    table = schema.hitters.c
    rows = service.store.rows(sa.select(table.round, table.number, table.length).order_by(table.round, table.number))
    return [tuple(row) for row in rows]


def kept(service: Service) -> list[int]:
    """The rounds whose tallies still hold reports."""
    table = schema.tallies.c
    query = sa.select(table.round).where(sa.func.length(table.data) > 0).distinct().order_by(table.round)
    return [row.round for row in service.store.rows(query)]


def test_what_no_day_shows_two_days_do_and_the_list_says_so(village: Village) -> None:
    assert village.to("published", DAY) == 1
    assert findings(village.service) == []
    assert village.to("published", DAY) == 2
    assert findings(village.service) == [(2, SPAM, 2)]
    with village.service.store.read() as connection:
        made = newest_list(connection)
    assert made is not None
    (entry,) = made.entries
    assert (entry.number, entry.days, entry.window, made.format) == (SPAM, 1, 2, "hushcall-list/2")
    assert entry.estimate == pytest.approx(12, abs=2.5)
    assert not made.header.block(entry)  # that takes reports of later rounds


def test_tallies_stay_for_the_window_and_not_a_round_longer(village: Village) -> None:
    for _ in range(6):
        village.to("published", DAY)
    assert kept(village.service) == [4, 5, 6]  # of a window of four: the three that the next round looks at


def test_lies_up_to_the_tolerance_list_nobody_and_more_evidence_does(village: Village) -> None:
    """Of one round: six supporting reports less three are nothing, twenty less three are something."""
    village.to("published", DAY)
    assert findings(village.service) == []
    village.clock.now += 10_000
    holding.discard(village.service.store, _held(village), "so that no window has it")
    village.to("published", [SPAM] * 20 + OTHERS)
    assert [found[1:] for found in findings(village.service)] == [(SPAM, 1)]


def _held(village: Village) -> int:
    """A round that is stopped before it is decoded."""
    number = village.to("closed", OTHERS)
    holding.hold(village.service.store, number, "a test")
    village.clock.now += 10_000
    return number


def test_rounds_with_other_parameters_add_up(village: Village) -> None:
    """A busier day has another b: its reports are of another kind, and count all the same."""
    village.to("published", DAY)
    village.to("published", [*DAY, *(f"+1202555{place:04}" for place in range(1000, 1300))])
    parameters = {
        row.parameters
        for row in village.service.store.rows(sa.select(schema.buckets).where(schema.buckets.c.bucket == 202))
    }
    assert len(parameters) == 2
    assert findings(village.service) == [(2, SPAM, 2)]


def test_a_number_warns_first_and_blocks_from_its_second_day(village: Village) -> None:
    loud, blocks = [SPAM] * 20 + OTHERS, []
    for _ in range(2):
        village.to("published", loud)
        with village.service.store.read() as connection:
            made = newest_list(connection)
        assert made is not None
        (entry,) = made.entries
        assert entry.window == 1
        blocks.append(made.header.block(entry))
    assert blocks == [False, True]


def test_a_window_of_one_keeps_nothing(make_service: MakeService, database: str, clock: Clock) -> None:
    service = make_service(database, seeded(b"windows"), round={"windows": [1]})
    village = Village(service, clock)
    for _ in range(2):
        village.to("published", DAY)
    assert kept(service) == []


def test_a_discarded_round_leaves_every_window(village: Village) -> None:
    first = village.to("closed", DAY)
    store = village.service.store
    holding.hold(store, first, "odd")
    holding.discard(store, first, "a flood")
    village.clock.now += 1000
    village.to("published", DAY)
    assert findings(village.service) == []
    assert kept(village.service) == [2]


def test_a_held_round_keeps_what_it_needs_to_go_on_however_late(village: Village) -> None:
    first = village.to("closed", DAY)
    holding.hold(village.service.store, first, "odd")
    village.clock.now += 1000
    for _ in range(5):
        village.to("published", OTHERS)
    assert findings(village.service) == []
    holding.release(village.service.store, first)
    done = village.service.rounds.advance(village.service.now)
    assert done[:2] == ["round 1 is decoded", "round 1 is published"]
    assert kept(village.service) == [4, 5, 6]


def test_rounds_of_another_plan_or_mechanism_are_in_no_window(village: Village) -> None:
    for change in ({"plan": "another-2026"}, {"profile": json.dumps(PROFILES["paper"].to_plain())}):
        round_id = village.to("published", DAY)
        with village.service.store.write("test") as connection:
            mine = schema.rounds.c.id == round_id
            before = connection.execute(sa.select(schema.rounds).where(mine)).one()
            connection.execute(sa.update(schema.rounds).where(mine).values(**change))
            later = dataclasses.replace(RoundRow.of(before), id=round_id + 1)
            assert rounds_in_window(connection, later) == [round_id + 1]


def test_the_pages_say_over_how_many_rounds_and_what_phones_do(
    make_service: MakeService, database: str, clock: Clock
) -> None:
    service = make_service(database, seeded(b"windows"), round=WEEK, list={"block_days": 4})
    village = Village(service, clock)
    for _ in range(2):
        village.to("published", DAY)
    with service.store.write("test") as connection:
        connection.execute(sa.update(schema.hitters).values(implausible=True))
    token = operator_token(service)
    with serving(service) as client:
        client.post("/login", data={"token": token})
        number = client.get(f"/numbers/{SPAM}").text
        assert "2 rounds" in number
        assert "over 2 rounds" in number
        assert "warn, and let it ring" in number
        assert "over 2 rounds" in client.get("/rounds/2").text
        assert "more reports than phones" in client.get("/rounds/2").text
        assert "round 2 found numbers (1) with more reports than it has phones" in client.get("/").text
        history = client.get(f"/v1/admin/numbers/{SPAM}", headers=bearer(token)).json()
        assert [one["length"] for one in history["seen"]] == [2]
