"""Rounds move by the clock: every step can be repeated, raced and interrupted, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import shake_256
from typing import Any

import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import (
    CLOSES,
    COLLECTS,
    PERIOD,
    SPAM,
    START,
    UNDER_WAY,
    Clock,
    Village,
    everything,
    newest,
    state,
)

from hushcall.errors import InvalidData, InvalidParameter
from hushcall.protocol.blocklist import Blocklist
from hushcall.server.db import schema
from hushcall.server.db.leases import LEASE_SECONDS, LostLease
from hushcall.server.db.store import Store
from hushcall.server.ingest.ingest import Intake
from hushcall.server.problems import Problem
from hushcall.server.publishing import exclusions
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.rounds import round_status, state_machine
from hushcall.server.scheduler import Scheduler
from hushcall.server.service import Service

CALLERS = [SPAM] * 6
OTHER = "+13035550100"
Step = Callable[[Service, int], object]
STEPS: dict[str, Step] = {
    "open": lambda service, _: service.rounds.open(service.now),
    "start collecting": lambda service, number: service.rounds.start_collecting(number, service.now),
    "close": lambda service, number: service.rounds.close(number),
    "publish": lambda service, number: service.rounds.publish(number, service.now),
}


def listed(service: Service) -> Blocklist:
    with service.store.read() as connection:
        found = newest_list(connection)
    assert found is not None
    return found


@pytest.mark.parametrize("reached", [*UNDER_WAY, "published"])
def test_a_step_that_is_not_due_or_was_taken_changes_nothing(village: Village, reached: str) -> None:
    service, number = village.service, village.to(reached, CALLERS)
    due = {"announcing": "start collecting", "collecting": "close", "decoded": "publish", "published": "open"}.get(
        reached
    )
    before = everything(service)
    for name, step in STEPS.items():
        if name not in (due, "open" if reached in ("closed", "decoded") else ""):
            step(service, number)
            assert everything(service) == before, name
    if reached in ("decoded", "published"):
        service.rounds.learn(number)
        assert everything(service) == before


@pytest.mark.parametrize("name", [*STEPS, "learn"])
def test_a_step_taken_twice_is_taken_once(village: Village, name: str) -> None:
    service = village.service
    start = {"open": "announcing", "start collecting": "announcing", "close": "collecting", "learn": "closed"}
    step: Step = STEPS.get(name) or (lambda service, number: service.rounds.learn(number))
    number = village.to(start.get(name, "decoded"), CALLERS)
    step(service, number)
    after = everything(service)
    step(service, number)
    assert everything(service) == after


def test_a_round_passes_through_its_states_as_time_does(village: Village, clock: Clock) -> None:
    service = village.service
    assert service.rounds.advance(START) == ["round 1 opened"]
    village.announce(CALLERS)
    assert service.rounds.advance(COLLECTS - 1) == []
    clock.now = COLLECTS
    assert service.rounds.advance(COLLECTS) == ["round 1 is collecting"]
    village.report(CALLERS)
    assert service.rounds.advance(CLOSES - 1) == []
    assert service.rounds.advance(CLOSES) == [f"round 1 is {s}" for s in ("closed", "decoded", "published")]
    assert service.rounds.advance(START + PERIOD - 1) == []
    assert service.rounds.advance(START + PERIOD) == ["round 2 opened"]
    assert [entry.number for entry in listed(service).entries] == [SPAM]


@pytest.mark.parametrize(
    ("period", "window", "days"), [(86_400, 7, 7), (3600, 48, 2), (3600, 49, 3), (3600, 7, 1), (14 * 86_400, 366, 366)]
)
def test_a_window_of_rounds_is_a_window_of_days_for_clients(
    make_service: MakeService, period: int, window: int, days: int
) -> None:
    service = make_service(round={"period": period}, list={"window": window})
    service.rounds.open(START)
    row = newest(service)
    assert (row.window, row.window_days) == (days, days)
    assert round_status.round_info(service.store, row, START).to_plain()["window"] == days


def test_a_round_opened_before_keeps_the_window_that_it_was_signed_with(make_service: MakeService) -> None:
    service = make_service(round={"period": 3600})
    service.rounds.open(START)
    with service.store.write("as before") as connection:
        connection.execute(sa.update(schema.rounds).values(call_days=0))
    assert newest(service).window_days == newest(service).window == 7


def test_force_takes_one_step_whatever_the_time_is(village: Village) -> None:
    service = village.service
    done = [service.rounds.advance(START, force=True) for _ in range(4)]
    decided, over = ["round 1 is collecting"], [f"round 1 is {s}" for s in ("closed", "decoded", "published")]
    assert done == [["round 1 opened"], decided, over, ["round 2 opened"]]


def test_two_servers_that_advance_one_database_at_once_give_one_result(
    make_service: MakeService, database: str, clock: Clock
) -> None:
    pair = [make_service(database), make_service(database)]
    for one in pair:  # whichever of them opens a round, it is the same round
        one.rounds.rand = lambda count: shake_256(b"either of two").digest(count)
    village = Village(pair[0], clock)

    def both(now: int) -> None:
        clock.now = now
        together = threading.Barrier(2)

        def advance(service: Service) -> list[str]:
            together.wait(60)
            return service.rounds.advance(now)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(advance, pair))

    for number in (1, 2, 3):
        opens = START + (number - 1) * PERIOD
        both(opens)
        village.announce(CALLERS)
        both(opens + PERIOD // 2)
        village.report(CALLERS)
        both(opens + round(PERIOD * 0.95))
        assert state(pair[0], number) == "published"
    store = pair[0].store
    assert [row.id for row in store.rows(sa.select(schema.rounds.c.id).order_by(schema.rounds.c.id))] == [1, 2, 3]
    assert [row.count for row in store.rows(sa.select(schema.tallies.c.count))] == [6, 6, 6]
    versions = store.rows(sa.select(schema.versions.c.version, schema.versions.c.round).order_by("version"))
    assert [tuple(row) for row in versions] == [(1, 1), (2, 2), (3, 3)]
    (entry,) = listed(pair[1]).entries
    assert (entry.number, entry.days) == (SPAM, 3)


def test_lists_that_are_published_at_once_all_count(village: Village) -> None:
    numbers = [f"+1202555{n:04d}" for n in range(100, 106)]
    village.to("published", [number for number in numbers for _ in range(6)])
    service = village.service
    assert {entry.number for entry in listed(service).entries} == set(numbers)
    together = threading.Barrier(len(numbers))

    def take_off(number: str) -> None:
        exclusions.appeal(service.store, number, "wrong", "a test", service.now)
        together.wait(60)
        service.publisher.republish(service.now)

    with ThreadPoolExecutor(len(numbers)) as pool:
        list(pool.map(take_off, numbers))
    assert listed(service).entries == ()


def test_a_round_that_cannot_be_published_waits_and_the_next_one_opens(
    make_service: MakeService, database: str, clock: Clock
) -> None:
    service = make_service(database, list={"allow_file": "absent.txt"})
    Village(service, clock).to("closed", CALLERS)
    for _ in range(2):
        with pytest.raises(InvalidData, match="allow_file must be a readable text file"):
            service.rounds.advance(START + PERIOD)
    assert (state(service, 1), state(service, 2)) == ("decoded", "announcing")
    mended = make_service(database)
    assert mended.rounds.advance(START + PERIOD) == ["round 1 is published"]


def test_a_round_closed_by_hand_says_when(village: Village) -> None:
    village.to("collecting", CALLERS)
    village.service.rounds.advance(COLLECTS + 7, force=True)
    assert newest(village.service).closes == COLLECTS + 7


def test_phones_get_their_full_time_when_the_server_overslept(village: Village, clock: Clock) -> None:
    rounds_of = village.service.rounds
    rounds_of.advance(START)
    clock.now = COLLECTS + 300
    rounds_of.advance(COLLECTS + 300)
    row = newest(village.service)
    assert (row.state, row.collects, row.closes) == ("collecting", COLLECTS + 300, CLOSES + 300)
    assert row.next == CLOSES + 300
    assert rounds_of.advance(CLOSES + 299) == []
    assert "round 2 opened" in rounds_of.advance(CLOSES + 300)


def test_rounds_that_were_slept_through_are_left_out_and_the_rhythm_is_kept(village: Village) -> None:
    village.to("published", CALLERS)
    rounds_of = village.service.rounds
    rounds_of.advance(START + 5 * PERIOD + 10)
    row = newest(village.service)
    assert (row.id, row.opens, row.collects) == (2, START + 5 * PERIOD, START + 5 * PERIOD + PERIOD // 2)


@pytest.mark.parametrize(("late", "length"), [(0.6, 0.4 + 1.0), (0.5, 0.5), (0.95, 0.05 + 1.0)])
def test_who_slept_through_the_announcing_still_gives_phones_time_to_announce(
    village: Village, late: float, length: float
) -> None:
    village.to("published", CALLERS)
    now = START + round((5 + late) * PERIOD)
    village.service.rounds.advance(now)
    row = newest(village.service)
    assert (row.id, row.opens, row.state) == (2, now, "announcing")
    assert row.collects == now + round(length * PERIOD / 2)
    assert row.next == now + round(length * PERIOD)
    assert (row.next - START) % PERIOD == 0, "and the rhythm is kept"


def test_raw_reports_announcements_and_the_secret_go_once_the_round_is_decoded(village: Village) -> None:
    village.to("decoded", CALLERS)
    rows = everything(village.service)
    assert (rows["reports"], rows["announcements"]) == ([], [])
    assert bytes(newest(village.service).secret) == b""
    assert round_status.status(village.service.store)["reports"] == 6


def test_a_setting_keeps_raw_reports(make_service: MakeService, database: str, clock: Clock) -> None:
    village = Village(make_service(database, round={"keep_reports": True}), clock)
    village.to("decoded", CALLERS)
    rows = everything(village.service)
    assert (len(rows["reports"]), len(rows["announcements"])) == (6, 6)


def test_reports_that_are_kept_are_counted_once(make_service: MakeService, database: str, clock: Clock) -> None:
    village = Village(make_service(database, round={"keep_reports": True}), clock)
    number = village.to("announcing", [SPAM] * 8 + [OTHER] * 8)
    clock.now = COLLECTS
    village.service.rounds.start_collecting(number, COLLECTS)
    village.report([SPAM] * 6)  # two of them, and all the others, stay silent
    assert round_status.status(village.service.store)["reports"] == 6
    clock.now = CLOSES
    village.service.rounds.close(number)
    village.service.rounds.learn(number)
    assert round_status.status(village.service.store)["reports"] == 6


def test_a_bucket_too_small_is_skipped_and_the_round_goes_on(village: Village) -> None:
    village.to("published", ["+12125550143", *CALLERS])
    found = round_status.status(village.service.store, 1)
    assert (found["buckets_run"], found["buckets_skipped"], found["reports"], found["found"]) == (1, 1, 6, 1)


def test_one_scheduler_at_a_time_has_the_lease(
    make_service: MakeService, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(Store, "now", lambda _: now[0])
    one, two = make_service(database), make_service(database)
    assert (one.term.take(), two.term.take(), one.term.take()) == (True, False, True)
    now[0] += LEASE_SECONDS - 1
    assert one.term.take()
    now[0] += 2
    assert (two.term.take(), one.term.take()) == (False, True)
    now[0] += LEASE_SECONDS + 1
    assert two.term.take()
    for _ in range(2):
        with pytest.raises(LostLease), one.store.write("too late") as connection:
            one.term.fence(connection)
    assert (two.term.take(), one.term.take()) == (True, False)
    with one.store.write("by hand") as connection:
        one.term.fence(connection)  # it knows by now, and a step by hand goes on
    assert (two.term.take(), one.term.take()) == (True, False)


def test_the_scheduler_goes_on_after_an_error_and_logs_it_once(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, calls, enough, lines = make_service(round={"period": 1}), [0], threading.Event(), list[dict[str, object]]()

    def advance(*_: object, **__: object) -> list[str]:
        calls[0] += 1
        if calls[0] == 4:
            enough.set()
        if calls[0] < 4:
            raise InvalidParameter("allow_command", "be a command", SPAM)
        return []

    monkeypatch.setattr(service.rounds, "advance", advance)
    monkeypatch.setattr("hushcall.server.scheduler.log", lambda _, **fields: lines.append(fields))
    scheduler = Scheduler(service)
    scheduler.start()
    assert enough.wait(60)
    scheduler.stop()
    assert [line["reason"] for line in lines if "reason" in line] == ["allow_command must be a command"]


def test_who_announces_while_buckets_are_planned_is_counted(village: Village, monkeypatch: pytest.MonkeyPatch) -> None:
    number = village.to("announcing", CALLERS)
    plan, late = state_machine._planned_buckets, [OTHER] * 3

    def slowly(connection: sa.Connection, round_id: int) -> list[dict[str, Any]]:
        planned = plan(connection, round_id)
        if late:
            village.announce([*CALLERS, *late])
            late.clear()
        return planned

    monkeypatch.setattr(state_machine, "_planned_buckets", slowly)
    village.clock.now = newest(village.service).collects
    village.service.rounds.start_collecting(number, village.service.now)
    users = village.service.store.rows(sa.select(sa.func.sum(schema.buckets.c.users)))[0][0]
    assert users == newest(village.service).announced == len(CALLERS) + 3


def test_a_report_after_the_close_is_refused_whatever_the_clock_says(village: Village) -> None:
    number = village.to("announcing", CALLERS)
    village.clock.now = newest(village.service).collects
    village.service.rounds.start_collecting(number, village.service.now)
    waiting = village.uploads(CALLERS)
    village.service.rounds.close(number)
    answers = Intake(village.service.store, "late").accept(waiting)
    assert [answer.name for answer in answers if isinstance(answer, Problem)] == ["wrong-phase"] * len(CALLERS)
    assert village.service.store.rows(sa.select(schema.reports)) == []


def test_sqlite_drops_the_reports_of_a_bucket_with_its_tally(lite: Service, clock: Clock) -> None:
    """In one transaction: a copy of the file at any moment has the reports or their sum."""
    number = Village(lite, clock).to("closed", CALLERS)
    seen = []

    def look(step: str) -> None:
        if step.startswith("seal bucket") and step.endswith("after commit"):
            bucket = int(step.split()[2].rstrip(":"))
            table = schema.reports.c
            mine = sa.select(sa.func.count()).where(table.round == number, table.bucket == bucket)
            seen.append(lite.store.rows(mine)[0][0])

    object.__setattr__(lite.store, "fault", look)
    lite.rounds.learn(number)
    assert seen
    assert not any(seen)
