"""A neighbourhood's days: phones and campaigns come in, who calls whom on each day leaves.

Campaigns are spammers, who appear, call day after day and stop (or move on to another number), and people who have
every right to call many phones: a school, a pharmacy. Everybody else calls hardly more than one phone. Everything
follows from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from hushcall.errors import InvalidParameter
from hushcall.numbers import NANP, Number, NumberingPlan

REGION = (202, 301, 410, 443, 540, 571, 703, 804)
"""Where the phones are: most unknown callers share, or pretend to share, one of these area codes."""
TOLL_FREE = (800, 888, 877, 866)


@dataclass(frozen=True)
class Campaign:
    """Somebody who calls many phones: a share ``reach`` of them on each of its days (the first day is 1)."""

    name: str
    number: Number
    reach: float
    first: int = 1
    last: int = 1 << 30
    spam: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.reach <= 1:
            raise InvalidParameter("reach", "be a share from 0 to 1", self.reach)
        if not 1 <= self.first <= self.last:
            raise InvalidParameter("first, last", "be days from 1 on, in order", (self.first, self.last))

    def calls_on(self, day: int) -> bool:
        """Whether the campaign is at work on a day."""
        return self.first <= day <= self.last


@dataclass(frozen=True)
class Stream:
    """Calls of unknown numbers. ``chatter``: how many calls of ordinary strangers a phone gets a day, on average."""

    phones: int
    campaigns: Sequence[Campaign]
    seed: int = 1
    chatter: float = 0.8
    plan: NumberingPlan = NANP
    region: Sequence[int] = REGION
    toll_free: Sequence[int] = TOLL_FREE

    def day(self, day: int) -> list[list[Number]]:
        """Who calls each phone on a day, in the order of the phones."""
        # Not cryptographic on purpose: this is the world, not a phone's coins.
        world = random.Random(f"{self.seed} {day}")
        calls: list[list[Number]] = [[] for _ in range(self.phones)]
        for campaign in self.campaigns:
            if campaign.calls_on(day):
                for phone in world.sample(range(self.phones), round(campaign.reach * self.phones)):
                    calls[phone].append(campaign.number)
        for phone in range(self.phones):
            # Two chances instead of a Poisson law: nobody can tell the difference in what follows.
            for _ in range(2):
                if world.random() < self.chatter / 2:
                    calls[phone].append(self._stranger(world))
            world.shuffle(calls[phone])
        return calls

    def _stranger(self, world: random.Random) -> Number:
        place, plan = world.random(), self.plan
        area = world.choice(self.region if place < 0.7 else self.toll_free if place < 0.85 else plan.area_codes)
        if plan.lengths:
            return plan.dummy(world.randbytes, area)
        return plan.number(area, world.randrange(plan.first_suffix, plan.suffixes))
