"""A made-up neighbourhood: who calls whom on each day, spammers, a school and a pharmacy. All follows from the seed."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hushcall import checks
from hushcall.client.storage.personal import Action
from hushcall.errors import InvalidParameter
from hushcall.formats.calls.call import Call, CallKind
from hushcall.protocol.numbers import NANP, Number, NumberingPlan, plan_named
from hushcall.protocol.ranges import range_of

REGION = (202, 301, 410, 443, 540, 571, 703, 804)
"""Where the phones are. Most unknown callers share one of these area codes, or pretend to."""
TOLL_FREE = (800, 888, 877, 866)
ROLES = (
    *("car warranty", "tax office", "holiday prize", "bank alert", "bank alert (moved)", "debt relief", "parcel fee"),
    *("crypto tip", "power company", "survey", "one ring", "the school", "the pharmacy", "rented hundred"),
)
ANSWERED = {Action.ALLOW: 0.4, Action.WARN: 0.1}
"""The share of calls that are answered, by the verdict that the phone shows. A blocked one does not ring."""
TALKED, RETURNED = {True: 0.2, False: 0.9}, {True: 0.02, False: 0.6}
"""The share of answered calls that last a minute, and of missed ones that are returned: of spam, of wanted calls."""


def logged(number: Number, at: int, verdict: Action, spam: bool, rng: random.Random) -> list[Call]:
    """What the log of a phone shows of a call once its owner has seen the verdict."""
    answered, talked, returned = (rng.random() for _ in range(3))
    if verdict is Action.BLOCK:
        return [Call(str(number), at, CallKind.BLOCKED, "", 0)]
    if answered < ANSWERED[verdict]:
        return [Call(str(number), at, CallKind.INCOMING, "", 60 if talked < TALKED[spam] else 5)]
    calls = [Call(str(number), at, CallKind.MISSED, "", 0)]
    return calls + [Call(str(number), at, CallKind.OUTGOING, "", 60)] * (returned < RETURNED[spam])


@dataclass(frozen=True)
class Campaign:
    name: str
    number: Number
    reach: float  # the share of all phones that it calls on each of its days
    first: int = 1  # days count from 1
    last: int = 1 << 30
    spam: bool = True
    rented: bool = False  # it calls from all numbers of the hundred that ``number`` is in, from each twice

    @property
    def numbers(self) -> list[Number]:
        last = range(100) if self.rented else (0,)
        return [replace(self.number, suffix=self.number.suffix + place) for place in last]

    @property
    def listed_as(self) -> str:
        return range_of(str(self.number)) if self.rented else str(self.number)

    def calls_on(self, day: int) -> bool:
        return self.first <= day <= self.last


@dataclass(frozen=True)
class Stream:
    """Calls of unknown numbers. ``chatter`` is the mean number of a phone's calls from ordinary strangers per day."""

    phones: int
    campaigns: Sequence[Campaign]
    seed: int = 1
    chatter: float = 0.8
    plan: NumberingPlan = NANP
    region: Sequence[int] = REGION
    toll_free: Sequence[int] = TOLL_FREE

    def day(self, day: int) -> list[list[Number]]:
        world = random.Random(f"{self.seed} {day}")  # not cryptographic: no client draws from it
        calls: list[list[Number]] = [[] for _ in range(self.phones)]
        for campaign in self.campaigns:
            if campaign.calls_on(day):
                numbers = campaign.numbers
                for place, phone in enumerate(world.sample(range(self.phones), round(campaign.reach * self.phones))):
                    calls[phone].append(numbers[place // 2 % len(numbers)])
        for phone in range(self.phones):
            for _ in range(2):  # two chances in place of a Poisson law, which would change nothing below
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


@dataclass(frozen=True)
class Scenery:
    """Where the demo takes place: the phones' area codes, the toll-free ones, and the number of each role.

    The numbers are those that regulators reserve for films and books (555-01xx, Germany's drama numbers, France's
    01 99 00 …), or are invented where none are reserved, so that no real subscriber is called a spammer.
    """

    plan: NumberingPlan
    region: tuple[int, ...]
    toll_free: tuple[int, ...]
    numbers: tuple[str, ...]

    def number(self, role: str) -> Number:
        return self.plan.parse(self.numbers[ROLES.index(role)])


def scenery(plan: str) -> Scenery:
    if plan == "NANP":
        areas = (800, 202, 888, 703, 703, 410, 443, 877, 571, 301, 540, 804, 202)
        lines = (*range(11, 22), 31, 32)
        numbers = tuple(f"+1{area}55501{line}" for area, line in zip(areas, lines, strict=True))
        return Scenery(NANP, REGION, TOLL_FREE, (*numbers, "+14345550100"))
    if plan == "DE":  # drama numbers, and short ones of villages: six to eleven digits
        return _scenery(
            plan,
            "0800 1234561,030 23125012,069 90009013,040 66969014,040 66969015,0221 4710016,089 99998017,"
            "0152 28817386,0172 9925904,0171 3920020,0176 04069021,03303 22,04664 331,030 23125100",
            (800, 900, 180),
        )
    if plan == "FR":
        return _scenery(
            plan,
            "08 00 19 90 11,01 99 00 12 12,02 61 91 13 13,03 53 01 14 14,03 53 01 15 15,04 65 71 16 16,"
            "05 36 49 17 17,06 39 98 18 18,06 39 98 19 19,01 99 00 20 20,02 61 91 21 21,04 65 71 31 31,05 36 49 32 32,"
            "01 99 00 14 00",
            (80, 89),
        )
    raise InvalidParameter("--plan", "be one of NANP, DE, FR: for others there is no scenery", plan)


def _scenery(name: str, numbers: str, toll_free: tuple[int, ...]) -> Scenery:
    plan, cast = plan_named(name), tuple(numbers.split(","))
    return Scenery(plan, tuple(sorted({plan.parse(number).area for number in cast})), toll_free, cast)


BUSY = (800, 202, 855, 888, 877, 866, 213, 212, 305, 312, 404, 415, 469, 504, 512, 602, 617, 646, 702, 713)
"""Area codes that spam favours, the busiest first."""
LARGEST = 600
"""The phones that the busiest spammer calls, if there are enough."""
IDLE = 0.2
"""The share of phones that no unknown number calls."""


@dataclass(frozen=True)
class Day:
    calls: tuple[Number | None, ...]  # of each phone: the caller that it would report
    spammers: dict[Number, int]  # how many each calls


def _volumes(spammers: int, largest: int) -> list[int]:
    return [max(round(largest / (rank + 1) ** 0.9), 1) for rank in range(spammers)]


def _fitting(spammers: int, room: float) -> int:
    """The largest volume up to :data:`LARGEST` with which all spammers' calls fit, or 1."""
    fits = (largest for largest in range(LARGEST, 1, -1) if sum(_volumes(spammers, largest)) <= room)
    return next(fits, 1)


def make_day(users: int, spammers: int = 15, largest: int | None = None, seed: int = 1) -> Day:
    """Spammer i calls largest/(i+1)^0.9 phones. ``largest`` is by default what leaves room for all spammers' calls."""
    checks.whole("users", users, 1)
    checks.whole("spammers", spammers, 0, 10_000)
    largest = _fitting(spammers, users * (1 - IDLE)) if largest is None else largest
    checks.whole("largest", largest, 1)
    volumes = _volumes(spammers, largest)
    if sum(volumes) > users * (1 - IDLE):
        rule = f"leave room for the spammers' calls: {largest} for the busiest of {spammers} make {sum(volumes)} in all"
        raise InvalidParameter("users", rule, users)
    world = random.Random(seed)  # not cryptographic: no phone draws from it
    others = [area for area in NANP.area_codes if area not in BUSY]

    def number() -> Number:
        area = world.choice(BUSY[: world.randint(1, len(BUSY))]) if world.random() < 0.7 else world.choice(others)
        return NANP.number(area, world.randrange(NANP.first_suffix, NANP.suffixes))

    senders = Counter({number(): volume for volume in volumes})
    calls: list[Number | None] = list(senders.elements())
    busy = users - round(users * IDLE)
    calls += [number() for _ in range(busy - len(calls))]
    calls += [None] * (users - len(calls))
    world.shuffle(calls)
    return Day(tuple(calls), dict(senders))
