"""Fake reports against the server's decision code.

A fake knows its public seed, so its report supports its victim for sure, or surely not its spammer. Beside every count
stands the one of :class:`Law`, which shares no code with the decision. Numbers have three digits here, with as many
hypotheses as in four hundred area codes of seven.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import stats

from hushcall.decoding import planning
from hushcall.decoding.task import BucketSpec, DecodeTask
from hushcall.decoding.window import decode
from hushcall.mechanisms.aggregator import Progress, quiet
from hushcall.mechanisms.bucket_setup import open_bucket
from hushcall.mechanisms.parameters import to_plain
from hushcall.mechanisms.profiles import DEFAULT, WINDOWS, Profile
from hushcall.protocol.numbers import NANP, NumberingPlan
from hushcall.protocol.randomness import seeded
from hushcall.protocol.seeds import SEED_BYTES
from hushcall.protocol.wire import pack_value, seal
from hushcall_lab.proofs.statistics import Proof, one_thread, reports

SMALL = NumberingPlan("three digits", 1, "US", (202,), 3, 200)
AREAS = 400
BUCKETS = AREAS * NANP.valid_suffixes // SMALL.valid_suffixes
"""As many hypotheses as in 400 area codes of North America."""
TARGETS = range(SMALL.first_suffix, SMALL.first_suffix + 40)
"""Numbers that no honest client reports by chance."""
HONEST = range(TARGETS.stop, SMALL.suffixes)
SIZES = (5, 20, 100, 1000, 10_000)
HIDDEN = ((100, 90), (1000, 150))
"""Honest clients, and how many of them report the spammer that fakes would hide."""
TOLERANCE = 20
SINGLE_BUCKET_FAKES = 24
"""Fakes that list a number in a bucket of their own where nothing is tolerated."""
SLACK = 0.1
MAX = 1 << 14
HALF, NINE = 0.5, 0.9


@dataclass(frozen=True)
class Law:
    """The decision in one bucket as a formula. ``level`` is that of one window.

    With f the tolerance, n all reports, k of them supporting fakes and h from honest holders, a number is listed if

        C ≥ f + max(t, t_τ),    t = min{t : P(Bin(n − f, q) ≥ t) ≤ level/hypotheses},
                                t_τ = ⌊(n − f)·q + τ·(p − q)⌋ + 1,

    where C = k + Bin(h, p) + Bin(n − k − h, q), q = 2^−b and p = e^ε/(e^ε + 2^b − 1).
    """

    epsilon: float
    bits: int
    tau: float
    level: float
    hypotheses: int
    tolerance: int

    @classmethod
    def of(cls, profile: Profile, aggregator: Any) -> Law:
        bits, hypotheses = aggregator.mechanism.bits, aggregator.hypotheses
        return cls(profile.epsilon, bits, profile.tau, profile.share, hypotheses, profile.tolerance)

    @property
    def q(self) -> float:
        return float(2.0**-self.bits)

    @property
    def p(self) -> float:
        return 1 / (1 + ((1 << self.bits) - 1) * math.exp(-self.epsilon))

    def threshold(self, reports: int) -> int:
        honest = max(reports - self.tolerance, 0)
        share = self.level / self.hypotheses
        significant = int(np.count_nonzero(stats.binom.sf(np.arange(-1, honest + 1), honest, self.q) > share))
        return self.tolerance + max(significant, math.floor(honest * self.q + self.tau * (self.p - self.q)) + 1)

    def chance(self, honest: int, supporting: int = 0, silent: int = 0, holders: int = 0) -> float:
        """P(listed) with so many honest reports, ``holders`` of them of the number, and fakes of both kinds."""
        missing = self.threshold(honest + supporting + silent) - supporting
        truthful = np.arange(holders + 1)
        by_chance = stats.binom.sf(missing - 1 - truthful, honest - holders, self.q)
        return float(stats.binom.pmf(truthful, holders, self.p) @ by_chance)


def first(holds: Callable[[int], bool], guess: int, maximum: int) -> int:
    """The smallest k of 0 … maximum from which a monotone condition holds. Searches near ``guess`` first."""
    low, high, step = -1, maximum, 1  # it does not hold at low, and is taken to hold at high
    place = min(max(guess, 0), maximum - 1)
    while high - low > 1:
        if holds(place):
            high, place = place, place - step
        else:
            low, place = place, place + step
        step *= 2
        if not low < place < high:
            place = (low + high) // 2
    return high


def fake_report(mechanism: Any, item: int, public: bytes, *, hides: bool = False) -> bytes:
    """The report that supports ``item`` for sure under its public seed. With ``hides``, one that does not."""
    value = mechanism.hashed(item, public) ^ int(hides)
    return seal(mechanism.kind, pack_value(value, mechanism.size))


@lru_cache(maxsize=1 << 14)
def open_small(profile: Profile, users: int) -> Any:
    """The bucket as the server opens it. None: skipped."""
    return open_bucket(profile, SMALL, users, bytes(SEED_BYTES), BUCKETS)


class Days:
    """One bucket over the longest window. ``holders`` report the first target. Every fake reports on every day."""

    def __init__(self, profile: Profile, honest: int, seed: str, holders: int = 0) -> None:
        rng, self.profile, self.seed = random.Random(seed), profile, seed
        self.items = [[rng.choice(HONEST) for _ in range(honest)] for _ in range(max(profile.windows))]
        for day in self.items:
            day[:holders] = [TARGETS[0]] * holders
        self._tallies: dict[tuple[object, ...], Any] = {}
        self._fakes: dict[tuple[object, ...], list[tuple[bytes, bytes]]] = {}

    def lists(self, target: int, fakes: int, *, hides: bool = False) -> bool:
        aggregator = open_small(self.profile, len(self.items[0]) + fakes)
        if aggregator is None:
            return False
        sealed = []
        for day in range(len(self.items)):
            tally = self._honest(aggregator, day).merge(self._fake(aggregator, day, target, fakes, hides))
            sealed.append((day, to_plain(aggregator.mechanism), tally.to_bytes()))
        bucket = BucketSpec(len(self.items) - 1, 0, len(self.items[0]) + fakes, BUCKETS, self.profile, SMALL, {})
        with one_thread():
            hitters = decode(DecodeTask.of_sealed(bucket, sealed)).hitters
        return target in {hitter.item for hitter in hitters}

    def _honest(self, aggregator: Any, day: int) -> Any:
        mechanism = aggregator.mechanism
        if (day, mechanism) not in self._tallies:
            sent = reports(mechanism, self.items[day], f"{self.seed} {day} {mechanism.bits}")
            self._tallies[day, mechanism] = aggregator.tally(sent)
        return self._tallies[day, mechanism]

    def _fake(self, aggregator: Any, day: int, target: int, fakes: int, hides: bool) -> Any:
        sent = self._fakes.setdefault((day, aggregator.mechanism, target, hides), [])
        for place in range(len(sent), fakes):  # the server chooses the seeds
            public = seeded(f"{self.seed} {day} {target} fake {place}".encode())(SEED_BYTES)
            sent.append((public, fake_report(aggregator.mechanism, target, public, hides=hides)))
        return aggregator.tally(sent[:fakes])


@dataclass(frozen=True)
class Needed:
    """Fakes that list a victim (or hide a spammer) with a chance of 50 and 90 %: measured, and by the law."""

    what: str
    honest: int
    tolerance: int
    window: int
    half: int
    half_by_law: int
    most: int
    most_by_law: int
    counts: tuple[int, ...] = field(repr=False)

    @property
    def runs(self) -> int:
        return len(self.counts)

    @property
    def off(self) -> float:
        """The larger of the two relative deviations from the law."""
        pairs = (self.half, self.half_by_law), (self.most, self.most_by_law)
        return max(abs(measured - expected) / max(expected, 1) for measured, expected in pairs)

    @property
    def ok(self) -> bool:
        """Whether both counts may be within a tenth of the law, or within one fake, at 99 % confidence."""
        return all(self._near(share, count) for share, count in ((HALF, self.half_by_law), (NINE, self.most_by_law)))

    def _near(self, share: float, expected: int) -> bool:
        # The ranks of the sorted counts between which the true quantile lies, by a binomial law.
        low, high = (int(rank) for rank in stats.binom.interval(0.99, self.runs, share))
        reach = max(1.0, SLACK * expected)
        return self.counts[max(low - 1, 0)] - reach <= expected <= self.counts[min(high, self.runs - 1)] + reach


@dataclass(frozen=True)
class Never:
    """Rounds in which as many fakes as are tolerated aim at a victim whom nobody reports."""

    honest: int
    fakes: int
    tolerance: int
    window: int
    listed: int
    runs: int

    @property
    def ok(self) -> bool:
        """By the law, fewer than one round of 10⁹ lists the victim."""
        return self.listed == 0


def by_law(profile: Profile, honest: int, share: float, holders: int = 0) -> int:
    """The fewest fakes that list a victim with that chance, or hide the ``holders``' spammer. By the best window."""

    def chance(fakes: int) -> float:
        aggregator = open_small(profile, honest + fakes)
        if aggregator is None:
            return 0.0
        law = Law.of(profile, aggregator)
        kind = "silent" if holders else "supporting"
        return max(
            replace(law, tolerance=length * profile.tolerance).chance(
                length * honest, holders=length * holders, **{kind: length * fakes}
            )
            for length in profile.windows
        )

    if holders:
        return first(lambda fakes: 1 - chance(fakes) >= share, honest, MAX)
    return first(lambda fakes: chance(fakes) >= share, profile.tolerance + math.isqrt(honest), MAX)


def needed(profile: Profile, honest: int, runs: int, seed: int, holders: int = 0, progress: Progress = quiet) -> Needed:
    half, most = (by_law(profile, honest, share, holders) for share in (HALF, NINE))
    counts, hides = [], holders > 0
    for run, (days, target) in enumerate(_rounds(profile, honest, runs, f"needed {seed}", holders), 1):
        counts.append(first(lambda k: days.lists(target, k, hides=hides) != hides, half, MAX))  # noqa: B023
        progress(run, runs)
    counts.sort()
    measured = [counts[math.ceil(share * runs) - 1] for share in (HALF, NINE)]
    what = f"hide {holders} of {honest:,}" if holders else "list a victim"
    longest = max(profile.windows)
    return Needed(what, honest, profile.tolerance, longest, measured[0], half, measured[1], most, tuple(counts))


def never(profile: Profile, honest: int, runs: int, seed: int, fakes: int = 0, progress: Progress = quiet) -> Never:
    fakes = fakes or profile.tolerance
    listed = _times_listed(_rounds(profile, honest, runs, f"never {seed}"), fakes, runs, progress)
    return Never(honest, fakes, profile.tolerance, max(profile.windows), listed, runs)


def _rounds(profile: Profile, honest: int, runs: int, seed: str, holders: int = 0) -> Iterator[tuple[Days, int]]:
    """(days, target) of each run. Many honest reports serve several victims: the hash is pairwise independent."""
    sharing = 1 if holders else min(max(honest * max(profile.windows) // 1000, 1), len(TARGETS))
    for run in range(runs):
        if run % sharing == 0:
            days = Days(profile, honest, f"{seed} {honest} {profile.tolerance} {profile.windows} {run}", holders)
        yield days, TARGETS[run % sharing]


def _times_listed(rounds: Iterator[tuple[Days, int]], fakes: int, runs: int, progress: Progress) -> int:
    listed = 0
    for run, (days, target) in enumerate(rounds, 1):
        listed += days.lists(target, fakes)
        progress(run, runs)
    return listed


def honest_count(profile: Profile, users: int, runs: int, seed: int, progress: Progress = quiet) -> Proof:
    """How often the count that ``plan`` promises to find with 90 % power is found."""
    holders = planning.outlook(profile, users, 0, AREAS).detectable or users
    hits = _times_listed(_rounds(profile, users, runs, f"honest {seed}", holders), 0, runs, progress)
    name = f"{holders} of {users:,} honest reports are found, f = {profile.tolerance} (as plan says)"
    return Proof(name, hits, runs, 0.86, 0.94)


@dataclass(frozen=True)
class Evidence:
    needed: Sequence[Needed]
    never: Sequence[Never]
    found: Sequence[Proof]

    @property
    def broken(self) -> str:
        for row in self.never:
            if not row.ok:
                return f"{row.fakes} fakes beside {row.honest} honest phones listed a victim {row.listed} times"
        for count in self.needed:
            if not count.ok:
                numbers = f"{count.half} and {count.most} fakes beside {count.honest} honest phones"
                return f"to {count.what} took {numbers}, by the law {count.half_by_law} and {count.most_by_law}"
        return next((f"{proof.name}: {proof.rate:.0%}" for proof in self.found if not proof.ok), "")

    def lines(self) -> list[str]:
        lines = []
        for row in self.never:
            fakes = f"{row.fakes} fakes" + (f" on each of {row.window} days" if row.window > 1 else "")
            phones = f"{row.honest:,} honest phones, f = {row.tolerance}"
            lines.append(f"{'✓' if row.ok else '✗'} {fakes} beside {phones}: listed in {row.listed} of {row.runs:,}")
        for proof in self.found:
            lines.append(f"{'✓' if proof.ok else '✗'} {proof.name}: {proof.rate:.1%} of {proof.runs:,}")
        return lines

    def plain(self) -> dict[str, Any]:
        needed = [asdict(row) | {"runs": row.runs, "off": row.off, "ok": row.ok} for row in self.needed]
        for row in needed:
            del row["counts"]
        found = [asdict(proof) | {"rate": proof.rate, "ok": proof.ok} for proof in self.found]
        never = [asdict(row) | {"ok": row.ok} for row in self.never]
        return {"broken": self.broken, "needed": needed, "never": never, "found": found}


def measure(
    runs: int = 200,
    seed: int = 1,
    tolerance: int = TOLERANCE,
    epsilon: float = DEFAULT.epsilon,
    sizes: Sequence[int] = SIZES,
    hidden: Sequence[tuple[int, int]] = HIDDEN,
    progress_of: Callable[[str], Progress] = lambda _: quiet,
) -> Evidence:
    """The complete proof. What must never happen is tried five times as often as counts are measured."""
    daily = replace(DEFAULT, epsilon=epsilon, windows=(1,), tolerance=tolerance, warn_level=0.0)  # what blocks
    bare, scanned = replace(daily, tolerance=0), replace(daily, windows=WINDOWS)
    rows, rounds = [], []
    for profile, some in ((bare, sizes), (daily, sizes), (scanned, sizes[: max(len(sizes) - 1, 1)])):
        for honest in some:
            label = f"{honest:,} phones, f = {profile.tolerance}, windows up to {max(profile.windows)}"
            rows.append(needed(profile, honest, runs, seed, progress=progress_of(label)))
            if profile.tolerance:
                rounds.append(never(profile, honest, 5 * runs, seed, progress=progress_of(f"{label}: f fakes")))
    if tolerance:
        rounds.append(never(daily, 0, runs, seed, SINGLE_BUCKET_FAKES))
    for honest, holders in hidden:
        progress = progress_of(f"hiding {holders} of {honest:,}")
        rows += [needed(profile, honest, runs, seed, holders, progress) for profile in (bare, daily)]
    control = never(bare, 0, runs, seed, SINGLE_BUCKET_FAKES)
    name = f"{SINGLE_BUCKET_FAKES} fakes in a bucket of their own list their victim where f = 0 (the control)"
    proofs = [Proof(name, control.listed, control.runs, 0.99, 1.0)]
    if 1000 in sizes:
        proofs.append(honest_count(daily, 1000, runs, seed, progress_of("honest reports")))
    return Evidence(rows, rounds, proofs)
