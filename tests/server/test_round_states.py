"""Rounds move by the clock: every step can be repeated, raced and interrupted, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import shake_256
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import CLOSES, COLLECTS, PERIOD, SPAM, START, Clock, Village, everything, newest

from hushcall.errors import InvalidData, InvalidParameter
from hushcall.protocol.blocklist import Blocklist
from hushcall.server import service as service_module
from hushcall.server.access.tokens import token_hash
from hushcall.server.db import schema
from hushcall.server.db.rows import existing_round
from hushcall.server.intake.intake import Announce, Intake
from hushcall.server.problems import Problem
from hushcall.server.publishing import appeals
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.rounds import round_status
from hushcall.server.scheduler import Scheduler
from hushcall.server.service import LEASE_SECONDS, Service

CALLERS = [SPAM] * 6
STATES = ("announcing", "collecting", "closed", "decoded")
Step = Callable[[Service, int], object]
STEPS: dict[str, Step] = {
    "open": lambda service, _: service.rounds.open(service.now),
    "start collecting": lambda service, number: service.rounds.start_collecting(number, service.now),
    "close": lambda service, number: service.rounds.close(number),
    "publish": lambda service, number: service.rounds.publish(number, service.now),
}


def state(service: Service, number: int = 1) -> str:
    return str(round_status.status(service.store, number)["state"])


def listed(service: Service) -> Blocklist:
    with service.store.read() as connection:
        found = newest_list(connection)
    assert found is not None
    return found


@pytest.mark.parametrize("reached", [*STATES, "published"])
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
        one.rounds.coins = lambda count: shake_256(b"either of two").digest(count)
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
        appeals.appeal(service.store, number, "wrong", "a test", service.now)
        together.wait(60)
        service.publisher.republish(service.now)

    with ThreadPoolExecutor(len(numbers)) as pool:
        list(pool.map(take_off, numbers))
    assert listed(service).entries == ()


@pytest.mark.parametrize("reached", STATES)
def test_a_held_round_stands_still_and_goes_on_where_it_was(village: Village, clock: Clock, reached: str) -> None:
    service, number = village.service, village.to(reached, CALLERS)
    service.rounds.hold(number, "to have a look")
    held = round_status.status(service.store, number)
    assert (held["state"], held["reason"]) == ("held", "to have a look")
    service.rounds.advance(int(clock.now) + 10 * PERIOD)
    assert state(service, number) == "held"
    with pytest.raises(InvalidParameter, match="round must be one that is still under way, got '1, held'"):
        service.rounds.hold(number, "again")
    service.rounds.release(number)
    assert (state(service, number), round_status.status(service.store, number)["reason"]) == (reached, "")
    with pytest.raises(InvalidParameter, match=f"round must be held, got '1, {reached}'"):
        service.rounds.release(number)
    for _ in range(3):
        service.rounds.advance(int(clock.now) + 20 * PERIOD)
        clock.now += PERIOD
    assert state(service, number) == "published"


@pytest.mark.parametrize("reached", STATES[:2])
def test_a_held_round_takes_nothing(village: Village, reached: str) -> None:
    number = village.to(reached)
    village.service.rounds.hold(number, "to have a look")
    assert [a.name for a in village.announce(CALLERS) if isinstance(a, Problem)] == ["wrong-phase"] * 6


def test_a_round_held_after_its_close_lets_the_next_one_open(village: Village, clock: Clock) -> None:
    service = village.service
    village.to("closed", CALLERS)
    service.rounds.hold(1, "to have a look")
    assert service.rounds.advance(START + PERIOD) == ["round 2 opened"]
    service.rounds.release(1)
    assert service.rounds.advance(START + PERIOD) == ["round 1 is decoded", "round 1 is published"]


@pytest.mark.parametrize("step", ["hold", "release"])
def test_a_round_that_is_not_there_cannot_be_held(service: Service, step: str) -> None:
    with pytest.raises(InvalidParameter, match="round must be one of this server, got 7"):
        service.rounds.hold(7, "x") if step == "hold" else service.rounds.release(7)


def test_a_published_round_cannot_be_held(village: Village) -> None:
    village.to("published")
    with pytest.raises(InvalidParameter, match="got '1, published'"):
        village.service.rounds.hold(1, "too late")


@pytest.mark.parametrize("reached", STATES)
def test_a_discarded_round_leaves_nothing_about_phones_and_the_next_one_opens(
    village: Village, clock: Clock, reached: str
) -> None:
    service, number = village.service, village.to(reached, CALLERS)
    with pytest.raises(InvalidParameter, match=f"round must be held, got '1, {reached}'"):
        service.rounds.discard(number, "flooded")
    service.rounds.hold(number, "a look")
    service.rounds.discard(number, "flooded")
    rows = everything(service)
    assert (rows["announcements"], rows["reports"], rows["hitters"], rows["versions"]) == ([], [], [], [])
    found = newest(service)
    assert (found.state, found.reason, bytes(found.secret)) == ("published", "discarded: flooded", b"")
    assert service.rounds.advance(START + PERIOD) == ["round 2 opened"]
    with pytest.raises(InvalidParameter, match="round must be held"):
        service.rounds.discard(number, "again")


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


@pytest.mark.parametrize(("junk", "held"), [(3, True), (2, False)])
def test_a_round_in_which_many_devices_were_refused_is_held_at_its_close(
    make_service: MakeService, database: str, clock: Clock, junk: int, held: bool
) -> None:
    village = Village(make_service(database, guard={"least": 20}), clock)
    village.to("announcing", [SPAM] * 20)
    village.announce(["+12125550143"] * junk)  # devices that announced another bucket before
    clock.now = COLLECTS
    village.service.rounds.start_collecting(1, COLLECTS)
    village.report([SPAM] * 20)
    village.service.rounds.close(1)
    found = round_status.status(village.service.store)
    reason = "3 of 20 devices had uploads refused, more than 10%"
    assert (found["state"], found["reason"]) == (("held", reason) if held else ("closed", ""))
    if held:
        assert village.service.rounds.advance(CLOSES) == []
        village.service.rounds.release(1)
    assert village.service.rounds.advance(CLOSES) == ["round 1 is decoded", "round 1 is published"]


def test_junk_from_two_devices_holds_no_round_and_is_not_listened_to_for_long(
    make_service: MakeService, database: str, clock: Clock
) -> None:
    service = make_service(database, guard={"least": 20, "per_device": 5})
    village = Village(service, clock)
    village.to("announcing", [SPAM] * 20)
    intake = Intake(service.store, "a worker", most_refused=5)
    said = [intake.accept([Announce(token_hash(token), 1, 212)])[0] for token in village.tokens[:2] for _ in range(60)]
    names = [answer.name for answer in said if isinstance(answer, Problem)]
    assert (names.count("already-announced"), names.count("too-many")) == (10, 110)
    another = Intake(service.store, "another worker", most_refused=5)  # learns it from the first junk that it is sent
    told = [another.accept([Announce(token_hash(village.tokens[0]), 1, 212)])[0] for _ in range(3)]
    assert [answer.name for answer in told if isinstance(answer, Problem)] == ["already-announced", *["too-many"] * 2]
    clock.now = COLLECTS
    service.rounds.start_collecting(1, COLLECTS)
    village.report([SPAM] * 20)
    service.rounds.close(1)
    assert state(service) == "closed"
    service.rounds.learn(1)
    assert service.store.rows(sa.select(schema.refusals)) == []  # who sent junk is forgotten with the rest


def test_a_held_round_forgets_who_announced_what_when_the_next_one_opens(village: Village) -> None:
    service = village.service
    number = village.to("closed", CALLERS)
    service.rounds.hold(number, "odd")
    row = newest(service)
    service.rounds.advance(row.next - 1)
    assert len(service.store.rows(sa.select(schema.announcements))) == len(CALLERS)
    service.rounds.advance(row.next)
    assert service.store.rows(sa.select(schema.announcements)) == []
    with service.store.read() as connection:
        assert existing_round(connection, number).secret == b""
    service.rounds.release(number)
    assert service.rounds.advance(row.next)[:2] == [f"round {number} is decoded", f"round {number} is published"]
    assert round_status.status(service.store, number)["found"] == 1


def test_a_held_round_forgets_who_asked_for_a_token_too(make_service: MakeService, database: str, clock: Clock) -> None:
    service = make_service(database, round={"anonymous": True})
    village = Village(service, clock)
    number = village.to("closed", CALLERS)
    with service.store.write("a token") as connection:
        connection.execute(sa.insert(schema.issued).values(round=number, device=7, blinded=bytes(32)))
    service.rounds.hold(number, "odd")
    service.rounds.advance(newest(service).next)
    assert service.store.rows(sa.select(schema.issued)) == []
    query = sa.select(schema.anonymity.c.token_secret).where(schema.anonymity.c.round == number)
    assert [bytes(row.token_secret) for row in service.store.rows(query)] == [b""]


@pytest.mark.parametrize(("devices", "held"), [(31, True), (30, False), (4, False), (3, True)])
def test_a_round_with_far_more_or_fewer_devices_than_usual_is_held(
    make_service: MakeService, database: str, clock: Clock, devices: int, held: bool
) -> None:
    village = Village(make_service(database, guard={"least": 10}), clock)
    for _ in range(3):
        village.to("published", [SPAM] * 10)
    number = village.to("closed", [SPAM] * devices)
    found = round_status.status(village.service.store, number)
    reason = f"{devices} devices took part, usual are 10" if held else ""
    assert (found["state"], found["reason"]) == ("held" if held else "closed", reason)


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


def test_a_bucket_too_small_is_skipped_and_the_round_goes_on(village: Village) -> None:
    village.to("published", ["+12125550143", *CALLERS])
    found = round_status.status(village.service.store, 1)
    assert (found["buckets_run"], found["buckets_skipped"], found["reports"], found["found"]) == (1, 1, 6, 1)


def test_one_scheduler_at_a_time_has_the_lease(
    make_service: MakeService, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(service_module, "time", SimpleNamespace(time=lambda: now[0]))
    one, two = make_service(database), make_service(database)
    two.renew_lease()  # nobody has it: a step by hand takes none
    assert (one.take_lease(), two.take_lease(), one.take_lease()) == (True, False, True)
    now[0] += LEASE_SECONDS - 1
    one.renew_lease()
    now[0] += 2
    assert (two.take_lease(), one.take_lease()) == (False, True)
    now[0] += LEASE_SECONDS + 1
    assert (two.take_lease(), one.take_lease()) == (True, False)
    one.renew_lease()
    assert (two.take_lease(), one.take_lease()) == (True, False)


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


def test_a_round_in_which_one_area_code_outgrows_its_own_history_is_held(
    make_service: MakeService, clock: Clock
) -> None:
    village = Village(make_service(guard={"least": 10, "devices": 50.0}), clock)
    usual = [SPAM] * 20 + ["+13035550100"] * 60
    for _ in range(3):
        village.to("published", usual)
    number = village.to("closed", [*usual, *[SPAM] * 41])
    found = round_status.status(village.service.store, number)
    assert (found["state"], found["reason"]) == ("held", "61 devices took part in area code 202, usual are 20")
    village.service.rounds.discard(number, "fakes")
    clock.now = newest(village.service).next
    assert state(village.service, village.to("closed", [*usual, *[SPAM] * 40])) == "closed"  # three times is allowed
    clock.now = newest(village.service).next
    fresh = [*usual, *["+14045550100"] * 31]  # an area code that nobody reported from before
    assert round_status.status(village.service.store, village.to("closed", fresh))["reason"].endswith("usual are 0")
