"""The whole system in a minute: phones, spammers and a real server come in, nine days leave, a figure at a time.

Everything goes the way it goes in earnest: calls into each phone's own store, one report a day through the randomiser
and over HTTP, decoding and signing on the server, the signed list back to phones that verify it. Two things are lent
by the simulation: time, and a world in which it is known who spams. Nobody but the figures below looks at that.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.lab.live.demo_server import Running, SharedClock, server
from hushcall.lab.live.fleet import Fleet, Operator
from hushcall.lab.live.live_day import DAY, play_day
from hushcall.lab.live.scenery import scenery
from hushcall.lab.live.stream import Campaign, Stream
from hushcall.numbers import Number, plan_named
from hushcall.phone.home.action import Action
from hushcall.phone.reporting import ledger
from hushcall.phone.screening.list_sync import ListClient
from hushcall.phone.screening.lookup import LoadedList, check
from hushcall.profiles import Profile
from hushcall.protocol.blocklist import Blocklist

WINDOW = 4
"""Rounds that a number stays on the list after its last sighting: few, since a week's evidence keeps it anyway."""
VERIFIERS = 5
"""Phones that fetch and verify the signed list by themselves every night; the others read the same bytes."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Plan:
    """How large the demo is; ``seed`` decides all its chance but tokens and keys."""

    phones: int = 2500
    days: int = 9
    seed: int = 1
    region: str = "NANP"

    def __post_init__(self) -> None:
        checks.whole("phones", self.phones, 200, 100_000)
        checks.whole("days", self.days, 1, 60)
        checks.whole("seed", self.seed, 0)


@dataclass(frozen=True)
class Day:
    """What happened on one day. Spammers are compared by what they did that day, whether or not anybody reported it."""

    day: int
    date: str
    reports: int
    buckets_run: int
    buckets_skipped: int
    found: tuple[str, ...]  # spammers at work today, on the list tonight
    missed: tuple[str, ...]  # spammers at work today, not on the list tonight
    wrong: tuple[str, ...]  # on the list tonight, and no spammers
    gathered: tuple[str, ...]  # spammers on the list for the first time, whom no single day showed
    listed: int
    version: int
    spam_calls: int
    blocked: int
    warned: int
    other_calls: int
    others_blocked: int
    epsilon_today: float  # of all phones, on average
    epsilon_most: float  # of any phone, since the first day
    events: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Fate:
    """What became of somebody who calls many phones."""

    name: str
    number: str
    spam: bool
    first: int
    last: int
    phones: int  # called on its first day
    listed_on: int | None  # the day after which it was on the list first
    over: int | None  # how many days' evidence that took
    blocks_from: int | None  # the day after which phones block it; until then they warn
    left_on: int | None
    estimate: float | None  # as last published


def campaigns(plan: Plan) -> list[Campaign]:
    """The demo's cast: spammers who come, stay, stop and move on; a school and a pharmacy."""
    scene = scenery(plan.region)

    def one(name: str, reach: float, first: int = 1, last: int = plan.days, *, spam: bool = True) -> Campaign:
        return Campaign(name, scene.number(name), reach, first, max(first, last), spam=spam)

    cast = [
        one("car warranty", 0.09),
        one("tax office", 0.08),
        one("holiday prize", 0.06, 1, 3),
        one("bank alert", 0.06, 1, 4),
        one("bank alert (moved)", 0.06, 5),
        one("debt relief", 0.05),
        one("parcel fee", 0.05, 3, 7),
        one("crypto tip", 0.05, 4),
        one("power company", 0.04, 2),
        one("survey", 0.03),
        one("one ring", 0.02, 5),
        one("the school", 0.06, 2, spam=False),
        one("the pharmacy", 0.06, spam=False),
    ]
    return [each for each in cast if each.first <= plan.days]


@dataclass
class Demo:
    """A run under way: iterate over :meth:`days`, then look at :meth:`fates`."""

    plan: Plan
    running: Running
    clock: SharedClock
    folder: Path
    progress: Progress = lambda _what, _done, _total: None
    cast: Sequence[Campaign] = ()
    lists: list[Blocklist] = field(default_factory=list)
    _appealed: set[str] = field(default_factory=set)
    _loaded: LoadedList | None = None  # what phones look callers up in

    def __post_init__(self) -> None:
        self.cast = campaigns(self.plan)
        scene = scenery(self.plan.region)
        self.stream = Stream(
            self.plan.phones,
            self.cast,
            self.plan.seed,
            plan=scene.plan,
            region=scene.region,
            toll_free=scene.toll_free,
        )
        self.operator = Operator(self.running.url, self.running.token)
        self.readers = [ListClient(self.folder / f"phone-{place}", self.running.url) for place in range(VERIFIERS)]
        for reader in self.readers:
            reader.folder.mkdir()

    @property
    def profile(self) -> Profile:
        """What its rounds are run with: the defaults."""
        chosen: Profile = settings_for(self.folder, self.plan.region).profile
        return chosen

    def days(self) -> Iterator[Day]:
        """Play them, one after the other."""
        self.progress("phones enrol", 0, 1)
        fleet = Fleet(self.operator, self.plan.phones, self.clock, b"demo %d" % self.plan.seed, self.stream.plan)
        pharmacy = next(c for c in self.cast if c.name == "the pharmacy")
        self._ask("allowlist", pharmacy.number, "a pharmacy that reminds people of their medicine", "its owner")
        events = ["the operator puts the pharmacy on the allowlist"]
        try:
            for day in range(1, self.plan.days + 1):
                started = time.monotonic()
                events += self._appeals()
                calls = self.stream.day(day)
                judged = self._judge(calls)
                figures = play_day(self.operator, fleet, self.clock, calls, self.progress)
                self._sync()
                yield self._day(day, figures, judged, fleet, events, time.monotonic() - started)
                events = []
        finally:
            fleet.close()

    def fates(self) -> list[Fate]:
        """What became of everybody who called many phones."""
        found = []
        for one in self.cast:
            on = [place + 1 for place, made in enumerate(self.lists) if _entry(made, one.number)]
            gone = [day for day in range(2, len(self.lists) + 1) if day not in on and day - 1 in on]
            last = _entry(self.lists[on[-1] - 1], one.number) if on else None
            found.append(
                Fate(
                    one.name,
                    str(one.number),
                    one.spam,
                    one.first,
                    one.last,
                    round(one.reach * self.plan.phones),
                    on[0] if on else None,
                    _entry(self.lists[on[0] - 1], one.number).window if on else None,
                    next((day for day in on if self._blocks(day, one.number)), None),
                    gone[-1] if gone else None,
                    last.estimate if last else None,
                )
            )
        return found

    def _gathered(self, number: Number) -> bool:
        """Whether a number is on the list for the first time tonight, by the evidence of several days together."""
        entry = _entry(self.lists[-1], number)
        return entry is not None and entry.window > 1 and not any(_entry(made, number) for made in self.lists[:-1])

    def _blocks(self, day: int, number: Number) -> bool:
        """Whether the list of an evening has phones block a number that is on it."""
        made = self.lists[day - 1]
        return made.terms.block(_entry(made, number))

    def _ask(self, what: str, number: Number, why: str, who: str) -> None:
        self.operator.ask("POST", f"/v1/admin/{what}", {"number": str(number), "why": why, "who": who})

    def _appeals(self) -> list[str]:
        """In the morning: whoever finds a number wrongly listed that people know appeals, and the operator agrees."""
        events = []
        for one in self.cast:
            if not one.spam and one.name not in self._appealed and self.lists and _entry(self.lists[-1], one.number):
                self._appealed.add(one.name)
                self._ask("appeals", one.number, "parents need these calls", one.name)
                events.append(f"{one.name} appeals in the morning, and leaves the list at once")
                self._sync(again=True)
        return events

    def _sync(self, *, again: bool = False) -> None:
        """Phones fetch and verify the list. ``again``: on the same day, a correction of the last one."""
        self.progress("phones verify the list", 0, 1)
        for reader in self.readers:
            reader.sync()
        data = {reader.load().index.data for reader in self.readers}
        if len(data) != 1:
            raise InvalidParameter("list", "be the same on every phone", f"{len(data)} lists")
        self._loaded = self.readers[0].load()
        if not again:
            self.lists.append(Blocklist.from_bytes(data.pop()))

    def _judge(self, calls: Sequence[Sequence[Number]]) -> dict[str, int]:
        """What phones do with today's calls, by the list of last night."""
        spam = {one.number for one in self.cast if one.spam}
        counts = dict.fromkeys(("spam", "blocked", "warned", "others", "others blocked"), 0)
        loaded = self._loaded
        verdicts: dict[Number, Action] = {}
        for number in (number for heard in calls for number in heard):
            if number not in verdicts:
                verdicts[number] = check(loaded, number, now=int(self.clock())).action if loaded else Action.ALLOW
            counts["spam" if number in spam else "others"] += 1
            if verdicts[number] is Action.BLOCK:
                counts["blocked" if number in spam else "others blocked"] += 1
            elif verdicts[number] is Action.WARN and number in spam:
                counts["warned"] += 1
        return counts

    def _day(
        self, day: int, figures: dict[str, Any], judged: dict[str, int], fleet: Fleet, events: list[str], seconds: float
    ) -> Day:
        tonight = self.lists[-1]
        on = {entry.number for entry in tonight.entries}
        at_work = [one for one in self.cast if one.spam and one.calls_on(day)]
        spam = {str(one.number): one.name for one in self.cast if one.spam}
        names = {str(one.number): one.name for one in self.cast}
        spent = [float(ledger.spent(phone.store)) for phone in fleet.phones]
        return Day(
            day=day,
            date=figures["opens"][:10],
            reports=figures["reports"],
            buckets_run=figures["buckets_run"],
            buckets_skipped=figures["buckets_skipped"],
            found=tuple(one.name for one in at_work if str(one.number) in on),
            missed=tuple(one.name for one in at_work if str(one.number) not in on),
            wrong=tuple(names.get(number, number) for number in sorted(on - set(spam))),
            gathered=tuple(one.name for one in at_work if self._gathered(one.number)),
            listed=len(on),
            version=tonight.version,
            spam_calls=judged["spam"],
            blocked=judged["blocked"],
            warned=judged["warned"],
            other_calls=judged["others"],
            others_blocked=judged["others blocked"],
            epsilon_today=figures["reports"] * figures["epsilon"] / self.plan.phones,
            epsilon_most=max(spent),
            events=tuple(events),
            seconds=seconds,
        )


def _entry(made: Blocklist, number: Number) -> Any:
    return next((entry for entry in made.entries if entry.number == str(number)), None)


def settings_for(folder: Path, region: str = "NANP") -> Any:
    """A server's settings for the demo: the defaults, but for the list's shorter window and its own folder.

    The operator enrols the phones, so listings withstand as many lies as among invited ones.
    """
    from hushcall.server.settings import Settings

    return Settings(
        data=folder / "server",
        database="",  # whatever the environment says: no real one
        round={"scheduler": False, "plan": plan_named(region).name},  # type: ignore[arg-type]
        list={"window": WINDOW},  # type: ignore[arg-type]
        intake={"per_device": 1000},  # type: ignore[arg-type]
    )


@contextmanager
def stage(plan: Plan, port: int, progress: Progress) -> Iterator[Demo]:
    """The demo's folder, clock and server, for as long as this lasts."""
    clock = SharedClock(float(int(time.time()) // DAY * DAY))
    with tempfile.TemporaryDirectory(prefix="hushcall-demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        progress("the server starts", 0, 1)
        with server(settings_for(folder, plan.region), port, clock, plan.seed) as running:
            yield Demo(plan, running, clock, folder, progress)
