"""The demo: clients, spammers and a real server for nine days on a clock by hand, with the figures of each day."""

import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hushcall.client.screening.list_sync import ListClient
from hushcall.client.screening.lookup import LoadedList, check
from hushcall.client.storage.personal import Action
from hushcall.errors import InvalidParameter
from hushcall.formats.calls.call import Call
from hushcall.mechanisms.profiles import Profile
from hushcall.protocol.blocklist import Blocklist, Entry
from hushcall.protocol.numbers import Number, plan_named
from hushcall.server.settings import Settings
from hushcall_lab.simulation.fleet import Operator
from hushcall_lab.simulation.processes import DAY_SECONDS, Progress, SharedClock, SplitFleet, play_day, server
from hushcall_lab.simulation.stream import Campaign, Stream, logged, scenery

WINDOW_ROUNDS = 4
"""A number stays on the list so long after its last sighting: few, since a week's evidence keeps it anyway."""
VERIFIERS = 5
"""Clients that fetch and verify the signed list every night. The others read the same bytes."""


@dataclass(frozen=True)
class Plan:
    phones: int = 2500
    days: int = 9
    seed: int = 1
    region: str = "NANP"


@dataclass(frozen=True)
class Day:
    """The figures of one day. "At work" means that a spammer called that day, whether or not anybody reported it."""

    day: int
    date: str
    reports: int
    buckets_run: int
    buckets_skipped: int
    found: tuple[str, ...]  # spammers at work today, on the list tonight
    missed: tuple[str, ...]  # spammers at work today, not on the list tonight
    wrong: tuple[str, ...]  # on the list tonight, and no spammers
    gathered: tuple[str, ...]  # spammers on the list for the first time, by the evidence of several days
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
    scene = scenery(plan.region)

    def campaign(
        name: str, reach: float, first: int = 1, last: int = plan.days, *, spam: bool = True, rented: bool = False
    ) -> Campaign:
        return Campaign(name, scene.number(name), reach, first, max(first, last), spam=spam, rented=rented)

    cast = [
        campaign("car warranty", 0.09),
        campaign("tax office", 0.08),
        campaign("holiday prize", 0.06, 1, 3),
        campaign("bank alert", 0.06, 1, 4),
        campaign("bank alert (moved)", 0.06, 5),
        campaign("debt relief", 0.05),
        campaign("parcel fee", 0.05, 3, 7),
        campaign("crypto tip", 0.05, 4),
        campaign("power company", 0.04, 2),
        campaign("survey", 0.03),
        campaign("one ring", 0.02, 5),
        campaign("rented hundred", 0.08, 2, rented=True),
        campaign("the school", 0.06, 2, spam=False),
        campaign("the pharmacy", 0.06, spam=False),
    ]
    return [each for each in cast if each.first <= plan.days]


@dataclass
class Demo:
    """A demo in progress. Iterate over :meth:`days`, then call :meth:`fates`."""

    plan: Plan
    operator: Operator
    fleet: SplitFleet
    clock: SharedClock
    folder: Path
    progress: Progress = lambda _what, _done, _total: None
    lists: list[Blocklist] = field(default_factory=list)  # one per evening
    _appealed: set[str] = field(default_factory=set)
    _loaded: LoadedList | None = None  # the list that phones use

    def __post_init__(self) -> None:
        self.cast = campaigns(self.plan)
        self.readers = [ListClient(self.folder / f"phone-{place}", self.operator.url) for place in range(VERIFIERS)]
        for reader in self.readers:
            reader.folder.mkdir()

    @property
    def profile(self) -> Profile:
        return settings_for(self.folder, self.plan.region).profile

    def days(self) -> Iterator[Day]:
        scene, size = scenery(self.plan.region), self.plan
        stream = Stream(size.phones, self.cast, size.seed, 0.8, scene.plan, scene.region, scene.toll_free)
        pharmacy = next(campaign for campaign in self.cast if campaign.name == "the pharmacy")
        self._post("allowlist", pharmacy.number, "a pharmacy that reminds people of their medicine", "its owner")
        events = ["the operator puts the pharmacy on the allowlist"]
        for day in range(1, size.days + 1):
            started = time.monotonic()
            events += self._appeals()
            calls = stream.day(day)
            counts, logs = self._screen(day, calls)
            status = play_day(self.operator, self.fleet, self.clock, logs, self.progress)
            self._sync()
            yield self._day(day, status, counts, events, time.monotonic() - started)
            events = []
        self.fleet.close()

    def fates(self) -> list[Fate]:
        return [self._fate(campaign) for campaign in self.cast]

    def _fate(self, campaign: Campaign) -> Fate:
        entries = {day: entry for day in range(1, len(self.lists) + 1) if (entry := self._entry(day, campaign))}
        days = list(entries)
        return Fate(
            campaign.name,
            campaign.listed_as,
            campaign.spam,
            campaign.first,
            campaign.last,
            round(campaign.reach * self.plan.phones),
            days[0] if days else None,
            entries[days[0]].window if days else None,
            next((day for day in days if self.lists[day - 1].header.block(entries[day])), None),
            next((day + 1 for day in reversed(days) if day + 1 not in entries and day < len(self.lists)), None),
            entries[days[-1]].estimate if days else None,
        )

    def _entry(self, day: int, campaign: Campaign) -> Entry | None:
        lists = self.lists[day - 1]
        return next((each for each in (*lists.entries, *lists.ranges) if each.number == campaign.listed_as), None)

    def _gathered(self, day: int, campaign: Campaign) -> bool:
        """Whether it is on the list for the first time tonight, by the evidence of several days together."""
        entry = self._entry(day, campaign)
        return entry is not None and entry.window > 1 and not any(self._entry(past, campaign) for past in range(1, day))

    def _post(self, resource: str, number: Number, why: str, who: str) -> None:
        self.operator.ask("POST", f"/v1/admin/{resource}", {"number": str(number), "why": why, "who": who})

    def _appeals(self) -> list[str]:
        events = []
        for campaign in self.cast:
            if campaign.spam or campaign.name in self._appealed or not self.lists:
                continue
            if self._entry(len(self.lists), campaign):
                self._appealed.add(campaign.name)
                self._post("appeals", campaign.number, "parents need these calls", campaign.name)
                events.append(f"{campaign.name} appeals in the morning, and leaves the list at once")
                self._sync(again=True)
        return events

    def _sync(self, *, again: bool = False) -> None:
        """Fetch and verify the list. ``again``: it is a correction of today's."""
        self.progress("phones verify the list", 0, 1)
        for reader in self.readers:
            reader.sync()
        lists = {bytes(reader.load().data) for reader in self.readers}
        if len(lists) != 1:
            raise InvalidParameter("list", "be the same on every phone", f"{len(lists)} lists")
        self._loaded = self.readers[0].load()
        if not again:
            self.lists.append(replace(Blocklist.from_bytes(lists.pop()), ranges=self._loaded.ranges.entries))

    def _screen(self, day: int, calls: Sequence[Sequence[Number]]) -> tuple[dict[str, int], list[list[Call]]]:
        """What phones do with today's calls, by the list of last night: counted, and as their logs show it."""
        wanted = {campaign.number for campaign in self.cast if not campaign.spam}
        now, rng = int(self.clock()), random.Random(f"{self.plan.seed} answers {day}")
        spam = {number for campaign in self.cast if campaign.spam for number in campaign.numbers}
        counts = dict.fromkeys(("spam_calls", "blocked", "warned", "other_calls", "others_blocked"), 0)
        actions: dict[Number, Action] = {}
        for number in (number for callers in calls for number in callers):
            if number not in actions:
                actions[number] = (
                    check(self._loaded, number, now=int(self.clock())).action if self._loaded else Action.ALLOW
                )
            counts["spam_calls" if number in spam else "other_calls"] += 1
            if actions[number] is Action.BLOCK:
                counts["blocked" if number in spam else "others_blocked"] += 1
            elif actions[number] is Action.WARN and number in spam:
                counts["warned"] += 1
        logs = [
            [
                call
                for number in callers
                for call in logged(number, now, actions[number], spam=number not in wanted, rng=rng)
            ]
            for callers in calls
        ]
        return counts, logs

    def _day(self, day: int, status: dict[str, Any], counts: dict[str, int], events: list[str], seconds: float) -> Day:
        listed = {entry.number for entry in (*self.lists[-1].entries, *self.lists[-1].ranges)}
        at_work = [campaign for campaign in self.cast if campaign.spam and campaign.calls_on(day)]
        callers = [campaign for campaign in self.cast if campaign.spam]
        spam = {text for each in callers for text in (each.listed_as, *map(str, each.numbers))}
        names = {campaign.listed_as: campaign.name for campaign in self.cast}
        return Day(
            day=day,
            date=status["opens"][:10],
            reports=status["reports"],
            buckets_run=status["buckets_run"],
            buckets_skipped=status["buckets_skipped"],
            found=tuple(campaign.name for campaign in at_work if campaign.listed_as in listed),
            missed=tuple(campaign.name for campaign in at_work if campaign.listed_as not in listed),
            wrong=tuple(names.get(number, number) for number in sorted(listed - spam)),
            gathered=tuple(campaign.name for campaign in at_work if self._gathered(day, campaign)),
            listed=len(listed),
            version=self.lists[-1].version,
            **counts,
            epsilon_today=status["reports"] * status["epsilon"] / self.plan.phones,
            epsilon_most=self.fleet.max_spent(),
            events=tuple(events),
            seconds=seconds,
        )


def settings_for(folder: Path, region: str = "NANP") -> Settings:
    """The operator enrols the phones, so the tolerance is that of invited ones."""
    return Settings(
        data=folder / "server",
        database="",  # never the one that the environment names
        round={"scheduler": False, "plan": plan_named(region).name, "profile": "nation"},  # type: ignore[arg-type]
        list={"window": WINDOW_ROUNDS},  # type: ignore[arg-type]
        intake={"per_device": 1000},  # type: ignore[arg-type]
    )


@contextmanager
def stage(plan: Plan, port: int, progress: Progress) -> Iterator[Demo]:
    clock = SharedClock(float(int(time.time()) // DAY_SECONDS * DAY_SECONDS))
    with tempfile.TemporaryDirectory(prefix="hushcall-demo-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        progress("the server starts", 0, 1)
        with server(settings_for(folder, plan.region), port, clock, plan.seed) as operator:
            progress("phones enrol", 0, 1)
            tokens, region = operator.enrol(plan.phones), plan_named(plan.region)
            with closing(SplitFleet(operator.url, tokens, clock, b"demo %d" % plan.seed, region)) as fleet:
                yield Demo(plan, operator, fleet, clock, folder, progress)
