"""``hushcall prove indistinguishable``: phones with calls and phones without, told apart as well as anybody can.

Two eyes look at a week of each phone. The *network* sees when it sends and how much. The *server* sees the area codes
that it announces, and here even knows the owner's own. Phones, store and wire code are the real ones; half of the
buckets run, so that reports and cover are both among what is seen, and the network is also asked to tell them apart.
Classifiers are trained on one half of the phones and judged on the other, and the other way round: an advantage of 0 is
a guess, 1 is certainty.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from multiprocessing import get_context

from hushcall.formats.calls.call import Call, CallKind
from hushcall.lab.prove.hostile import START
from hushcall.lab.prove.liar import DAY, Liar
from hushcall.lab.prove.named_attacks import document
from hushcall.numbers import NANP
from hushcall.phone.home.store import Store
from hushcall.phone.phone import Phone
from hushcall.phone.reporting.ledger import Limits
from hushcall.phone.reporting.transport import HttpTransport
from hushcall.phone.visit import HOME_AREA
from hushcall.privacy.coins import seeded
from hushcall.protocol.states import ANNOUNCING, COLLECTING

HALF = DAY // 2
HOMES = (202, 212, 303, 415, 617)
RUNNING = frozenset((*HOMES, *NANP.area_codes[::20]))
"""Buckets that run: about half of all announcements fall into one, the others are covered."""
BINS = 24
CODES = frozenset(NANP.area_codes)


@dataclass(frozen=True)
class Seen:
    """One phone's week: what the network sees, what the server sees, and the truth."""

    called: bool
    home: int
    shape: tuple[tuple[str, int], ...]  # methods and sizes, in order
    moments: tuple[int, ...]  # seconds of the day at which it spoke
    announced: tuple[int, ...]


@dataclass(frozen=True)
class Advantage:
    """How much better than a guess the best classifier was, beside what the law predicts; ``sigma``: of the measure."""

    eye: str
    measured: float
    predicted: float
    sigma: float

    @property
    def ok(self) -> bool:
        """Within five standard deviations of the prediction: an honest phone fails less than once in a million."""
        return self.measured <= self.predicted + 5 * self.sigma


def watch(place: int, called: bool, days: int) -> Seen:
    """A phone's days, at the moments that it draws."""
    dice = random.Random(f"phone {place} {called}")
    home, liar, now = HOMES[place % len(HOMES)], Liar(random.Random(place)), [START]
    store = Store.in_memory()
    Limits(window=Fraction(100)).save(store)
    store.put(HOME_AREA, str(home))
    transport = HttpTransport("http://watched.example", "hcd_token", sleep=lambda _: None, pool=liar)
    phone = Phone(store, transport, coins=seeded(b"%d %d" % (place, called)), clock=lambda: now[0])
    for day in range(days):
        opens = START + day * DAY
        if called and day % 3 == 0:  # somebody calls now and then, by the law that unwanted callers follow
            caller = NANP.caller_like(dice.randbytes, home)
            phone.ingest([Call(str(caller), opens - dice.randrange(DAY), CallKind.MISSED)])
        for phase, start in ((ANNOUNCING, opens), (COLLECTING, opens + HALF)):
            now[0] = start
            for _ in range(2):  # once to learn the moment, once at it
                liar.now = now[0]
                liar.script = _shown(day + 1, phase, opens, now[0])
                now[0] = max(now[0], min(phone.report().next_at or 0, start + HALF - 1))
    uploads = [one for one in liar.requests if one.method != "GET"]
    row = store.rows("SELECT bucket FROM rounds ORDER BY seq")
    store.close()
    shape = tuple((one.method, len(one.body)) for one in liar.requests)
    return Seen(called, home, shape, tuple(one.at % DAY for one in uploads), tuple(found[0] for found in row))


def _shown(round_: int, phase: str, opens: int, now: int) -> dict[str, object]:
    from hushcall.protocol.blocklist import iso

    made = document(round_, phase, now)
    times = {"opens": opens, "collects": opens + HALF, "closes": opens + DAY, "server_time": now}
    if made["buckets"]:
        made["buckets"] = {area: terms for area, terms in made["buckets"].items() if int(area) in RUNNING}
    return made | {name: iso(value) for name, value in times.items()}


def measure(
    phones: int, days: int = 7, workers: int = 1, told: Callable[[int, int], None] = lambda _done, _of: None
) -> list[Advantage]:
    """The best advantage of either eye over ``phones`` phones of each kind; ``told``: how many were watched so far."""
    seen: list[Seen] = []
    for found in _watched(phones, days, workers):
        seen += found
        told(len(seen), 2 * phones)
    shapes = [(one.called, (one.shape,)) for one in seen]
    moments = [(one.called, tuple((i, at * BINS // DAY) for i, at in enumerate(one.moments))) for one in seen]
    codes = [(one.called, tuple((one.home == code, code) for code in one.announced[:1])) for one in seen]
    repeats = [(one.called, (len(set(one.announced[:3])),)) for one in seen]
    # The first day alone: a bucket that runs is as good as decided then, and later days hang together with it.
    runs = [
        (one.announced[0] in RUNNING, (one.shape, *((i, at * BINS // DAY) for i, at in enumerate(one.moments[:2]))))
        for one in seen
    ]
    return [
        Advantage("network: sizes and counts", advantage(shapes), 0.0, _sigma(shapes)),
        Advantage("network: moments", advantage(moments), 0.0, _sigma(moments)),
        Advantage("network: running or skipped bucket", advantage(runs), 0.0, _sigma(runs)),
        Advantage("server that knows the home area code: first announcement", advantage(codes), 0.0, _sigma(codes)),
        Advantage("server: how often an announcement changes in three days", advantage(repeats), 0.0, _sigma(repeats)),
    ]


def _watched(phones: int, days: int, workers: int) -> Iterator[list[Seen]]:
    pairs = partial(_pair, days=days)
    if workers == 1:
        yield from map(pairs, range(phones))
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(pairs, range(phones), chunksize=50)


def _pair(place: int, days: int) -> list[Seen]:
    return [watch(place, called, days) for called in (False, True)]


Labelled = Sequence[tuple[bool, Iterable[Hashable]]]


def advantage(labelled: Labelled) -> float:
    """A naive Bayes classifier over features, trained on every other pair of phones and judged on the rest, and back.

    The mean of how often it is right about either kind, times two, less one: 0 however many there are of each.
    """
    halves = [[one for place, one in enumerate(labelled) if place // 2 % 2 == half] for half in (0, 1)]
    right, total = Counter[bool](), Counter[bool]()
    for train, test in (halves, halves[::-1]):
        score = _trained(train)
        for label, features in test:
            found = score(features)
            right[label] += 1 if found == 0 else 2 * ((found > 0) == label)
            total[label] += 2
    return sum(right[label] / total[label] for label in total) - 1


def _trained(labelled: Labelled) -> Callable[[Iterable[Hashable]], float]:
    counts: dict[bool, Counter[Hashable]] = {True: Counter(), False: Counter()}
    sizes = Counter[bool]()
    for label, features in labelled:
        counts[label].update(features)
        sizes[label] += 1

    def rate(label: bool, feature: Hashable) -> float:
        return math.log((counts[label][feature] + 1) / (sizes[label] + 2))

    return lambda features: sum(rate(True, each) - rate(False, each) for each in features)


def _sigma(labelled: Labelled) -> float:
    """Of somebody who guesses: either rate has variance 1/4n, and the advantage is their sum less one."""
    sizes = Counter(label for label, _ in labelled)
    return math.sqrt(sum(1 / (4 * size) for size in sizes.values()))


@dataclass(frozen=True)
class Guess:
    """How often "call or made up" is guessed right from one announced area code, with the owner's home known."""

    pairs: int
    uniform: float  # were made-up callers drawn uniformly, as they once were
    call_like: float  # as they are


def guess(pairs: Sequence[tuple[int, int]], seed: int = 1, weight: float = 20.0) -> Guess:
    """Real (caller's, consumer's) area codes come in; even prior, trained on one half, judged on the other.

    The classifier estimates the real law of each home from its own complaints, smoothed by ``weight`` complaints of the
    general law: a finer one only learns the noise of the half that it was trained on.
    """
    dice = random.Random(seed)
    shuffled = list(pairs)
    dice.shuffle(shuffled)
    train, test = shuffled[: len(shuffled) // 2], shuffled[len(shuffled) // 2 :]
    law = {home: NANP.caller_law(home) for home in {home for _, home in pairs}}
    own = sum(caller == home for caller, home in train) / len(train)
    others, joint = Counter(c for c, home in train if c != home), Counter(train)
    totals, spread = Counter(home for _, home in train), sum(others.values()) + len(NANP.area_codes)

    def real(caller: int, home: int) -> float:
        general = own * (caller == home) + (1 - own) * (others[caller] + 1) / spread * (caller != home)
        return (joint[caller, home] + weight * general) / (totals[home] + weight)

    def rate(made_up: dict[int, dict[int, float]], draw: object) -> float:
        right = 0
        for caller, home in test:
            invented = draw(home)  # type: ignore[operator]
            right += real(caller, home) > made_up[home][caller]
            right += real(invented, home) <= made_up[home][invented]
        return right / (2 * len(test))

    flat = dict.fromkeys(law, dict.fromkeys(NANP.area_codes, 1 / len(NANP.area_codes)))
    like = {home: {code: float(chance) for code, chance in found.items()} for home, found in law.items()}
    return Guess(
        len(pairs),
        rate(flat, lambda _: dice.choice(NANP.area_codes)),
        rate(like, lambda home: NANP.caller_like(dice.randbytes, home).area),
    )
