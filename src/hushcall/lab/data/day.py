"""One day: how many phones and spammers, or a table of calls and a date, comes in; who called whom leaves.

On an invented day area codes are busy in different degrees (toll-free and big-city ones lead), spammers' volumes follow
a power law, most other callers reach one phone, and some phones get no unknown call at all. Everything follows from the
seed.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.numbers import NANP, Number, NumberingPlan

if TYPE_CHECKING:
    from hushcall.lab.data.datasets import Calls

BUSY = (800, 202, 855, 888, 877, 866, 213, 212, 305, 312, 404, 415, 469, 504, 512, 602, 617, 646, 702, 713)
"""Area codes that spam favours; the first are the busiest."""


LARGEST = 600
"""Phones that the busiest spammer calls, where there are enough."""


@dataclass(frozen=True)
class Day:
    """What each phone would report (None: no unknown call), and how often each spammer called."""

    calls: tuple[Number | None, ...]
    spammers: dict[Number, int]


def day_of(calls: Calls, day: int, users: int | None = None, seed: int = 1) -> Day:
    """One day of a table of calls: a phone for each call, and ``users`` phones in all, the others without a call.

    ``spammers`` are all its numbers: which of them are many phones' is for whoever looks at it to say.
    """
    rows = zip(*calls.on(day), strict=True)
    heard: list[Number | None] = [NANP.number(int(area), int(suffix)) for area, suffix in rows]
    total = max(len(heard), 1) if users is None else users
    if total < len(heard):
        raise InvalidParameter("users", f"be at least the {len(heard)} phones that were called on that day", users)
    senders = Counter(number for number in heard if number is not None)
    heard += [None] * (total - len(heard))
    random.Random(seed).shuffle(heard)
    return Day(tuple(heard), dict(senders))


def _volumes(spammers: int, largest: int) -> list[int]:
    return [max(round(largest / (rank + 1) ** 0.9), 1) for rank in range(spammers)]


def _fitting(spammers: int, room: float) -> int:
    """The largest volume up to the usual one with which all spammers' calls fit; 1 where none does."""
    fits = (largest for largest in range(LARGEST, 1, -1) if sum(_volumes(spammers, largest)) <= room)
    return next(fits, 1)


def make_day(
    users: int,
    spammers: int = 15,
    largest: int | None = None,
    idle: float = 0.2,
    seed: int = 1,
    plan: NumberingPlan = NANP,
) -> Day:
    """A day for ``users`` phones: spammer i calls largest/(i+1)^0.9 of them, a share ``idle`` has no unknown caller.

    ``largest`` is by default :data:`LARGEST`, or what leaves room for all spammers' calls.
    """
    checks.whole("users", users, 1)
    checks.whole("spammers", spammers, 0, 10_000)
    if not 0 <= idle < 1:
        raise InvalidParameter("idle", "lie from 0 to below 1", idle)
    largest = _fitting(spammers, users * (1 - idle)) if largest is None else largest
    checks.whole("largest", largest, 1)
    volumes = _volumes(spammers, largest)
    if sum(volumes) > users * (1 - idle):
        rule = f"leave room for the spammers' calls: {largest} for the busiest of {spammers} make {sum(volumes)} in all"
        raise InvalidParameter("users", rule, users)
    # A generator of its own: a simulation's world needs no cryptographic randomness, and must not touch the phones'
    # coins.
    world = random.Random(seed)
    others = [area for area in plan.area_codes if area not in BUSY]

    def number() -> Number:
        area = world.choice(BUSY[: world.randint(1, len(BUSY))]) if world.random() < 0.7 else world.choice(others)
        return plan.number(area, world.randrange(plan.first_suffix, plan.suffixes))

    senders = Counter({number(): volume for volume in volumes})
    calls: list[Number | None] = list(senders.elements())
    busy = users - round(users * idle)
    calls += [number() for _ in range(busy - len(calls))]
    calls += [None] * (users - len(calls))
    world.shuffle(calls)
    return Day(tuple(calls), dict(senders))
