"""What a listing does to the reports that keep it up: a blocked call does not ring, a warned one is answered less.

Sixty days of clients and a list. All but transport, ledger and database is real. All callers share one area code with
three digits after it, so that a round is decoded at once, at the error level of 400 area codes of seven.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from hushcall.client.calls import candidates
from hushcall.client.reporting.consent import Limits
from hushcall.client.screening.lookup import LoadedList, check
from hushcall.client.storage.personal import Action
from hushcall.client.storage.store import DAY_SECONDS, Store
from hushcall.decoding.hints import NO_HINTS, RoundHints
from hushcall.decoding.task import BucketSpec, DecodeTask
from hushcall.decoding.window import decode
from hushcall.formats.calls.call import Call, CallKind
from hushcall.mechanisms.bucket_setup import open_bucket
from hushcall.mechanisms.parameters import to_plain
from hushcall.protocol import blocklist
from hushcall.protocol.blocklist import Blocklist, Entry, ListHeader, Sighting
from hushcall.protocol.numbers import Number
from hushcall.protocol.randomness import seeded
from hushcall.protocol.seeds import SEED_BYTES
from hushcall.server.settings import Settings
from hushcall_lab.figures import PALETTE, name_axes, save, tidy
from hushcall_lab.proofs.poisoning import BUCKETS, HONEST, SMALL, TARGETS
from hushcall_lab.proofs.statistics import one_thread, reports
from hushcall_lab.simulation.stream import logged
from hushcall_lab.study.experiments import Statement

DAYS, QUICK_DAYS = 60, 30
START = 20_000 * DAY_SECONDS
AREA = SMALL.area_codes[0]
STRANGERS_A_DAY = 0.8
BACKLOG_DAYS = 2
LEFT_OUT, SHIPPED = "blocked calls left out", "as shipped"


@dataclass(frozen=True)
class Caller:
    """Calls ``daily`` phones on each of its days. ``moves``: after so many days it calls from another number.

    Where it rests, it calls on ``works`` days, then on none for ``rests``. ``among``: it calls only so many
    phones, as a school does.
    """

    name: str
    daily: int
    last: int = DAYS
    moves: int = DAYS
    works: int = 1
    rests: int = 0
    spam: bool = True
    among: int = 0
    first_place: int = 0  # of its numbers among TARGETS

    @property
    def persistent(self) -> bool:
        return self.spam and self.moves == DAYS and not self.rests

    def number_on(self, day: int) -> Number | None:
        """Its number on a day (the first is 0), or None where it does not call."""
        if day >= self.last or day % (self.works + self.rests) >= self.works:
            return None
        return SMALL.number(AREA, TARGETS[self.first_place + day // self.moves])


CAST = (
    Caller("persistent, 90 a day", 90, last=45),
    Caller("persistent, 60 a day", 60, last=45, first_place=1),
    Caller("rotating, 90 a day, moves every 5 days", 90, moves=5, first_place=10),
    Caller("resting, 90 a day, 5 days of 14", 90, works=5, rests=9, first_place=2),
    Caller("the school", 60, spam=False, among=600, first_place=3),
    Caller("the pharmacy", 60, spam=False, among=1200, first_place=4),
)


@dataclass
class Loop:
    """A world of phones. ``others`` is how many reports of other phones' callers its bucket gets a day."""

    cast: Sequence[Caller] = CAST
    phones: int = 20_000
    others: int = 150
    days: int = DAYS
    seed: int = 1
    blocked_count: bool = True
    stores: dict[int, Store] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.settings, self.limits = Settings(), Limits()
        self.profile = self.settings.profile
        self.rng = random.Random(f"closed loop {self.seed}")
        self.rand = seeded(b"closed loop %d" % self.seed)
        self._called: dict[int, int] = {}  # phone → the last day on which one of the cast called it
        self._sealed: list[tuple[int, dict[str, Any], bytes]] = []
        self._sightings: list[Sighting] = []
        self.list: Blocklist | None = None
        self._loaded: LoadedList | None = None

    def run(self, progress: Callable[[int, int], None] = lambda _done, _total: None) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        with one_thread():
            for day in range(self.days):
                rows += self._day(day)
                progress(day + 1, self.days)
        for store in self.stores.values():
            store.close()
        return rows

    def _day(self, day: int) -> list[dict[str, Any]]:
        now = START + day * DAY_SECONDS
        verdicts = [self._call(caller, day, now) for caller in self.cast]
        reported = self._reports(day, now)
        self._decide(day, now, list(reported.elements()) + self.rng.choices(HONEST, k=self.others))
        listed = {} if self.list is None else {entry.number: entry for entry in self.list.entries}
        rows = []
        for caller, counts in zip(self.cast, verdicts, strict=True):
            number = caller.number_on(day)
            entry = listed.get(str(number))
            rows.append(
                {
                    "arm": SHIPPED if self.blocked_count else LEFT_OUT,
                    "caller": caller.name,
                    "day": day + 1,
                    "number": str(number or ""),
                    "calls": counts.total(),
                    "blocked": counts[Action.BLOCK],
                    "warned": counts[Action.WARN],
                    "reports": reported[number.suffix] if number else 0,
                    "listed": entry is not None,
                    "blocks": entry is not None and self._verdict(entry.number, now) is Action.BLOCK,
                    "listed_before": [n for n in self._numbers(caller, day) if n in listed],
                }
            )
        return rows

    def _numbers(self, caller: Caller, day: int) -> list[str]:
        return sorted({str(number) for past in range(day + 1) if (number := caller.number_on(past))})

    def _call(self, caller: Caller, day: int, now: int) -> Counter[Action]:
        counts = Counter[Action]()
        number = caller.number_on(day)
        if number is None:
            return counts
        verdict = self._verdict(str(number), now)
        for phone in self.rng.sample(range(caller.among or self.phones), caller.daily):
            counts[verdict] += 1
            if verdict is not Action.BLOCK or self.blocked_count:
                self._ingest(phone, logged(number, now, verdict, caller.spam, self.rng), now)
                self._called[phone] = day
        return counts

    def _ingest(self, phone: int, calls: list[Call], now: int) -> None:
        if phone not in self.stores:
            self.stores[phone] = Store.in_memory()
        if phone not in self._called:  # others called before
            backlog = [now - day * DAY_SECONDS for day in range(BACKLOG_DAYS) for _ in range(self._strangers())]
            calls = calls + [self._stranger(at) for at in backlog]
        candidates.ingest(self.stores[phone], calls, SMALL, now)

    def _strangers(self) -> int:
        return sum(self.rng.random() < STRANGERS_A_DAY / 2 for _ in range(2))

    def _stranger(self, at: int) -> Call:
        return Call(str(SMALL.number(AREA, self.rng.choice(HONEST))), at, CallKind.MISSED)

    def _reports(self, day: int, now: int) -> Counter[int]:
        """The items that phones with calls of the cast report: one caller each, as a client chooses it."""
        items = Counter[int]()
        for phone, last in list(self._called.items()):
            if day - last >= self.limits.horizon_days:  # it remembers nothing that matters any more
                del self._called[phone]
                self.stores.pop(phone).close()
            if day - last >= self.limits.window_days:
                continue
            store = self.stores[phone]
            if strangers := self._strangers():
                candidates.ingest(store, [self._stranger(now) for _ in range(strangers)], SMALL, now)
            days = self.limits.window_days
            waiting = candidates.reportable(store, now, days, self.limits.horizon_days)
            number, none_waits = candidates.choose(candidates.spam_first(store, waiting), SMALL, self.rand)
            if not none_waits:
                candidates.mark_reported(store, str(number), day, now)
                items[number.suffix] += 1
        return items

    def _decide(self, day: int, now: int, items: list[int]) -> None:
        """The evening: reports, tally, decision over the windows, and the list."""
        aggregator = open_bucket(self.profile, SMALL, len(items), self.rand(SEED_BYTES), BUCKETS)
        if aggregator is not None:
            parameters = to_plain(aggregator.mechanism)
            tally = aggregator.tally(reports(aggregator.mechanism, items, f"closed loop {self.seed} {day}"))
            self._sealed.append((day, parameters, tally.to_bytes()))
            bucket = BucketSpec(day, AREA, len(items), BUCKETS, self.profile, SMALL, parameters)
            recent = [entry for entry in self._sealed if day - entry[0] < self.profile.reach]
            listed = {
                length: frozenset(entry.number for entry in self._entries(day - length))
                for length in self.profile.windows
            }
            hints = RoundHints(listed=listed).by_bucket(self.profile.spec.items, SMALL).get(AREA, NO_HINTS)
            self._sightings += self._found(DecodeTask.of_sealed(bucket, recent, hints=hints), now)
        self._publish(day, now)

    def _found(self, task: DecodeTask, now: int) -> Iterator[Sighting]:
        for number, figures in decode(task).figures(task.bucket):
            evidence = [figures[name] for name in ("estimate", "low", "high", "p_value", "length", "strict", "hinted")]
            yield Sighting(str(number), task.bucket.round, now, *evidence)

    def _publish(self, day: int, now: int) -> None:
        profile, rules = self.profile, self.settings.list
        header = ListHeader(
            *(profile.mechanism, profile.epsilon, profile.tau, profile.level, SMALL.name, rules.window_days),
            block_days=blocklist.OLDER_CLIENTS_WARN,
        )
        self.list = Blocklist(day + 1, day, now + DAY_SECONDS, header, self._entries(day))
        self._loaded = LoadedList.from_bytes(self.list.to_bytes())

    def _entries(self, day: int) -> tuple[Entry, ...]:
        rules = self.settings.list
        return blocklist.listed(self._sightings, day, rules.window_days, block_rounds=rules.block_days)

    def _verdict(self, number: str, now: int) -> Action:
        return Action.ALLOW if self._loaded is None else check(self._loaded, number, now=now).action


def fates(rows: Sequence[dict[str, Any]], cast: Sequence[Caller] = CAST) -> list[dict[str, Any]]:
    """What the list did with each caller. Shares are of calls.

    ``blocked_after`` is of those from its first block on, ``blocked_once_listed`` of those from its first listing on.
    """
    table = []
    for arm in dict.fromkeys(row["arm"] for row in rows):
        for caller in cast:
            days = [row for row in rows if (row["arm"], row["caller"]) == (arm, caller.name)]
            calls = sum(row["calls"] for row in days)
            blocks = next((row["day"] for row in days if row["blocks"]), None)
            listed = next((row["day"] for row in days if row["listed"]), None)
            after, later = ([row for row in days if first and row["day"] > first] for first in (blocks, listed))
            last = max(row["day"] for row in days if row["calls"])
            gone = next((row["day"] for row in days if row["day"] > last and not row["listed_before"]), None)
            table.append(
                {
                    "arm": arm,
                    "caller": caller.name,
                    "blocks_from": blocks,
                    "passed": _share(days, calls, lambda row: row["calls"] - row["blocked"] - row["warned"]),
                    "warned": _share(days, calls, lambda row: row["warned"]),
                    "blocked": _share(days, calls, lambda row: row["blocked"]),
                    "blocked_after": _blocked(after),
                    "blocked_once_listed": _blocked(later),
                    "left_after_days": gone - last if gone else None,
                }
            )
    return table


def _share(days: Sequence[dict[str, Any]], calls: int, part: Callable[[dict[str, Any]], int]) -> float | None:
    return sum(map(part, days)) / calls if calls else None


def _blocked(days: Sequence[dict[str, Any]]) -> float | None:
    return _share(days, sum(row["calls"] for row in days), lambda row: row["blocked"])


def document(
    quick: bool, seed: int = 1, progress: Callable[[int, int], None] = lambda _done, _total: None
) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    arms = (False, True)
    for place, blocked_count in enumerate(arms):
        loop = Loop(days=QUICK_DAYS if quick else DAYS, seed=seed, blocked_count=blocked_count)
        rows += loop.run(lambda done, total: progress(place * total + done, len(arms) * total))  # noqa: B023
    return {
        "title": f"The closed loop: {loop.days} days, {loop.phones:,} phones",
        "about": "closed-loop: what listings do to the reports that keep them up",
        "rows": fates(rows),
        "statements": [asdict(statement) for statement in statements(fates(rows), loop.settings)],
    }


def statements(table: Sequence[dict[str, Any]], settings: Settings) -> list[Statement]:
    shipped = {row["caller"]: row for row in table if row["arm"] == SHIPPED}
    persistent = [shipped[caller.name] for caller in CAST if caller.persistent]
    welcome = [shipped[caller.name] for caller in CAST if not caller.spam]
    least = min(row["blocked_after"] or 0.0 for row in persistent)
    once_listed = [row["blocked_once_listed"] or 0.0 for row in persistent]
    window = settings.list.window_days + settings.profile.reach
    left = [row["left_after_days"] for row in persistent]
    slowest = max(days if days is not None else DAYS for days in left)
    worst = max((row["blocked"] or 0.0) + (row["warned"] or 0.0) for row in welcome)
    return [
        Statement("a persistent spammer is blocked in 95 % of its calls once it blocks", f"{least:.1%}", least >= 0.95),
        Statement(
            "a persistent spammer is blocked in 95 % of its calls once it is listed",
            ", ".join(
                f"{share:.0%} at {row['caller'][12:]}" for row, share in zip(persistent, once_listed, strict=True)
            ),
            min(once_listed) >= 0.95,
            "a number warns first, until reports of later rounds pass the rule of blocking",
        ),
        Statement(
            f"it leaves the list within {window} days of its last call: the evidence's window and the list's",
            f"{slowest} days",
            slowest <= window,
        ),
        Statement("callers whom people talk to are neither blocked nor warned of", f"{worst:.1%} of calls", worst == 0),
    ]


def draw(rows: Sequence[dict[str, Any]], title: str, path: Path) -> None:
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    figure = Figure(figsize=(10, 5), layout="constrained")
    for axes, arm in zip(figure.subplots(1, len(arms), sharey=True), arms, strict=True):
        table = [row for row in rows if row["arm"] == arm][::-1]
        before = [0.0] * len(table)
        for name, colour in (("blocked", PALETTE[0]), ("warned", PALETTE[1]), ("passed", "#D3D3D3")):
            shares = [row[name] or 0.0 for row in table]
            axes.barh([row["caller"] for row in table], shares, left=before, color=colour, label=name)
            before = [a + b for a, b in zip(before, shares, strict=True)]
        name_axes(axes, arm, "share of calls", "")
        tidy(axes)
    figure.suptitle(title)
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncol=3)
    save(figure, path)
