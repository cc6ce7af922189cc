"""The protocol of a phone, round by round: order of steps, limits, and servers that lie."""

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.fake_server import DAY, START, FakeServer, FakeService
from tests.client.world import HALF, World

from hushcall.client.calls import candidates
from hushcall.client.reporting import ledger, participation
from hushcall.client.reporting.consent import Limits
from hushcall.errors import Refused, Unreachable
from hushcall.formats.calls.call import Call, CallKind
from hushcall.mechanisms.mechanism import Mechanism
from hushcall.mechanisms.parameters import from_plain, to_plain
from hushcall.mechanisms.registry import MECHANISMS
from hushcall.mechanisms.subspace.client import Subspace, WholeNumber
from hushcall.protocol.blocklist import iso
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import ByteSource, keyed, seeded
from hushcall.protocol.seeds import derive, report_seed
from hushcall.protocol.wire import COVER

NUMBER = "+12025550143"


@pytest.fixture
def world() -> World:
    return World()


def row_of(world: World, round_: int) -> participation.Participation:
    row = participation.find(world.store, "fake://server", round_)
    assert row is not None
    return row


def test_a_round_announces_then_reports_the_number_that_called(world: World) -> None:
    world.calls(NUMBER)
    first, second = world.day(0)
    assert (first.action, second.action) == ("announced", "sent")
    bucket, ticket = world.service.tickets[1, 1]
    assert bucket == 202
    (report,) = world.bytes_sent()
    public = report_seed(bytes.fromhex(world.service.document()["seed"]), bytes.fromhex(ticket))
    made = Subspace(4.0, 7)
    assert report == made.privatise(5550143, public, rand_of(1, ticket, public, made, 5550143))
    assert [(s.round, s.epsilon, s.mechanism) for s in ledger.spends(world.store)] == [(1, Fraction(4), "subspace")]
    assert world.store.row("SELECT number, at FROM reported") == (NUMBER, START + HALF)


def rand_of(round_: int, ticket: str, public: bytes, made: Mechanism, item: int) -> ByteSource:
    """What a phone of the seeded world throws in a round: a function of its key, the ticket, the odds and the item."""
    plain = json.dumps(to_plain(made), sort_keys=True).encode()
    where = (b"report", b"fake://server", str(round_).encode())
    return keyed(seeded(b"world")(32), *where, ticket.encode(), public, plain, str(item).encode())


def test_a_finished_round_is_left_alone(world: World) -> None:
    world.day(0)
    before = len(world.service.requests)
    assert world.phone.report(skip_delays=True).action == "done"
    assert [r.method for r in world.service.requests[before:]] == ["GET"]


def test_without_hurry_it_waits_for_the_moments_it_drew_and_keeps_them(world: World) -> None:
    first = world.phone.report()
    row = row_of(world, 1)
    assert first.action == "waiting"
    assert first.next_at == row.announce_at
    world.now = row.announce_at - 1
    assert world.phone.report().action == "waiting"
    assert row_of(world, 1) == row
    world.now = row.announce_at
    assert world.phone.report().action == "announced"
    world.now = row.report_at - 1
    assert world.phone.report().action == "waiting"
    assert not ledger.spends(world.store)
    world.now = row.report_at
    assert world.phone.report().action == "sent"


def test_times_are_the_servers_even_if_the_phones_clock_is_hours_off(world: World) -> None:
    world.phone.clock = lambda: world.now + 5 * 3600
    waiting = world.phone.report()
    row = row_of(world, 1)
    assert waiting.next_at == row.announce_at + 5 * 3600
    world.now = row.announce_at
    assert world.phone.report().action == "announced"


@pytest.mark.parametrize("state", ["closed", "decoded", "published", "held"])
def test_between_rounds_it_looks_again_after_a_quarter_of_an_hour(world: World, state: str) -> None:
    """No document says when the next round opens; what has passed is no moment to wait for."""
    world.now = START + DAY - 1
    world.service.state = state
    world.service.changes = {"closes": iso(START + DAY - 3600), "collects": iso(START + HALF), "opens": iso(START)}
    late = world.phone.report()
    assert (late.action, late.next_at) == ("idle", world.now + 900)


def test_a_finished_round_is_looked_at_when_it_closes_and_then_now_and_then(world: World) -> None:
    world.day(0)
    done = world.phone.report()
    assert (done.action, done.next_at) == ("done", START + DAY)
    world.service.changes = {"closes": iso(int(world.now))}
    world.service.state = "published"
    done = world.phone.report()
    assert (done.action, done.next_at) == ("done", world.now + 1)  # it says that reports were due in no time at all
    world.service.changes = {"closes": iso(int(world.now)), "collects": iso(int(world.now) - 400)}
    assert world.phone.report().next_at == world.now + 100  # short phases: a quarter of the shorter one


def test_a_server_that_closes_in_eight_thousand_years_is_looked_at_within_one(world: World) -> None:
    world.service.state = "collecting"
    world.service.changes = {"closes": "9999-12-31T23:59:59Z"}
    assert world.phone.report().next_at == world.now + 366 * DAY


def test_a_skipped_bucket_costs_nothing_and_the_number_waits_for_a_horizon(world: World) -> None:
    world.service.skip = frozenset({202})
    world.calls(NUMBER)
    assert world.day(0)[1].action == "skipped"
    assert not ledger.spends(world.store)
    ((round_, _, cover),) = world.service.covers  # the line sees as many bytes as of a report, at a moment like any
    assert (round_, len(cover), cover[:1]) == (1, 3, COVER)
    world.service.skip = frozenset()
    for day, number in ((1, None), (30, None), (31, NUMBER)):
        world.now = START + day * DAY
        world.calls(NUMBER)
        assert world.day(day)[1].action == "sent"
        assert (row_of(world, day + 1).number == NUMBER) == (number is not None)


def test_a_phone_without_calls_makes_one_up_and_treats_it_like_any_other() -> None:
    quiet, busy = World(), World()
    busy.calls(NUMBER)
    for world in (quiet, busy):
        world.day(0)
    assert row_of(quiet, 1).dummy
    assert not row_of(busy, 1).dummy
    assert quiet.store.rows("SELECT number FROM reported") == [(row_of(quiet, 1).number,)]
    assert busy.store.rows("SELECT number FROM reported") == [(NUMBER,)]
    assert ledger.spent(quiet.store) == ledger.spent(busy.store) == 4
    assert [(r.method, r.size) for r in quiet.service.requests] == [(r.method, r.size) for r in busy.service.requests]


@pytest.mark.parametrize("callers", [0, 1, 5], ids="callers={}".format)
def test_a_caller_is_announced_in_one_round_call_or_no_call(callers: int) -> None:
    """While every bucket is skipped: daily calls, and others that wait, make no difference."""
    world = World()
    world.service.skip = frozenset(NANP.area_codes)
    numbers: list[str] = []
    for day in range(9):
        world.now = START + day * DAY
        world.calls(*(str(NANP.number(area, 5_550_143)) for area in NANP.area_codes[:callers]))
        world.day(day)
        numbers.append(row_of(world, day + 1).number)
    assert len(set(numbers)) == 9
    assert [row_of(world, day + 1).dummy for day in range(9)] == [day >= callers for day in range(9)]
    assert len(world.service.covers) == 9
    assert not ledger.spends(world.store)


def becomes_a_contact(world: World) -> None:
    candidates.add_contacts(world.store, [NUMBER], NANP)


def is_called_back(world: World) -> None:
    world.phone.ingest([Call(NUMBER, int(world.now), CallKind.OUTGOING)])


@pytest.mark.parametrize("mechanism", ["subspace", "whole-number"])
@pytest.mark.parametrize("change", [becomes_a_contact, is_called_back])
def test_a_number_that_becomes_known_after_joining_is_not_reported(
    mechanism: str, change: Callable[[World], None]
) -> None:
    stranger, friend = World(), World()
    for world in (stranger, friend):
        world.service.mechanism = mechanism
        world.calls(NUMBER)
        assert world.phone.report(skip_delays=True).action == "announced"
        world.now += HALF
    change(friend)
    assert [world.phone.report(skip_delays=True).action for world in (stranger, friend)] == ["sent", "sent"]
    row = row_of(friend, 1)
    assert row.dummy
    assert row.number != NUMBER
    assert friend.store.rows("SELECT * FROM reported WHERE number = ?", NUMBER) == []
    if mechanism == "subspace":
        assert NANP.parse(row.number).area == row.bucket == 202  # the announced one, and nothing else on the wire
    assert friend.service.requests == stranger.service.requests
    assert (row_of(stranger, 1).number, row_of(stranger, 1).dummy) == (NUMBER, False)
    # The bytes are those of the stand-in that the diary names.
    made, item = from_plain(row.parameters or {}), MECHANISMS[mechanism].items.item(NANP.parse(row.number), NANP)
    assert row.public is not None
    assert row.report == made.privatise(item, row.public, rand_of(1, row.ticket, row.public, made, item))


def test_one_report_a_round_holds_after_forgetting(world: World) -> None:
    world.calls(NUMBER)
    world.day(0)
    world.store.forget()
    world.calls(NUMBER)
    for state in ("announcing", "collecting"):
        world.service.state = state
        assert world.phone.report(skip_delays=True).action == "done"
    assert [len(offered) for offered in world.service.offered.values()] == [1]
    assert ledger.spent(world.store) == 4


def test_whole_number_rounds_announce_bucket_0(world: World) -> None:
    world.service.mechanism = "whole-number"
    world.calls(NUMBER)
    assert world.day(0)[1].action == "sent"
    assert world.service.tickets[1, 1][0] == 0
    assert WholeNumber(4.0, 7).parse(world.bytes_sent()[0]) < 128
    world.service.mechanism = "subspace"  # from now on it would be told an area code
    stopped = world.day(1)[0]
    assert stopped.action == "stopped"
    assert "took whole numbers until now" in stopped.words


def test_a_lost_answer_is_retried_with_the_same_bytes(world: World) -> None:
    server = world.phone.transport
    assert isinstance(server, FakeServer)
    send, fails = server.send, [True, True]

    def flaky(round_: int, ticket: str, report: bytes) -> None:
        send(round_, ticket, report)
        if fails and fails.pop():
            raise Unreachable("the answer was lost")

    server.send = flaky  # type: ignore[method-assign]
    world.phone.report(skip_delays=True)
    world.now += HALF
    for _ in range(2):
        with pytest.raises(Unreachable):
            world.phone.report(skip_delays=True)
    assert world.phone.report(skip_delays=True).action == "sent"
    assert [len(offered) for offered in world.service.offered.values()] == [1]
    assert ledger.spent(world.store) == 4


def test_too_late_to_send_stays_spent_and_is_closed(world: World) -> None:
    world.calls(NUMBER)
    world.phone.report(skip_delays=True)
    world.now += HALF
    world.service.problems = [Refused("busy", 503, "full")]
    with pytest.raises(Refused, match="busy"):
        world.phone.report(skip_delays=True)
    assert row_of(world, 1).state == participation.RECORDED
    world.now = START + DAY
    world.phone.report(skip_delays=True)
    closed = row_of(world, 1)
    assert (closed.state, closed.why) == (participation.CLOSED, "the round closed before the report arrived")
    assert ledger.spent(world.store) == 4
    assert NUMBER not in candidates.reportable(world.store, int(world.now), 7, 30)  # the server may have it


@pytest.mark.parametrize(
    ("recorded", "state"), [(False, participation.SKIPPED), (True, participation.CLOSED)], ids=["planned", "recorded"]
)
def test_a_round_that_another_one_follows_is_over_and_a_recorded_report_may_be_there(
    world: World, recorded: bool, state: str
) -> None:
    world.calls(NUMBER)
    world.phone.report(skip_delays=recorded)
    if recorded:
        world.now += HALF
        world.service.problems = [Refused("busy", 503, "full")]
        with pytest.raises(Refused, match="busy"):
            world.phone.report(skip_delays=True)
    moments, info = participation.Moments(0, 0), world.phone.transport.current_round()
    participation.join(world.store, "fake://other", info, int(world.now), NUMBER, 202, moments, dummy=False)
    left = row_of(world, 1)
    assert (left.state, left.why) == (state, "the server opened another round")


@pytest.mark.parametrize("problem", ["wrong-phase", "unknown-ticket", "different-report", "malformed-report"])
def test_a_final_refusal_ends_the_round(world: World, problem: str) -> None:
    world.phone.report(skip_delays=True)
    world.now += HALF
    world.service.problems = [Refused(problem, 409, "no")]
    assert world.phone.report(skip_delays=True).action == "closed"
    assert world.phone.report(skip_delays=True).action == "done"
    assert world.service.reports == {}


@pytest.mark.parametrize("problem", ["revoked", "unknown-token", "busy", "too-many"])
def test_a_refusal_that_may_pass_changes_nothing(world: World, problem: str) -> None:
    world.service.problems = [Refused(problem, 403, "no")]
    with pytest.raises(Refused):
        world.phone.report(skip_delays=True)
    assert row_of(world, 1).state == participation.PLANNED
    assert world.phone.report(skip_delays=True).action == "announced"


def test_missing_the_announcing_means_no_part_in_the_round(world: World) -> None:
    world.phone.report()
    world.now = START + HALF
    assert world.phone.report().action == "done"
    assert row_of(world, 1).state == participation.SKIPPED
    late = World(now=START + HALF)
    assert late.phone.report().action == "idle"
    assert late.store.rows("SELECT * FROM rounds") == []


def test_no_round_yet_is_no_error(world: World) -> None:
    def none() -> Any:
        raise Refused("no-round", 404, "none yet")

    world.phone.transport.current_round = none  # type: ignore[method-assign]
    assert world.phone.report().action == "idle"


@given(st.lists(st.sampled_from(["seed", "epsilon", "bits", "state"]), max_size=6))
@settings(max_examples=30, deadline=None)
def test_a_round_announced_again_with_other_terms_gets_no_second_report(changes: list[str]) -> None:
    world = World()
    world.day(0)
    for change in changes:
        match change:
            case "seed":
                world.service.changes["seed"] = derive("other").hex()
            case "epsilon":
                world.service.epsilon = 3.0
            case "bits":
                world.service.parameters = to_plain(Subspace(4.0, 9))
            case "state":
                world.service.state = "announcing" if world.service.state != "announcing" else "collecting"
        world.service.round = 1
        assert world.phone.report(skip_delays=True).action == "done"
    assert ledger.spent(world.store) == 4
    assert {len(offered) for offered in world.service.offered.values()} == {1}


def test_the_owner_limits_the_cost_of_a_report_before_and_after_the_announcement(world: World) -> None:
    world.service.epsilon = 8.0
    assert "owner allows 4" in world.phone.report(skip_delays=True).words
    assert world.service.tickets == {}
    world.service.epsilon = 4.0
    world.phone.report(skip_delays=True)
    world.now += HALF
    world.service.parameters = to_plain(Subspace(8.0, 7))
    assert world.phone.report(skip_delays=True).action == "skipped"
    assert not ledger.spends(world.store)


BAD: list[dict[str, Any]] = [
    {},
    {"mechanism": "subspace"},
    {"mechanism": "nonsense", "epsilon": 1.0},
    {"mechanism": "subspace", "epsilon": -1.0, "bits": 7, "item_bits": 24},
    {"mechanism": "subspace", "epsilon": 4.0, "bits": 7, "item_bits": 3},
    {"mechanism": "subspace", "epsilon": "4", "bits": 7, "item_bits": 24},
]


@pytest.mark.parametrize("parameters", BAD, ids=lambda value: json.dumps(value)[:40])
def test_parameters_that_do_not_hold_cost_nothing(world: World, parameters: dict[str, Any]) -> None:
    world.calls(NUMBER)
    world.phone.report(skip_delays=True)
    world.now += HALF
    world.service.parameters = parameters or {"mechanism": None}
    assert world.phone.report(skip_delays=True).action == "skipped"
    assert not ledger.spends(world.store)
    assert world.service.offered == {}


def test_a_hard_stop_at_a_cap_neither_announces_nor_reports(world: World) -> None:
    Limits(window=Fraction(8), life=Fraction(100)).save(world.store)
    for day in range(2):
        assert world.day(day)[1].action == "sent"
    stopped = world.day(2)[0]
    assert stopped.action == "stopped"
    assert "8 of 8" in stopped.words
    assert len(world.service.tickets) == 2
    assert world.day(8)[1].action == "sent"  # the window has moved on


def test_old_numbers_leave_the_diary_and_the_newest_report_stays(world: World) -> None:
    for day in range(12):
        world.calls(str(NANP.number(202, 5_550_100 + day)))
        world.day(day)
    kept = world.store.rows("SELECT round FROM rounds WHERE number != '' ORDER BY round")
    assert [row[0] for row in kept] == list(range(6, 13))
    assert world.store.row("SELECT count(*) FROM rounds WHERE report IS NOT NULL AND number = ''") == (0,)
    old = world.store.rows("SELECT dummy, bucket, ticket FROM rounds WHERE number = ''")
    assert set(old) == {(0, 0, "")}  # no area code is left of them, either
    assert len(ledger.spends(world.store)) == 12  # the books stay
    world.now = START + 200 * DAY
    world.phone.report(skip_delays=True)
    last = participation.latest(world.store, reported=True)
    assert last is not None
    assert last.round == 12  # until there is a newer one to explain


def test_a_clock_that_ran_ahead_does_not_silence_the_phone_until_it_comes_true(world: World) -> None:
    world.phone.clock = lambda: world.now + 300 * DAY
    world.day(0)
    world.phone.clock = lambda: world.now
    assert world.day(1)[1].action == "sent"
    assert ledger.spent(world.store, START) == 8  # but what was spent stays spent


def test_a_server_that_hurries_gets_one_round_a_day(world: World) -> None:
    for number in range(1, 6):
        world.service.round = number
        world.service.state = "announcing"
        world.phone.report(skip_delays=True)
        world.service.state = "collecting"
        world.phone.report(skip_delays=True)
    assert len(world.service.reports) == 1
    assert len(world.service.tickets) == 1, "it announces once"


@pytest.mark.parametrize(
    ("change", "limits"),
    [
        (lambda s: s.changes.update(plan="elsewhere-2026"), Limits()),
        (lambda s: None, Limits(area_in_clear=False)),
    ],
)
def test_another_plan_or_an_area_code_in_the_clear_needs_consent(
    world: World, change: Callable[[FakeService], None], limits: Limits
) -> None:
    change(world.service)
    limits.save(world.store)
    assert world.phone.report(skip_delays=True).action == "stopped"
    assert world.service.tickets == {}


def test_a_cover_is_sent_once(world: World) -> None:
    world.service.skip = frozenset({202})
    world.calls(NUMBER)
    assert [outcome.action for outcome in world.day(0)] == ["announced", "skipped"]
    for _ in range(3):
        world.now += 60
        assert world.phone.report(skip_delays=True).action == "done"
    assert len(world.service.covers) == 1
