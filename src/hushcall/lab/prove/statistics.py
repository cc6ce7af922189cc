"""What the statistics promise, put to the test with the real phone and server code: ``hushcall prove``.

Each proof runs the same experiment many times with reproducible coins and says how often it came out, beside what was
promised. The full sizes take minutes; the test suite runs the same functions with smaller ones.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numba
import numpy as np
from scipy import stats

from hushcall.learn import subspace_tuning
from hushcall.learn.bucket_setup import learner_of
from hushcall.learn.channels import channel_sums, decode_hard
from hushcall.learn.decision import Rule
from hushcall.learn.list_decoding import likeliest
from hushcall.learn.subspace import SubspaceLearner
from hushcall.learn.subspace_tuning import law_of
from hushcall.learn.succinct_histogram import SuccinctHistogramLearner
from hushcall.learn.whole_number import WholeNumberLearner
from hushcall.learn.whole_spectrum import SUFFIX_BITS
from hushcall.learn.window import Sealed, scan, spans
from hushcall.numbers import NANP, NumberingPlan
from hushcall.privacy.coins import seeded
from hushcall.profiles import DEFAULT, WINDOWS
from hushcall.report.mechanism import Mechanism
from hushcall.report.subspace import Subspace, WholeNumber
from hushcall.report.succinct_histogram import SuccinctHistogram

DOMAIN = range(NANP.first_suffix, NANP.suffixes)
WEEK_PLAN = NumberingPlan("four digits", 1, "US", (202,), 4, 0)
WEEK_LEVEL = 0.2
Progress = Callable[[int, int], None]


def quiet(_done: int, _total: int) -> None:
    """A listener for progress that shows nothing."""


@contextmanager
def one_thread() -> Iterator[None]:
    """For domains of a few thousand numbers: threads that meet would take longer than the work."""
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        yield
    finally:
        numba.set_num_threads(before)


@dataclass(frozen=True)
class Proof:
    """``hits`` of ``runs``, where between ``low`` and ``high`` of them were promised."""

    name: str
    hits: int
    runs: int
    low: float
    high: float

    @property
    def rate(self) -> float:
        """The share of runs that came out."""
        return self.hits / self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """What the true rate may be, at 99 % confidence (Clopper and Pearson 1934)."""
        interval = stats.binomtest(self.hits, self.runs).proportion_ci(0.99, method="exact")
        return float(interval.low), float(interval.high)

    @property
    def ok(self) -> bool:
        """Whether the runs are consistent with the promise: the interval and the promised range meet."""
        low, high = self.interval
        return low <= self.high and high >= self.low


def population(users: int, holders: int, world: random.Random, item_bits: int = 24) -> tuple[int, list[int]]:
    """(the number that ``holders`` of ``users`` phones hold, what each phone holds); the rest is uniform."""
    areas = len(NANP.area_codes) if item_bits > SUFFIX_BITS else 1

    def number() -> int:
        return world.randrange(areas) << SUFFIX_BITS | world.choice(DOMAIN)

    heavy = number()
    return heavy, [heavy] * holders + [number() for _ in range(users - holders)]


def reports(mechanism: Mechanism, items: list[int], seed: str) -> list[tuple[bytes, bytes]]:
    """Every phone's report, by the real phone code."""
    coins = seeded(seed.encode())
    publics = [coins(32) for _ in items]
    return [(public, mechanism.privatise(item, public, coins)) for public, item in zip(publics, items, strict=True)]


def hard_decoding(kind: str, epsilon_hh: float, runs: int, channels: int = 64, progress: Progress = quiet) -> Proof:
    """A bucket of 300 with 150 holders, T = 2: how often the paper's decoder spells the number out."""
    world, hits = random.Random(f"{kind} {epsilon_hh}"), 0
    for run in range(runs):
        seed = seeded(f"hashes {run}".encode())(32)
        mechanism = SuccinctHistogram.with_budget(kind, epsilon_hh, 3.0, channels=channels, seed=seed)
        learner = SuccinctHistogramLearner(mechanism, DOMAIN)
        heavy, items = population(300, 150, world)
        hits += heavy in learner.candidates(learner.tally(reports(mechanism, items, f"hard {kind} {epsilon_hh} {run}")))
        progress(run + 1, runs)
    low, high = {("extended", 8.8): (0.70, 0.85), ("extended", 12.0): (0.97, 1.0)}.get((kind, epsilon_hh), (0.0, 0.65))
    return Proof(f"hard decoding, {kind}, ε_HH = {epsilon_hh:g}, 150 of 300", hits, runs, low, high)


def list_decoding(epsilon_hh: float, runs: int, size: int = 200, progress: Progress = quiet) -> tuple[Proof, Proof]:
    """One channel of K = 64, n = 1000, 150 holders, extended: how often the list and the hard decoder hold it."""
    world, listed, hard = random.Random(f"list {epsilon_hh}"), 0, 0
    for run in range(runs):
        seed = seeded(f"hashes {run}".encode())(32)
        mechanism = SuccinctHistogram.with_budget("extended", epsilon_hh, 3.0, channels=64, seed=seed)
        heavy, items = population(1000, 150, world)
        channel = mechanism.hashes[0].bits(heavy, 6)
        bodies = np.frombuffer(
            b"".join(r for _, r in reports(mechanism, items, f"list {epsilon_hh} {run}")), dtype=np.uint8
        ).reshape(len(items), -1)
        sums = channel_sums(bodies[:, 2 + channel : 3 + channel], mechanism.code.length)
        found = likeliest(sums[0], size, mechanism.code, 24, DOMAIN, (mechanism.hashes[0], 6, channel))
        listed += heavy in found
        hard += heavy in decode_hard(sums, mechanism.code, 24, DOMAIN)
        progress(run + 1, runs)
    least = 0.95 if epsilon_hh >= 8.8 else 0.85
    name = f"ε_HH = {epsilon_hh:g}, one channel, 150 of 1000"
    return Proof(f"list of {size}, {name}", listed, runs, least, 1.0), Proof(f"hard, {name}", hard, runs, 0.0, 0.3)


def null_behaviour(
    buckets: int, users: int = 300, epsilon: float = 4.0, level: float = 0.1, progress: Progress = quiet
) -> tuple[Proof, float]:
    """Buckets in which no number is held twice: how many list anything, and the spread of estimates against theory.

    The share must lie within the 99 % interval of a binomial with the level that the discrete counts really give, which
    is at most the one asked for. The second value is (standard deviation of all absent estimates) / (theory).
    """
    bits = subspace_tuning.bits_for(users, epsilon, len(DOMAIN), level)
    learner = SubspaceLearner(Subspace(epsilon, bits), DOMAIN, level)
    law = learner.law(users)
    world, hits, squares = random.Random("null"), 0, 0.0
    for run in range(buckets):
        items = world.sample(DOMAIN, users)
        counts = learner.support(learner.tally(reports(learner.mechanism, items, f"null {run}")))
        absent = np.ones(len(counts), dtype=np.bool_)
        absent[items] = False
        absent[: DOMAIN.start] = absent[DOMAIN.stop :] = False
        hits += bool((counts[DOMAIN.start : DOMAIN.stop] >= law.threshold(level, len(DOMAIN))).any())
        squares += float(np.mean((counts[absent] - users * law.q) ** 2, dtype=np.float64))
        progress(run + 1, buckets)
    # Lists are nearly independent over numbers, so the chance of any is 1 − (1 − tail)^D for the tail at the threshold.
    chance = -math.expm1(len(DOMAIN) * math.log1p(-law.p_value(law.threshold(level, len(DOMAIN)))))
    low, high = (float(end) for end in stats.binom.interval(0.99, buckets, chance))
    name = f"buckets of {users} without a heavy hitter that list any, ε = {epsilon:g}, level {level:g}"
    spread = math.sqrt(squares / buckets / (users * law.q * (1 - law.q)))
    return Proof(name, hits, buckets, low / buckets, high / buckets), spread


def power(
    users: int, epsilon: float, runs: int, level: float = 1e-3, holders: int = 0, progress: Progress = quiet
) -> Proof:
    """The count that ``plan`` promises to find with 90 % power, planted: how often the full decoder lists it."""
    bits = subspace_tuning.bits_for(users, epsilon, len(DOMAIN), level)
    learner = SubspaceLearner(Subspace(epsilon, bits), DOMAIN, level)
    holders = holders or subspace_tuning.detectable(users, epsilon, bits, len(DOMAIN), level)
    world, hits = random.Random(f"power {users} {epsilon}"), 0
    for run in range(runs):
        heavy, items = population(users, holders, world)
        tally = learner.tally(reports(learner.mechanism, items, f"power {users} {epsilon} {run}"))
        hits += heavy in {hitter.item for hitter in learner.find(tally)}
        progress(run + 1, runs)
    return Proof(f"subspace finds {holders} of {users}, ε = {epsilon:g}", hits, runs, 0.86, 0.94)


def whole_number_power(
    runs: int, users: int = 23_188, epsilon: float = 8.0, areas: int = 1, progress: Progress = quiet
) -> Proof:
    """The same in whole-number mode; each run decodes the number's own area code and ``areas`` − 1 others."""
    total = len(NANP.area_codes)
    bits = subspace_tuning.bits_for(users, epsilon, len(DOMAIN) * total)
    learner = WholeNumberLearner(WholeNumber(epsilon, bits), DOMAIN, total)
    holders = subspace_tuning.detectable(users, epsilon, bits, len(DOMAIN) * total)
    world, hits = random.Random("whole"), 0
    for run in range(runs):
        heavy, items = population(users, holders, world, item_bits=33)
        tally = learner.tally(reports(learner.mechanism, items, f"whole {run}"))
        looked = [heavy >> SUFFIX_BITS, *world.sample(range(total), areas - 1)]
        hits += any(heavy == hitter.item for found in learner.find_in(tally, 0.0, looked) for hitter in found)
        progress(run + 1, runs)
    return Proof(f"whole-number finds {holders} of {users}, ε = {epsilon:g}", hits, runs, 0.86, 0.94)


def null_weeks(
    weeks: int, windows: tuple[int, ...] = WINDOWS, users: int = 100, seed: str = "weeks", progress: Progress = quiet
) -> Proof:
    """Weeks in which no number is held twice: how many the service's scan lists anything in.

    Promised is at most the level; more exactly, at most the sum of what every window's exact law leaves to noise at its
    share of the level (windows that share days err together, so the sum is a bound). Over 10⁴ numbers, which the law
    does not notice and the patience of whoever waits for 300 weeks does; two b take turns, as they may in a service.
    """
    profile = replace(DEFAULT, level=WEEK_LEVEL, windows=windows, tau=0, tolerance=0)
    given = [Subspace(profile.epsilon, 5 + day % 2, WEEK_PLAN.suffix_bits) for day in range(max(windows))]
    learners = [learner_of(profile, WEEK_PLAN, mechanism) for mechanism in given]
    domain, world, hits = range(WEEK_PLAN.suffixes), random.Random(seed), 0
    for week in range(weeks):
        sealed = []
        for day, learner in enumerate(learners):
            sent = reports(learner.mechanism, world.sample(domain, users), f"{seed} {week} {day}")
            sealed.append(Sealed(day, learner.mechanism, learner.tally(sent).to_bytes()))
        with one_thread():
            hits += bool(scan(profile, WEEK_PLAN, sealed, max(windows) - 1))
        progress(week + 1, weeks)
    laws = [(age, law_of(mechanism, users)) for age, mechanism in enumerate(reversed(given))]
    rule = Rule(level=WEEK_LEVEL / len(windows), hypotheses=len(domain))
    noise = sum(span.noise for span in spans(laws, windows, rule)) * len(domain)
    lengths = ", ".join(map(str, windows))
    name = f"weeks without a heavy hitter that list any, windows {lengths}, level {WEEK_LEVEL:g}"
    return Proof(name, hits, weeks, 0.0, min(noise, WEEK_LEVEL))
