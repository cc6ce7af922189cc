"""A phone sends one report a day, in a round that it drew before the day, whatever the server's schedule is."""

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest
from tests.client.fake_server import DAY, START, FakeService
from tests.client.world import World

from hushcall.client.reporting import ledger
from hushcall.client.reporting.consent import Limits
from hushcall.protocol.blocklist import iso
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import ByteSource, seeded

HOUR = 3600


@dataclass
class Schedule(FakeService):
    """Rounds (id, opens, collects, closes, next), the newest of which is current. Ids rise, times may overlap."""

    rounds: list[tuple[int, int, int, int, int]] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        now = int(self.clock())
        number, opens, collects, closes, following = next(each for each in reversed(self.rounds) if each[1] <= now)
        self.round = number
        self.state = "announcing" if now < collects else "collecting" if now < closes else "published"
        times = {"opens": opens, "collects": collects, "closes": closes, "next": following}
        return super().document() | {name: iso(moment) for name, moment in times.items()}


def reports_a_day(world: World, days: int, *, wakes: int = 900) -> list[int]:
    """Reports by day of a phone that runs when it said, or at least every ``wakes`` seconds."""
    Limits(window=Fraction(1000), life=Fraction(1000)).save(world.store)
    pool, next_calls = [str(NANP.number(202, 5_550_100 + i)) for i in range(99)], START
    while world.now < START + days * DAY:
        if world.now >= next_calls:
            world.calls(*pool)
            next_calls += DAY
        outcome = world.phone.report()
        assert outcome.next_at is not None
        world.now = min(max(outcome.next_at, world.now + 1), world.now + wakes if wakes else outcome.next_at)
    counts = Counter(spend.at // DAY - START // DAY for spend in ledger.spends(world.store))
    return [counts[day] for day in range(days)]


@pytest.mark.parametrize("hours", [1, 2, 3, 6, 12])
@pytest.mark.parametrize("wakes", [0, 600])
def test_one_report_on_each_day(hours: int, wakes: int) -> None:
    world = World(rand=b"%d hours" % hours)
    world.service.length = hours * HOUR
    assert reports_a_day(world, 12, wakes=wakes) == [1] * 12


def random_rounds(dice: ByteSource, days: int) -> list[tuple[int, int, int, int, int]]:
    """Of all lengths from a minute to two days, shortened, overlapping, with ids that jump and come again."""
    rounds, opens, number = [], START, 1
    while opens < START + days * DAY:
        length = (60, 600, HOUR, HOUR, 2 * HOUR, 5 * HOUR, 11 * HOUR, 13 * HOUR, DAY, 2 * DAY)[dice(1)[0] % 10]
        collects, closes = opens + length // 2, opens + length * 19 // 20
        following = closes + (0, length // 20, DAY)[dice(1)[0] % 3]
        rounds.append((number, opens, collects, closes, following))
        opens += max(length * dice(1)[0] // 200, 30)
        number = max(number + (1, 1, 1, 24, 1000, 0, -2)[dice(1)[0] % 7], 1)
    return rounds


@pytest.mark.parametrize("seed", range(8))
def test_no_schedule_gets_two_reports_in_a_day(seed: int) -> None:
    world = World(rand=b"schedule %d" % seed)
    world.service = Schedule(lambda: world.now, rounds=random_rounds(seeded(b"schedule %d" % seed), 20))
    world.phone.transport.service = world.service  # type: ignore[attr-defined]
    counts = reports_a_day(world, 20)
    assert max(counts) == 1


def test_an_older_servers_last_round_of_a_day_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing says when the next round opens, a moment after the last close is that of the last round."""
    monkeypatch.setattr("hushcall.client.round_session.uniform", lambda _word, below: below - 1)
    rounds = [(place + 1, START + place * 6 * HOUR) for place in range(4)]
    world = World(rand=b"older")
    service = Schedule(lambda: world.now, rounds=[(n, t, t + 3 * HOUR, t + 5 * HOUR, t + 5 * HOUR) for n, t in rounds])
    world.service = world.phone.transport.service = service  # type: ignore[attr-defined]
    for number, opens in rounds:
        world.now = opens + 60
        assert (world.phone.report().action != "idle") == (number == 4)


def test_a_schedule_that_changes_in_the_middle_of_a_day_loses_no_day() -> None:
    """Hours, then three hours, then days, with ids that begin anew at 1,000: an honest server's changes."""
    rounds, opens, number = [], START, 1
    for length, count in ((HOUR, 60), (3 * HOUR, 20), (DAY, 4), (HOUR, 48)):
        for _ in range(count):
            rounds.append((number, opens, opens + length // 2, opens + length * 19 // 20, opens + length))
            opens, number = opens + length, number + 1
        number += 1000
    world = World(rand=b"changes")
    world.service = Schedule(lambda: world.now, rounds=rounds)
    world.phone.transport.service = world.service  # type: ignore[attr-defined]
    days = (opens - START) // DAY
    counts = reports_a_day(world, days)
    assert max(counts) == 1
    assert sum(counts) >= days - 1


def test_what_is_sent_and_when_does_not_depend_on_calls() -> None:
    seen = []
    for calls in ((), ("+12025550143", "+12025550199")):
        world = World(rand=b"alike")
        world.service.length = HOUR
        while world.now < START + 3 * DAY:
            if calls and world.now % DAY < HOUR:
                world.calls(*calls)
            outcome = world.phone.report()
            assert outcome.next_at is not None
            world.now = outcome.next_at
        seen.append([(request.method, request.path, request.size, request.at) for request in world.service.requests])
    assert seen[0] == seen[1]


def test_every_hour_is_drawn_alike() -> None:
    """1,200 phones on one day: 50 an hour, with a standard deviation of 7. The draws follow from the phones' keys."""
    hours = Counter[int]()
    for phone in range(1200):
        world = World(rand=b"phone %d" % phone)
        world.service.length = HOUR
        while not world.service.tickets:
            outcome = world.phone.report()
            assert outcome.next_at is not None
            world.now = outcome.next_at
        hours[int(world.now - START) // HOUR] += 1
    assert sorted(hours) == list(range(24))
    assert min(hours.values()) > 20
    assert max(hours.values()) < 80


def test_a_phone_that_was_off_in_its_hour_takes_a_later_one() -> None:
    world = World(rand=b"off")
    world.service.length = HOUR
    world.calls("+12025550143")
    world.now = START + 23 * HOUR
    assert world.phone.report(skip_delays=False).action != "idle"


def test_trials_are_joined_at_once() -> None:
    world = World(rand=b"trial")
    world.service.length = 600
    world.calls("+12025550143")
    assert world.phone.report().action != "idle"
    hasty = World(rand=b"trial")
    hasty.service.length = HOUR
    assert hasty.phone.report(skip_delays=True).action == "announced"
