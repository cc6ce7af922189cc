"""What the statistics promise, tested with the real client and server code.

Each proof repeats one experiment with seeded random bytes and compares its success rate with the promised one.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numba
import numpy as np
from scipy import stats

from hushcall.decoding.task import BucketSpec, DecodeTask
from hushcall.decoding.window import decode, spans
from hushcall.mechanisms.aggregator import Progress, quiet
from hushcall.mechanisms.bucket_setup import aggregator_of
from hushcall.mechanisms.decision import Rule, law_of
from hushcall.mechanisms.mechanism import Mechanism
from hushcall.mechanisms.parameters import to_plain
from hushcall.mechanisms.profiles import DEFAULT, WINDOWS
from hushcall.mechanisms.subspace import server as subspace_tuning
from hushcall.mechanisms.subspace.client import Subspace, WholeNumber
from hushcall.mechanisms.subspace.server import SubspaceAggregator
from hushcall.mechanisms.succinct_histogram import server as histogram
from hushcall.mechanisms.succinct_histogram.client import SuccinctHistogram
from hushcall.protocol.items import SUFFIX
from hushcall.protocol.numbers import NANP, NumberingPlan
from hushcall.protocol.randomness import seeded

DOMAIN = SUFFIX.domain(NANP)
SUFFIX_BITS = SUFFIX.bits(NANP)
WEEK_PLAN = NumberingPlan("four digits", 1, "US", (202,), 4, 0)
WEEK_LEVEL = 0.2
LIST_SIZE = 200


@contextmanager
def one_thread() -> Iterator[None]:
    """For a few thousand numbers, more threads take longer."""
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
        return self.hits / self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """Of the true rate, at 99 % confidence (Clopper and Pearson 1934)."""
        interval = stats.binomtest(self.hits, self.runs).proportion_ci(0.99, method="exact")
        return float(interval.low), float(interval.high)

    @property
    def ok(self) -> bool:
        low, high = self.interval
        return low <= self.high and high >= self.low


def population(users: int, holders: int, world: random.Random, item_bits: int = 24) -> tuple[int, list[int]]:
    """(the number of ``holders`` clients, the numbers of all ``users`` clients). The other numbers are uniform."""
    areas = len(NANP.area_codes) if item_bits > SUFFIX_BITS else 1

    def number() -> int:
        return world.randrange(areas) << SUFFIX_BITS | world.choice(DOMAIN)

    heavy = number()
    return heavy, [heavy] * holders + [number() for _ in range(users - holders)]


def reports(mechanism: Mechanism, items: list[int], seed: str) -> list[tuple[bytes, bytes]]:
    rand = seeded(seed.encode())
    publics = [rand(32) for _ in items]
    return [(public, mechanism.privatise(item, public, rand)) for public, item in zip(publics, items, strict=True)]


def hard_decoding(kind: str, epsilon_hh: float, runs: int, progress: Progress = quiet) -> Proof:
    """A bucket of 300 with 150 holders, T = 2: how often the paper's decoder finds the number."""
    world, hits = random.Random(f"{kind} {epsilon_hh}"), 0
    for run in range(runs):
        seed = seeded(f"hashes {run}".encode())(32)
        mechanism = SuccinctHistogram.with_budget(kind, epsilon_hh, 3.0, channels=64, seed=seed)
        aggregator = histogram.SuccinctHistogramAggregator(mechanism, DOMAIN)
        heavy, items = population(300, 150, world)
        tally = aggregator.tally(reports(mechanism, items, f"hard {kind} {epsilon_hh} {run}"))
        hits += heavy in aggregator.candidates(tally)
        progress(run + 1, runs)
    low, high = {("extended", 8.8): (0.70, 0.85), ("extended", 12.0): (0.97, 1.0)}.get((kind, epsilon_hh), (0.0, 0.65))
    return Proof(f"hard decoding, {kind}, ε_HH = {epsilon_hh:g}, 150 of 300", hits, runs, low, high)


def list_decoding(epsilon_hh: float, runs: int, progress: Progress = quiet) -> tuple[Proof, Proof]:
    """One channel of K = 64, n = 1000, 150 holders, extended: how often the list and the hard decoder hold it."""
    world, listed, hard = random.Random(f"list {epsilon_hh}"), 0, 0
    for run in range(runs):
        seed = seeded(f"hashes {run}".encode())(32)
        mechanism = SuccinctHistogram.with_budget("extended", epsilon_hh, 3.0, channels=64, seed=seed)
        heavy, items = population(1000, 150, world)
        channel = mechanism.hashes[0].bits(heavy, 6)
        sent = b"".join(report for _, report in reports(mechanism, items, f"list {epsilon_hh} {run}"))
        bodies = np.frombuffer(sent, dtype=np.uint8).reshape(len(items), -1)
        sums = histogram.channel_sums(bodies[:, 2 + channel : 3 + channel], mechanism.code.length)
        place = mechanism.hashes[0], 6, channel
        listed += heavy in histogram.likeliest(sums[0], LIST_SIZE, mechanism.code, 24, DOMAIN, place)
        hard += heavy in histogram.decode_hard(sums, mechanism.code, 24, DOMAIN)
        progress(run + 1, runs)
    least = 0.95 if epsilon_hh >= 8.8 else 0.85
    name = f"ε_HH = {epsilon_hh:g}, one channel, 150 of 1000"
    return Proof(f"list of {LIST_SIZE}, {name}", listed, runs, least, 1.0), Proof(f"hard, {name}", hard, runs, 0.0, 0.3)


def null_behaviour(buckets: int, progress: Progress = quiet) -> tuple[Proof, float]:
    """How many buckets in which no number is held twice list anything; (deviation of absent estimates) / (theory)."""
    users, epsilon, level = 300, 4.0, 0.1
    bits = subspace_tuning.bits_for(users, epsilon, len(DOMAIN), level)
    aggregator = SubspaceAggregator(Subspace(epsilon, bits), DOMAIN, level)
    law = aggregator.law(users)
    world, hits, squares = random.Random("null"), 0, 0.0
    for run in range(buckets):
        items = world.sample(DOMAIN, users)
        counts = aggregator.support(aggregator.tally(reports(aggregator.mechanism, items, f"null {run}")))
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


def power(users: int, epsilon: float, runs: int, holders: int = 0, progress: Progress = quiet) -> Proof:
    """How often the full decoder lists a planted number of the count that ``plan`` promises to find with 90 % power."""
    level = 1e-3
    bits = subspace_tuning.bits_for(users, epsilon, len(DOMAIN), level)
    aggregator = SubspaceAggregator(Subspace(epsilon, bits), DOMAIN, level)
    holders = holders or subspace_tuning.detectable(users, epsilon, bits, len(DOMAIN), level)
    world, hits = random.Random(f"power {users} {epsilon}"), 0
    for run in range(runs):
        heavy, items = population(users, holders, world)
        tally = aggregator.tally(reports(aggregator.mechanism, items, f"power {users} {epsilon} {run}"))
        hits += heavy in {hitter.item for hitter in aggregator.find(tally)}
        progress(run + 1, runs)
    return Proof(f"subspace finds {holders} of {users}, ε = {epsilon:g}", hits, runs, 0.86, 0.94)


def whole_number_power(runs: int, progress: Progress = quiet) -> Proof:
    """Each run decodes the number's own area code only."""
    users, epsilon, total = 23_188, 8.0, len(NANP.area_codes)
    bits = subspace_tuning.bits_for(users, epsilon, len(DOMAIN) * total)
    aggregator = SubspaceAggregator(WholeNumber(epsilon, bits), DOMAIN, areas=total)
    holders = subspace_tuning.detectable(users, epsilon, bits, len(DOMAIN) * total)
    world, hits = random.Random("whole"), 0
    for run in range(runs):
        heavy, items = population(users, holders, world, item_bits=33)
        tally = aggregator.tally(reports(aggregator.mechanism, items, f"whole {run}"))
        (hitters,) = aggregator.find_in(tally, 0.0, [heavy >> SUFFIX_BITS])
        hits += heavy in {hitter.item for hitter in hitters}
        progress(run + 1, runs)
    return Proof(f"whole-number finds {holders} of {users}, ε = {epsilon:g}", hits, runs, 0.86, 0.94)


def null_weeks(weeks: int, windows: tuple[int, ...] = WINDOWS, progress: Progress = quiet) -> Proof:
    """In how many weeks without a number that is held twice the service's scan lists anything.

    The promise is the sum over windows of the noise that the exact law leaves at the window's share of the level, at
    most the level. Windows that share days err together, so the sum is a bound. Two values of b take turns.
    """
    users = 100
    profile = replace(DEFAULT, level=WEEK_LEVEL, windows=windows, tau=0, tolerance=0)
    mechanisms = [Subspace(profile.epsilon, 5 + day % 2, SUFFIX.bits(WEEK_PLAN)) for day in range(max(windows))]
    aggregators = [aggregator_of(profile, WEEK_PLAN, mechanism) for mechanism in mechanisms]
    domain, world, hits = range(WEEK_PLAN.suffixes), random.Random("weeks"), 0
    bucket = BucketSpec(max(windows) - 1, 0, users, 1, profile, WEEK_PLAN, {})
    for week in range(weeks):
        sealed = []
        for day, aggregator in enumerate(aggregators):
            sent = reports(aggregator.mechanism, world.sample(domain, users), f"weeks {week} {day}")
            sealed.append((day, to_plain(aggregator.mechanism), aggregator.tally(sent).to_bytes()))
        with one_thread():
            hits += bool(decode(DecodeTask.of_sealed(bucket, sealed)).hitters)
        progress(week + 1, weeks)
    laws = [(age, law_of(mechanism, users)) for age, mechanism in enumerate(reversed(mechanisms))]
    rule = Rule(level=WEEK_LEVEL / len(windows), hypotheses=len(domain))
    noise = sum(span.law.p_value(span.least) for span in spans(laws, windows, rule)) * len(domain)
    lengths = ", ".join(map(str, windows))
    name = f"weeks without a heavy hitter that list any, windows {lengths}, level {WEEK_LEVEL:g}"
    return Proof(name, hits, weeks, 0.0, min(noise, WEEK_LEVEL))


def prove_all(
    runs: int, splits: Sequence[tuple[int, ...]], progress_of: Callable[[str], Progress]
) -> tuple[list[Proof], float]:
    proofs = [
        power(users, epsilon, runs, progress=progress_of(f"power {users}, ε = {epsilon:g}"))
        for users, epsilon in ((300, 2.0), (300, 4.0), (1000, 3.0), (1000, 8.0))
    ]
    half, most = max(runs // 2, 10), max(runs * 3 // 5, 10)
    proofs.append(whole_number_power(half, progress=progress_of("whole numbers")))
    null, spread = null_behaviour(most, progress=progress_of("no heavy hitters"))
    proofs.append(null)
    for lengths in splits:
        progress = progress_of(f"weeks without a spammer, windows {lengths}")
        proofs.append(null_weeks(most, lengths, progress))
    for budget in (8.8, 7.0):
        proofs += list_decoding(budget, half, progress=progress_of(f"lists, ε_HH = {budget:g}"))
    for kind in ("extended", "basic"):
        for budget in (12.0, 8.8):
            proofs.append(hard_decoding(kind, budget, runs, progress=progress_of(f"{kind}, ε_HH = {budget:g}")))
    return proofs, spread
