"""Rounds that a person should look at: what holds them, how they stand still, go on or are thrown away."""

from __future__ import annotations

from dataclasses import replace

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

from hushcall.errors import InvalidParameter
from hushcall.server.auth.devices import token_hash
from hushcall.server.db import schema
from hushcall.server.db.rows import existing_round
from hushcall.server.ingest.ingest import Announce, Intake
from hushcall.server.problems import Problem
from hushcall.server.rounds import holding, round_status
from hushcall.server.service import Service

CALLERS = [SPAM] * 6


@pytest.mark.parametrize("reached", UNDER_WAY)
def test_a_held_round_stands_still_and_goes_on_where_it_was(village: Village, clock: Clock, reached: str) -> None:
    service, number = village.service, village.to(reached, CALLERS)
    holding.hold(service.store, number, "to have a look")
    held = round_status.status(service.store, number)
    assert (held["state"], held["reason"]) == ("held", "to have a look")
    service.rounds.advance(int(clock.now) + 10 * PERIOD)
    assert state(service, number) == "held"
    with pytest.raises(InvalidParameter, match=r"Round 1 is held, not under way\."):
        holding.hold(service.store, number, "again")
    holding.release(service.store, number)
    assert (state(service, number), round_status.status(service.store, number)["reason"]) == (reached, "")
    with pytest.raises(InvalidParameter, match=f"Round 1 is {reached}, not held"):
        holding.release(service.store, number)
    for _ in range(3):
        service.rounds.advance(int(clock.now) + 20 * PERIOD)
        clock.now += PERIOD
    assert state(service, number) == "published"


@pytest.mark.parametrize("reached", UNDER_WAY[:2])
def test_a_held_round_takes_nothing(village: Village, reached: str) -> None:
    number = village.to(reached)
    holding.hold(village.service.store, number, "to have a look")
    assert [a.name for a in village.announce(CALLERS) if isinstance(a, Problem)] == ["wrong-phase"] * 6


def test_a_round_held_after_its_close_lets_the_next_one_open(village: Village, clock: Clock) -> None:
    service = village.service
    village.to("closed", CALLERS)
    holding.hold(service.store, 1, "to have a look")
    assert service.rounds.advance(START + PERIOD) == ["round 2 opened"]
    holding.release(service.store, 1)
    assert service.rounds.advance(START + PERIOD) == ["round 1 is decoded", "round 1 is published"]


@pytest.mark.parametrize("step", ["hold", "release"])
def test_a_round_that_is_not_there_cannot_be_held(service: Service, step: str) -> None:
    with pytest.raises(InvalidParameter, match="There is no round yet"):
        holding.hold(service.store, 7, "x") if step == "hold" else holding.release(service.store, 7)


def test_a_published_round_cannot_be_held(village: Village) -> None:
    village.to("published")
    with pytest.raises(InvalidParameter, match="Round 1 is published, not under way"):
        holding.hold(village.service.store, 1, "too late")


@pytest.mark.parametrize("reached", UNDER_WAY)
def test_a_discarded_round_leaves_nothing_about_phones_and_the_next_one_opens(
    village: Village, clock: Clock, reached: str
) -> None:
    service, number = village.service, village.to(reached, CALLERS)
    with pytest.raises(InvalidParameter, match=f"Round 1 is {reached}, not held"):
        holding.discard(service.store, number, "flooded")
    holding.hold(service.store, number, "a look")
    holding.discard(service.store, number, "flooded")
    rows = everything(service)
    assert (rows["announcements"], rows["reports"], rows["hitters"], rows["versions"]) == ([], [], [], [])
    found = newest(service)
    assert (found.state, found.reason, bytes(found.secret)) == ("published", "discarded: flooded", b"")
    assert service.rounds.advance(START + PERIOD) == ["round 2 opened"]
    with pytest.raises(InvalidParameter, match="Round 1 is published, not held"):
        holding.discard(service.store, number, "again")


@pytest.mark.parametrize(("junk", "held"), [(7, True), (6, False)])
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
    reason = "7 of 20 devices had uploads refused, more than 33%"
    assert (found["state"], found["reason"]) == (("held", reason) if held else ("closed", ""))
    if held:
        assert village.service.rounds.advance(CLOSES) == []
        holding.release(village.service.store, 1)
    assert village.service.rounds.advance(CLOSES) == ["round 1 is decoded", "round 1 is published"]


@pytest.mark.parametrize("junk", [16, 49, 50])
def test_sixteen_devices_with_a_bad_upload_each_hold_no_round_of_150(make_service: MakeService, junk: int) -> None:
    service = make_service()
    number = service.rounds.open(service.now)
    with service.store.write("refused") as connection:
        rows = [{"round": number, "device": device, "count": 1} for device in range(1, junk + 1)]
        service.store.insert_new(connection, schema.refusals, rows, key=("round", "device"))
        row = replace(existing_round(connection, number), announced=150)
        reason = holding.reason_to_hold(connection, row, service.settings.guard)
    assert bool(reason) == (junk == 50)


def test_junk_from_two_devices_holds_no_round_and_is_not_listened_to_for_long(
    make_service: MakeService, database: str, clock: Clock
) -> None:
    service = make_service(database, guard={"least": 20, "per_device": 5})
    village = Village(service, clock)
    village.to("announcing", [SPAM] * 20)
    intake = Intake(service.store, "a worker", max_refused=5)
    said = [intake.accept([Announce(token_hash(token), 1, 212)])[0] for token in village.tokens[:2] for _ in range(60)]
    names = [answer.name for answer in said if isinstance(answer, Problem)]
    assert (names.count("already-announced"), names.count("too-many")) == (10, 110)
    another = Intake(service.store, "another worker", max_refused=5)  # learns it from the first junk that it is sent
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
    holding.hold(service.store, number, "odd")
    row = newest(service)
    service.rounds.advance(row.next - 1)
    assert len(service.store.rows(sa.select(schema.announcements))) == len(CALLERS)
    service.rounds.advance(row.next)
    assert service.store.rows(sa.select(schema.announcements)) == []
    with service.store.read() as connection:
        assert existing_round(connection, number).secret == b""
    holding.release(service.store, number)
    assert service.rounds.advance(row.next)[:2] == [f"round {number} is decoded", f"round {number} is published"]
    assert round_status.status(service.store, number)["found"] == 1


def test_a_held_round_forgets_who_asked_for_a_token_too(make_service: MakeService, database: str, clock: Clock) -> None:
    service = make_service(database, round={"anonymous": True})
    village = Village(service, clock)
    number = village.to("closed", CALLERS)
    with service.store.write("a token") as connection:
        connection.execute(sa.insert(schema.issued).values(round=number, device=7, blinded=bytes(32)))
    holding.hold(service.store, number, "odd")
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
    holding.discard(village.service.store, number, "fakes")
    clock.now = newest(village.service).next
    assert state(village.service, village.to("closed", [*usual, *[SPAM] * 40])) == "closed"  # three times is allowed
    clock.now = newest(village.service).next
    fresh = [*usual, *["+14045550100"] * 31]  # an area code that nobody reported from before
    assert round_status.status(village.service.store, village.to("closed", fresh))["reason"].endswith("usual are 0")
