"""What a server forgets: reports and tickets after decoding, everything of a discarded round, also in the files."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, Clock, Village, newest

from hushcall.errors import HushcallError, InvalidParameter
from hushcall.server.db import schema
from hushcall.server.ingest.ingest import Intake
from hushcall.server.problems import Problem
from hushcall.server.rounds import holding
from hushcall.server.service import Service

CALLERS = [SPAM] * 40


def _about_phones(service: Service) -> dict[str, int]:
    store = service.store
    tallies = store.rows(sa.select(schema.tallies.c.data))
    return {
        "announcements": len(store.rows(sa.select(schema.announcements.c.device))),
        "reports": len(store.rows(sa.select(schema.reports.c.ticket))),
        "tally bytes": sum(len(row.data) for row in tallies),
        "secret": sum(len(row.secret) for row in store.rows(sa.select(schema.rounds.c.secret))),
    }


def test_after_decoding_only_counts_and_checksums_stay(village: Village) -> None:
    village.to("closed", CALLERS)
    assert _about_phones(village.service)["announcements"] == 40
    village.service.rounds.learn(1)
    assert set(_about_phones(village.service).values()) == {0}
    (tally,) = village.service.store.rows(sa.select(schema.tallies))
    assert tally.count == 40
    assert len(tally.checksum) == 32
    village.service.rounds.publish(1, village.service.now)
    assert village.service.store.rows(sa.select(schema.hitters.c.number)) == [(SPAM,)]


def test_researchers_may_keep_them(make_service: MakeService, clock: Clock) -> None:
    village = Village(make_service(round={"keep_reports": True}), clock)
    village.to("decoded", CALLERS)
    assert min(_about_phones(village.service).values()) > 0


def test_no_ticket_is_left_in_the_files(lite: Service, clock: Clock) -> None:
    village = Village(lite, clock)
    village.to("closed", CALLERS)
    tickets = [bytes(row.ticket) for row in lite.store.rows(sa.select(schema.announcements.c.ticket))]
    secret = bytes(newest(lite).secret)
    lite.rounds.learn(1)
    files = b"".join(path.read_bytes() for path in Path(lite.settings.data).glob("hushcall.db*"))
    assert len(files) > 10_000
    assert not [ticket for ticket in tickets if ticket in files]
    assert secret not in files


def test_a_held_round_can_be_discarded(village: Village) -> None:
    number, store = village.to("closed", CALLERS), village.service.store
    with pytest.raises(InvalidParameter, match="Round 1 is closed, not held"):
        holding.discard(store, number, "no reason")
    holding.hold(store, number, "a flood")
    holding.discard(store, number, "a flood")
    row = newest(village.service)
    assert (row.state, row.reason) == ("published", "discarded: a flood")
    assert set(_about_phones(village.service).values()) == {0}
    assert village.service.rounds.advance(row.next) == ["round 2 opened"]


def test_a_round_that_cannot_be_published_keeps_no_other_from_opening(make_service: MakeService, clock: Clock) -> None:
    service = make_service(list={"allow_command": ["false"]})
    village = Village(service, clock)
    village.to("decoded", CALLERS)
    with pytest.raises(HushcallError):
        service.rounds.advance(newest(service).next)
    assert [row.state for row in service.store.rows(sa.select(schema.rounds.c.state).order_by(schema.rounds.c.id))] == [
        "decoded",
        "announcing",
    ]


def test_a_round_closed_early_by_hand_says_so(lite: Service, clock: Clock) -> None:
    Village(lite, clock).to("collecting", CALLERS)
    clock.now += 1
    lite.rounds.advance(lite.now, force=True)
    assert newest(lite).closes == lite.now


def test_what_is_refused_after_a_round_leaves_no_row_in_it(village: Village) -> None:
    village.to("collecting", CALLERS)
    waiting = village.uploads(CALLERS)
    village.service.rounds.close(1)
    village.service.rounds.learn(1)
    village.service.rounds.publish(1, village.service.now)
    before = village.service.store.rows(sa.select(schema.counters).where(schema.counters.c.round == 1))
    for upload in waiting:
        (answer,) = Intake(village.service.store, "late").accept([upload])
        assert isinstance(answer, Problem)
    assert village.service.store.rows(sa.select(schema.refusals)) == []
    assert village.service.store.rows(sa.select(schema.counters).where(schema.counters.c.round == 1)) == before
