"""The clock's hand when something fails: the other jobs go on, and a healthy worker takes over."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, Clock, Village, newest

from hushcall.errors import InvalidParameter
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
    assert healthy.take_lease()
    assert not ill.take_lease()
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
