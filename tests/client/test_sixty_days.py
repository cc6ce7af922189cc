"""Sixty days of a phone: the caps hold throughout, and no number is reported twice within the horizon."""

from fractions import Fraction
from itertools import pairwise

import pytest
from tests.client.fake_server import DAY, START
from tests.client.world import World

from hushcall.client.reporting import ledger
from hushcall.client.reporting.consent import Limits
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import seeded


def test_sixty_days_keep_every_promise() -> None:
    """Caps are never exceeded, and no number is reported twice within the horizon; the caps are really used."""
    world = World(rand=b"sixty days")
    Limits(window=Fraction(20), life=Fraction(120)).save(world.store)
    pool = [str(NANP.number(202, 5_550_100 + i)) for i in range(12)]
    dice = seeded(b"who calls")
    history: dict[str, list[int]] = {}
    for day in range(60):
        world.now = START + day * DAY
        world.calls(*(number for number in pool if dice(1)[0] < 90))
        before: dict[str, int] = dict(world.store.rows("SELECT number, seq FROM reported"))
        world.day(day)
        after: dict[str, int] = dict(world.store.rows("SELECT number, seq FROM reported"))
        for number in {n for n in after if after[n] != before.get(n)}:
            history.setdefault(number, []).append(day)
        assert ledger.spent(world.store, int(world.now) - 7 * DAY) <= 20
        assert ledger.spent(world.store) <= 120
    assert ledger.spent(world.store) == 120  # thirty reports, then the stop for life
    assert len(world.service.reports) == 30
    gaps = [b - a for days in history.values() for a, b in pairwise(days)]
    assert gaps
    assert min(gaps) >= 30


@pytest.mark.parametrize("rounds_per_day", [1, 3])
def test_sixty_days_at_random_hours_keep_every_promise(rounds_per_day: int) -> None:
    """As phones really run: at the moments that they drew. The caps hold over *any* seven days, not only whole ones."""
    world = World(rand=b"random hours")
    world.service.length = DAY // rounds_per_day
    limits = Limits(rounds_per_day=rounds_per_day, window=Fraction(32 * rounds_per_day))
    limits.save(world.store)
    pool = [str(NANP.number(202, 5_550_100 + i)) for i in range(12)]
    said: dict[str, list[tuple[int, int]]] = {}
    next_calls = START
    while world.now < START + 60 * DAY:
        if world.now >= next_calls:
            world.calls(*pool)  # everybody calls every day: only the horizon keeps them out of the reports
            next_calls += DAY
        outcome = world.phone.report()
        for number, at, seq in world.store.rows("SELECT number, at, seq FROM reported"):
            if (at, seq) not in said.setdefault(number, []):
                said[number].append((at, seq))
        assert outcome.next_at is not None
        world.now = min(outcome.next_at, next_calls)
    spends = ledger.spends(world.store)
    assert len(spends) >= 60 * rounds_per_day - 2  # the default cap leaves room for a report in every round
    for spend in spends:
        recent = sum(s.epsilon for s in spends if spend.at - 7 * DAY < s.at <= spend.at)
        assert recent <= limits.window
    pairs = [pair for reports in said.values() for pair in pairwise(sorted(reports))]
    assert len(pairs) >= 12
    assert min(after[0] - before[0] for before, after in pairs) >= 30 * DAY
