"""How well clients with calls can be told apart from clients without.

The *network* sees when a client sends and how much. The *server* sees the announced area codes, and here even knows the
owner's own. Half of the buckets run, so that there are reports and cover. Callers come as made-up ones do, some of them
again and again. How far real callers differ from made-up ones is another question: :func:`guess`.
"""

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import groupby, pairwise
from multiprocessing import get_context
from typing import Any

from hushcall.client.client import Client
from hushcall.client.reporting.consent import HOME_AREA, Limits
from hushcall.client.reporting.transport import HttpTransport
from hushcall.client.storage.personal import Action
from hushcall.client.storage.store import DAY_SECONDS as DAY
from hushcall.client.storage.store import Store
from hushcall.formats.calls.call import Call, CallKind
from hushcall.mechanisms.aggregator import Progress, quiet
from hushcall.protocol.blocklist import iso
from hushcall.protocol.numbers import NANP
from hushcall.protocol.numbers.plan import HOME_IN, HOME_OF
from hushcall.protocol.randomness import seeded
from hushcall.protocol.states import ANNOUNCING, COLLECTING
from hushcall_lab.proofs.adversary import Adversary, document
from hushcall_lab.proofs.hostile import START

HALF = DAY // 2
HOMES = (202, 212, 303, 415, 617)
RUNNING = frozenset((*HOMES, *NANP.area_codes[::20]))
"""Buckets that run. About half of all announcements fall into one."""
BINS = 24
CODES = frozenset(NANP.area_codes)
RATES = (Fraction(0), Fraction(1, 3), Fraction(1), Fraction(2))
"""Calls from strangers a day. A client reports at most one caller a day, so with two of them there are always more."""
BUSIEST = RATES[-1]
KINDS = (*((rate, False) for rate in RATES), (BUSIEST, True))
"""(calls a day, whether the owner marks callers and talks to some)"""
BACKLOG_DAYS = 3
WEEK = 7
ANNOUNCED = (1, 7, 30, 60)
GUESSED_CLIENTS = 4000
Labelled = Sequence[tuple[bool, Iterable[Hashable]]]


@dataclass(frozen=True)
class Trace:
    """What network and server see of one client, its calls a day, and whether its owner marks and talks."""

    rate: Fraction
    marks: bool
    home: int
    shape: tuple[tuple[str, int], ...]  # methods and sizes, in order
    moments: tuple[int, ...]  # seconds of the day at which it sent
    announced: tuple[int, ...]

    def timing(self, uploads: int | None = None) -> tuple[Hashable, ...]:
        return tuple((place, at * BINS // DAY) for place, at in enumerate(self.moments[:uploads]))

    def course(self, days: int) -> tuple[Hashable, ...]:
        codes = self.announced[:days]
        pairs = list(pairwise(codes))
        runs = [len(list(same)) for _, same in groupby(codes)]
        return (
            *(("home", day, code == self.home) for day, code in enumerate(codes)),
            *(("new", day, old in RUNNING, old != new) for day, (old, new) in enumerate(pairs)),
            *(("length", length) for length in runs),
            ("different ones", len(set(codes))),
            ("come back", len(runs) - len(set(codes))),
            ("longest", max(runs)),
        )


@dataclass(frozen=True)
class Watched:
    eye: str
    right: float
    sigma: float

    @property
    def ok(self) -> bool:  # an honest client fails less than once in a million
        return self.right <= 0.5 + 5 * self.sigma


def watch(place: int, rate: Fraction, days: int, *, marks: bool = False) -> Trace:
    """``marks``: the owner says of some callers that they are spam, lets others through, and talks to one a day."""
    name = f"{place} {rate}" + " marks" * marks
    rng, owner = random.Random(f"phone {name}"), random.Random(f"owner {name}")
    home, server, now = HOMES[place % len(HOMES)], Adversary(random.Random(place)), START
    store = Store.in_memory()
    Limits(window=Fraction(100)).save(store)
    store.put(HOME_AREA, str(home))
    transport = HttpTransport("http://watched.example", "hcd_token", sleep=lambda _: None, pool=server)
    client = Client(store, transport, rand=seeded(name.encode()), clock=lambda: now)
    caller = ""
    for day in range(-BACKLOG_DAYS, days):
        opens = START + day * DAY
        for _ in range(math.floor((day + 1) * rate) - math.floor(day * rate)):
            if not caller or rng.random() < 3 / 4:  # the others call again
                caller = str(NANP.caller_like(rng.randbytes, home))
            client.ingest([Call(caller, opens - rng.randrange(DAY), CallKind.MISSED)])
            if marks and (action := owner.choice((Action.BLOCK, Action.BLOCK, Action.ALLOW, None))):
                client.mark([caller], action)
        if marks:
            talked_to = str(NANP.caller_like(owner.randbytes, home))
            client.ingest([Call(talked_to, opens - owner.randrange(DAY), CallKind.INCOMING, "", 60)])
        if day < 0:
            continue
        for phase, start in ((ANNOUNCING, opens), (COLLECTING, opens + HALF)):
            now = start
            for _ in range(2):  # once to learn the moment, once at it
                server.now, server.script = now, _document(day + 1, phase, opens, now)
                now = max(now, min(client.report().next_at or 0, start + HALF - 1))
    uploads = tuple(request.at % DAY for request in server.requests if request.method != "GET")
    store.close()
    # As the server got them: the client's store forgets an area code after the window.
    buckets = tuple(json.loads(request.body)["bucket"] for request in server.requests if request.method == "POST")
    shape = tuple((request.method, len(request.body)) for request in server.requests)
    return Trace(rate, marks, home, shape, uploads, buckets)


def _document(round_: int, phase: str, opens: int, now: int) -> dict[str, Any]:
    honest = document(round_, phase, now)
    times = {"opens": opens, "collects": opens + HALF, "closes": opens + DAY, "server_time": now}
    if honest["buckets"]:
        honest["buckets"] = {area: bucket for area, bucket in honest["buckets"].items() if int(area) in RUNNING}
    return honest | {name: iso(value) for name, value in times.items()}


def measure(clients: int, days: int = WEEK, workers: int = 1, progress: Progress = quiet) -> list[Watched]:
    """How often each classifier guesses right, over ``clients`` clients of each rate."""
    traces: dict[tuple[Fraction, bool], list[Trace]] = {kind: [] for kind in KINDS}
    for watched in _watch_all(clients, days, workers):
        for trace in watched:
            traces[trace.rate, trace.marks].append(trace)
        progress(len(KINDS) * len(traces[KINDS[0]]), len(KINDS) * clients)
    silent = traces[KINDS[0]]

    def row(
        eye: str, rate: Fraction, features: Callable[[Trace], Iterable[Hashable]], *, marks: bool = False
    ) -> Watched:
        """Clients without calls against clients of a rate, or the latter with and without the owner's marks."""
        others = traces[rate, False] if marks else silent
        pairs = zip(others, traces[rate, marks], strict=True)
        labelled = [(trace is second, features(trace)) for first, second in pairs for trace in (first, second)]
        return Watched(eye, guessed(labelled), _sigma(labelled))

    daily = Fraction(1)
    rows = [
        row("network: sizes and counts", daily, lambda trace: (trace.shape,)),
        row("network: moments", daily, Trace.timing),
    ]
    # The first day alone: a bucket that runs is as good as decided then, and later days depend on it.
    runs = [(trace.announced[0] in RUNNING, (trace.shape, *trace.timing(2))) for trace in silent + traces[daily, False]]
    rows.append(Watched("network: running or skipped bucket", guessed(runs), _sigma(runs)))
    rows.append(
        row("server: area code of the first announcement", daily, lambda trace: (trace.announced[0],)),
    )
    for length in sorted({min(days, WEEK), days}):
        rows += [
            row(f"server: {length} days, {rate} calls a day", rate, lambda trace: trace.course(length))  # noqa: B023
            for rate in RATES[1:]
        ]
    seen = "marks and talks"
    return [
        *rows,
        row(f"network: sizes and counts, {seen}", BUSIEST, lambda trace: (trace.shape,), marks=True),
        row(f"network: moments, {seen}", BUSIEST, Trace.timing, marks=True),
        row(f"server: {days} days, {seen}", BUSIEST, lambda trace: trace.course(days), marks=True),
    ]


def _watch_all(clients: int, days: int, workers: int) -> Iterator[list[Trace]]:
    each = partial(_each_rate, days=days)
    with ProcessPoolExecutor(workers, get_context("spawn")) if workers > 1 else nullcontext() as pool:
        yield from pool.map(each, range(clients), chunksize=10) if pool else map(each, range(clients))


def _each_rate(place: int, days: int) -> list[Trace]:
    return [watch(place, rate, days, marks=marks) for rate, marks in KINDS]


def guessed(labelled: Labelled) -> float:
    """The success rate of naive Bayes, trained on every other pair and judged on the rest, and vice versa."""
    halves = [[row for place, row in enumerate(labelled) if place // 2 % 2 == half] for half in (0, 1)]
    right, total = Counter[bool](), Counter[bool]()
    for train, test in (halves, halves[::-1]):
        score = _trained(train)
        for label, features in test:
            value = score(features)
            right[label] += 1 if value == 0 else 2 * ((value > 0) == label)
            total[label] += 2
    return sum(right[label] / total[label] for label in total) / len(total)


def _trained(labelled: Labelled) -> Callable[[Iterable[Hashable]], float]:
    counts: dict[bool, Counter[Hashable]] = {True: Counter(), False: Counter()}
    sizes = Counter[bool]()
    for label, features in labelled:
        counts[label].update(features)
        sizes[label] += 1

    def log_rate(label: bool, feature: Hashable) -> float:
        return math.log((counts[label][feature] + 1) / (sizes[label] + 2))

    return lambda features: sum(log_rate(True, feature) - log_rate(False, feature) for feature in features)


def _sigma(labelled: Labelled) -> float:
    """For a guess each success rate has variance 1/4n. Their mean has twice its share: halves err alike."""
    sizes = Counter(label for label, _ in labelled)
    return math.sqrt(2 * sum(1 / (4 * size) for size in sizes.values())) / len(sizes)


@dataclass(frozen=True)
class Guess:
    """What so many announced area codes of different callers tell a server, where area codes are in the clear.

    ``real``: how often it guesses right that the callers are real or made up, the owner's area code known. ``home``:
    how often it guesses that area code right from real callers.
    """

    announced: int
    real: float
    home: float


def caller_law(home: int) -> dict[int, Fraction]:
    counts = {area: count + 1 for area, count in zip(NANP.area_codes, NANP.complaints, strict=True)}
    share, total = Fraction(HOME_IN, HOME_OF), sum(counts.values())
    law = {area: (1 - share) * count / total for area, count in counts.items()}
    law[home] += share
    return law


def guess(pairs: Sequence[tuple[int, int]], seed: int = 1, weight: float = 20.0) -> list[Guess]:
    """Classifies real pairs of area codes (caller's, owner's) against made-up ones, for each of :data:`ANNOUNCED`.

    The law of each home is estimated from one half of its pairs, smoothed by ``weight`` pairs of the general law. The
    line between the two kinds is drawn on a quarter, and the callers of a client are drawn from the last quarter.
    """
    rng = random.Random(seed)
    shuffled = list(pairs)
    rng.shuffle(shuffled)
    half, quarter = len(shuffled) // 2, len(shuffled) // 4
    train, drawn, test = shuffled[:half], shuffled[half : half + quarter], shuffled[half + quarter :]
    laws = {home: {code: float(chance) for code, chance in caller_law(home).items()} for _, home in set(pairs)}
    own = sum(caller == home for caller, home in train) / len(train)
    elsewhere, joint = Counter(caller for caller, home in train if caller != home), Counter(train)
    totals, spread = Counter(home for _, home in train), sum(elsewhere.values()) + len(NANP.area_codes)
    callers: dict[int, list[int]] = {}
    for caller, home in test:
        callers.setdefault(home, []).append(caller)

    def evidence(caller: int, home: int) -> float:
        general = own if caller == home else (1 - own) * (elsewhere[caller] + 1) / spread
        real = (joint[caller, home] + weight * general) / (totals[home] + weight)
        return math.log(real / laws[home][caller])

    def likeliest_home(codes: Sequence[int]) -> int:
        """By the law of made-up callers, which everybody knows. Codes that are equally likely: the first."""
        at_home = {code: codes.count(code) * math.log(laws[code][code] / general[code]) for code in codes}
        return max(at_home, key=lambda code: at_home[code])

    def made_up_for(home: int) -> int:
        return NANP.caller_like(rng.randbytes, home).area

    middle = sum(evidence(*pair) + evidence(made_up_for(pair[1]), pair[1]) for pair in drawn) / (2 * len(drawn))
    general = {home: law[home] - HOME_IN / HOME_OF for home, law in laws.items()}
    guesses = []
    for announced in ANNOUNCED:
        right = homes = 0
        for _, home in rng.choices(test, k=GUESSED_CLIENTS):
            real = rng.choices(callers[home], k=announced)
            made_up = [made_up_for(home) for _ in range(announced)]
            right += sum(evidence(code, home) for code in real) > middle * announced
            right += sum(evidence(code, home) for code in made_up) <= middle * announced
            known = [code for code in real if code in laws]
            homes += bool(known) and likeliest_home(known) == home
        guesses.append(Guess(announced, right / (2 * GUESSED_CLIENTS), homes / GUESSED_CLIENTS))
    return guesses
