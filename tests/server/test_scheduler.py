"""The clock's hand when something fails: the other jobs go on, and a healthy worker takes over."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, Clock, Village, newest

from hushcall.errors import InvalidParameter
from hushcall.server.db import schema
from hushcall.server.db.leases import LEASE_SECONDS, LostLease
from hushcall.server.db.store import Store
from hushcall.server.scheduler import Scheduler
from hushcall.server.service import Service

DAY = 86_400


def _without_its_keys(service: Service) -> None:
    for file in service.settings.keys.glob("*.pem"):
        file.rename(file.with_suffix(".away"))


def test_rounds_move_although_a_key_is_missing(lite: Service, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    number = Village(lite, clock).to("collecting", [SPAM] * 8)
    _without_its_keys(lite)
    clock.now += 4 * DAY  # signatures are due, too
    hand = Scheduler(lite)
    with caplog.at_level(logging.ERROR, logger="hushcall"):
        assert not hand.turn()
    assert newest(lite).id == number + 1, "the next one has opened"
    jobs = {record.fields["job"]: record.fields["reason"] for record in caplog.records if hasattr(record, "fields")}
    assert set(jobs) == {"signatures", "rounds"}
    assert all("key" in reason for reason in jobs.values())


def test_a_worker_in_which_something_fails_leaves_the_lease_to_a_healthy_one(
    make_service: MakeService, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ill, healthy = make_service(database), make_service(database)

    def fail(*_: Any) -> bool:
        raise InvalidParameter("keys", "hold a timestamp key", "nowhere")

    monkeypatch.setattr(ill.publisher, "refresh", fail)
    hands = Scheduler(ill), Scheduler(healthy)
    assert not hands[0].turn(), "it leads, and fails"
    assert hands[1].turn()
    assert healthy.term.take()
    assert not ill.term.take()
    assert hands[0].turn(), "it does not lead any more"


def test_a_lonely_worker_in_which_something_fails_goes_on(
    lite: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> bool:
        raise OSError

    monkeypatch.setattr(lite.publisher, "refresh", fail)
    hand = Scheduler(lite)
    for state in ("announcing", "collecting", "published"):
        assert not hand.turn()
        assert newest(lite).state == state
        clock.now = newest(lite).deadline or 0  # each is a phase that ends by the clock
    assert not hand.turn()
    assert newest(lite).id == 2


def test_trouble_is_logged_when_it_begins_and_when_it_ends(
    lite: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    work, fails = lite.rounds.advance, True

    def advance(now: int) -> Any:
        if fails:
            raise OSError
        return work(now)

    monkeypatch.setattr(lite.rounds, "advance", advance)
    hand = Scheduler(lite)
    with caplog.at_level(logging.INFO, logger="hushcall"):
        assert not hand.turn()
        assert not hand.turn()
        fails = False
        assert hand.turn()
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "scheduler failed, will retry"
    assert sorted(said[1:]) == ["round opened", "scheduler works again"]


def test_a_clock_that_was_ahead_for_a_moment_does_not_keep_a_round_open(village: Village) -> None:
    service, clock = village.service, village.clock
    village.to("announcing", [SPAM] * 8)
    first = newest(service)
    length = first.closes - first.collects
    clock.now = first.collects + 10 * DAY
    service.rounds.advance(service.now)
    assert newest(service).closes > first.closes + 9 * DAY
    clock.now = first.collects + 5
    service.rounds.advance(service.now)
    row = newest(service)
    assert (row.state, row.closes - service.now) == ("collecting", length)
    clock.now = row.closes
    service.rounds.advance(service.now)
    assert service.store.rows(sa.select(schema.rounds.c.state))[0].state == "published"
    assert (newest(service).id, newest(service).deadline) == (2, service.now + first.collects - first.opens)


def test_a_round_opened_by_a_clock_that_was_ahead_begins_anew(lite: Service, clock: Clock) -> None:
    now = clock.now
    clock.now += 10 * DAY
    lite.rounds.open(lite.now)
    clock.now = now
    lite.rounds.advance(lite.now)
    row = newest(lite)
    assert (row.opens, row.state) == (now, "announcing")


def test_small_steps_of_a_clock_and_rounds_cut_short_change_no_deadline(lite: Service, clock: Clock) -> None:
    lite.rounds.open(lite.now)
    before = newest(lite)
    clock.now -= 100
    lite.rounds.advance(lite.now)
    assert newest(lite) == before
    lite.rounds.advance(lite.now, force=True)
    lite.rounds.advance(lite.now, force=True)
    assert newest(lite).next == before.next


def test_the_lease_goes_by_the_databases_clock(
    make_service: MakeService, postgres: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.fresh()  # type: ignore[attr-defined]
    ahead, right = make_service(url), make_service(url)
    monkeypatch.setattr("hushcall.server.service.time.time", lambda: 4e9)
    assert ahead.term.take()
    (until,) = right.store.rows(sa.select(schema.leases.c.until))[0]
    assert 0 < until - right.store.now() <= LEASE_SECONDS
    for service in (ahead, right):
        service.close()
    postgres.drop(url)  # type: ignore[attr-defined]


def test_a_lease_that_a_clock_ahead_has_written_is_nobodys(
    make_service: MakeService, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0 + 10 * DAY]
    monkeypatch.setattr(Store, "now", lambda _: now[0])
    dead, alive = make_service(database), make_service(database)
    assert dead.term.take()
    now[0] = 1000.0
    assert alive.term.take(), "at once, and not in ten days"


def test_a_leader_that_was_overtaken_stops_at_its_next_beat(
    make_service: MakeService, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(Store, "now", lambda _: now[0])
    slow, quick = make_service(), make_service()
    Village(slow, clock).to("closed", [SPAM] * 8)
    assert slow.term.take()
    now[0] += LEASE_SECONDS + 1  # it was held up
    assert quick.term.take()
    with pytest.raises(LostLease):
        slow.rounds.advance(slow.now)
    assert newest(quick).state == "closed"
    quick.rounds.advance(quick.now)
    assert newest(quick).state == "published"
