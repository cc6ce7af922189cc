"""``hushcall prove poisoning``: fakes that say the best that a liar can, against the server's own decision code.

A fake knows its public seed, so it sends the one report that supports its victim for sure, where an honest holder does
so with probability p; no report does more. To hide a spammer it sends one that does not support it. Honest reports are
the real phone code's; gate, b, sealed bytes and decision are the server's (``learn.bucket_setup``, ``learn.window``).
Beside every measured count stands the one that follows from the law (:mod:`~.poisoning_law`), which shares no code with
the decision. Numbers have three digits here, and as many hypotheses as four hundred area codes of seven digits:
the law does not notice, and a round takes a thousandth of a second. :mod:`~.poisoned_server` does the same over HTTP.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from scipy import stats

from hushcall.lab.prove.poisoning_law import Terms, first
from hushcall.lab.prove.statistics import Progress, Proof, one_thread, quiet
from hushcall.learn import planning
from hushcall.learn.bucket_setup import open_bucket
from hushcall.learn.window import Sealed, scan
from hushcall.numbers import NANP, NumberingPlan
from hushcall.privacy.coins import seeded
from hushcall.profiles import DEFAULT, WINDOWS, Profile
from hushcall.protocol.seeds import SEED_BYTES
from hushcall.protocol.wire import pack_value, seal

SMALL = NumberingPlan("three digits", 1, "US", (202,), 3, 200)
AREAS = 400
BUCKETS = AREAS * NANP.valid_suffixes // SMALL.valid_suffixes
"""So that hypotheses are as many as in 400 area codes of North America."""
TARGETS = range(SMALL.first_suffix, SMALL.first_suffix + 40)
"""Numbers that no honest phone reports unless it is told to."""
HONEST = range(TARGETS.stop, SMALL.suffixes)
SIZES = (5, 20, 100, 1000, 10_000)
HIDDEN = ((100, 90), (1000, 150))
"""Honest phones, and how many of them report the spammer that fakes would hide."""
TOLERANCE = 20
OLD_ATTACK = 24
"""Fakes that once listed a number in a bucket of their own."""
SLACK = 0.1
MOST = 1 << 14
HALF, NINE = 0.5, 0.9


def fake_report(mechanism: Any, item: int, public: bytes, *, hides: bool = False) -> bytes:
    """The report that supports ``item`` for sure under its public seed; to hide it, one that does not."""
    value = mechanism.hashed(item, public) ^ int(hides)
    return seal(mechanism.kind, pack_value(value, mechanism.size))


@lru_cache(maxsize=1 << 14)
def _opened(profile: Profile, users: int) -> Any:
    """The bucket as the server opens it; None: skipped."""
    return open_bucket(profile, SMALL, users, bytes(SEED_BYTES), BUCKETS)


def forget_buckets() -> None:
    """Ask the server anew which buckets run: for who changes its rules meanwhile."""
    _opened.cache_clear()


class Days:
    """One bucket for as many days as the profile looks back: honest phones, and as many fakes as are asked for.

    Every fake reports on every day, which is the most it can do. ``holders`` of the honest phones report the first
    target.
    """

    def __init__(self, profile: Profile, honest: int, seed: str, holders: int = 0) -> None:
        world, self.profile, self.seed = random.Random(seed), profile, seed
        self.items = [[world.choice(HONEST) for _ in range(honest)] for _ in range(max(profile.windows))]
        for day in self.items:
            day[:holders] = [TARGETS[0]] * holders
        self._kept: dict[tuple[object, ...], Any] = {}

    def lists(self, target: int, fakes: int, *, hides: bool = False) -> bool:
        """Whether the last day's decision lists the number."""
        learner = _opened(self.profile, len(self.items[0]) + fakes)
        if learner is None:
            return False
        sealed = []
        for day in range(len(self.items)):
            lies = self._lies(learner, day, target, fakes, hides)
            sealed.append(Sealed(day, learner.mechanism, self._honest(learner, day).merge(lies).to_bytes()))
        with one_thread():
            found = scan(self.profile, SMALL, sealed, len(self.items) - 1, BUCKETS)
        return target in {hitter.item for hitter in found}

    def _honest(self, learner: Any, day: int) -> Any:
        def made() -> Any:
            coins = seeded(f"{self.seed} {day} {learner.mechanism.bits}".encode())
            publics = [coins(SEED_BYTES) for _ in self.items[day]]
            pairs = zip(publics, self.items[day], strict=True)
            return learner.tally([(public, learner.mechanism.privatise(item, public, coins)) for public, item in pairs])

        return self._once((day, learner.mechanism), made)

    def _lies(self, learner: Any, day: int, target: int, fakes: int, hides: bool) -> Any:
        key = day, learner.mechanism, target, hides
        made: list[tuple[bytes, bytes]] = self._once(key, list)
        for place in range(len(made), fakes):  # the server chooses seeds: a fake takes what it gets
            public = seeded(f"{self.seed} {day} {target} fake {place}".encode())(SEED_BYTES)
            made.append((public, fake_report(learner.mechanism, target, public, hides=hides)))
        return learner.tally(made[:fakes])

    def _once(self, key: tuple[object, ...], make: Callable[[], Any]) -> Any:
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]


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
        """How many rounds were attacked."""
        return len(self.counts)

    @property
    def off(self) -> float:
        """The larger of the two relative deviations from the law."""
        pairs = (self.half, self.half_by_law), (self.most, self.most_by_law)
        return max(abs(seen - said) / max(said, 1) for seen, said in pairs)

    @property
    def ok(self) -> bool:
        """Whether both counts may be within a tenth of the law (one fake where a tenth is less), at 99 % confidence."""
        return all(self._near(share, said) for share, said in ((HALF, self.half_by_law), (NINE, self.most_by_law)))

    def _near(self, share: float, said: int) -> bool:
        # Which of the sorted counts the true quantile may be: as many as a binomial law allows lie below it.
        low, high = (int(rank) for rank in stats.binom.interval(0.99, self.runs, share))
        reach = max(1.0, SLACK * said)
        return self.counts[max(low - 1, 0)] - reach <= said <= self.counts[min(high, self.runs - 1)] + reach


@dataclass(frozen=True)
class Never:
    """Rounds in which as many lies as are tolerated aim at a victim whom nobody reports; how many listed it."""

    honest: int
    fakes: int
    tolerance: int
    window: int
    listed: int
    runs: int

    @property
    def ok(self) -> bool:
        """Not one. By the law it happens in fewer than one of 10⁹ rounds."""
        return self.listed == 0


def by_law(profile: Profile, honest: int, share: float, holders: int = 0) -> int:
    """The fewest fakes that list a victim with that chance; with ``holders``, that hide their spammer.

    Over several windows: by the best of them, which is a little less than all together.
    """

    def chance(fakes: int) -> float:
        learner = _opened(profile, honest + fakes)
        if learner is None:
            return 0.0
        bits, many = learner.mechanism.bits, learner.hypotheses
        kind = "silent" if holders else "supporting"
        return max(
            Terms(profile.epsilon, bits, profile.tau, profile.share, many, length * profile.tolerance).chance(
                length * honest, holders=length * holders, **{kind: length * fakes}
            )
            for length in profile.windows
        )

    if holders:
        return first(lambda fakes: 1 - chance(fakes) >= share, honest, MOST)
    return first(lambda fakes: chance(fakes) >= share, profile.tolerance + math.isqrt(honest), MOST)


def needed(profile: Profile, honest: int, runs: int, seed: int, holders: int = 0, progress: Progress = quiet) -> Needed:
    """In each of ``runs`` rounds the fewest fakes that do it; of these counts the median and the 90th percentile."""
    half, most = (by_law(profile, honest, share, holders) for share in (HALF, NINE))
    counts = []
    for run, (days, target) in enumerate(_rounds(profile, honest, runs, f"needed {seed}", holders), 1):
        if holders:
            counts.append(first(lambda k: not days.lists(target, k, hides=True), half, MOST))  # noqa: B023
        else:
            counts.append(first(lambda k: days.lists(target, k), half, MOST))  # noqa: B023
        progress(run, runs)
    counts.sort()
    seen, seen_90 = (counts[math.ceil(share * runs) - 1] for share in (HALF, NINE))
    what = f"hide {holders} of {honest:,}" if holders else "list a victim"
    longest = max(profile.windows)
    return Needed(what, honest, profile.tolerance, longest, seen, half, seen_90, most, tuple(counts))


def never(profile: Profile, honest: int, runs: int, seed: int, fakes: int = 0, progress: Progress = quiet) -> Never:
    """As many fakes as are tolerated, or so many, in every round of the longest window."""
    longest, listed = max(profile.windows), 0
    fakes = fakes or profile.tolerance
    for run, (days, target) in enumerate(_rounds(profile, honest, runs, f"never {seed}"), 1):
        listed += days.lists(target, fakes)
        progress(run, runs)
    return Never(honest, fakes, profile.tolerance, longest, listed, runs)


def _rounds(profile: Profile, honest: int, runs: int, seed: str, holders: int = 0) -> Iterator[tuple[Days, int]]:
    """(days, target) of each run. Honest reports of more than a thousand phones serve for several victims.

    What supports one number says nothing of another: the hash is pairwise independent.
    """
    sharing = 1 if holders else min(max(honest * max(profile.windows) // 1000, 1), len(TARGETS))
    days = None
    for run in range(runs):
        if days is None or run % sharing == 0:
            days = Days(profile, honest, f"{seed} {honest} {profile.tolerance} {profile.windows} {run}", holders)
        yield days, TARGETS[run % sharing]


def honest_count(profile: Profile, users: int, runs: int, seed: int, progress: Progress = quiet) -> Proof:
    """The count that ``plan`` says is found with 90 % power although f reports are set aside: how often it is."""
    holders = planning.outlook(profile, users, 0, AREAS).detectable or users
    hits = 0
    for run, (days, target) in enumerate(_rounds(profile, users, runs, f"honest {seed}", holders), 1):
        hits += days.lists(target, 0)
        progress(run, runs)
    name = f"{holders} of {users:,} honest reports are found, f = {profile.tolerance} (as plan says)"
    return Proof(name, hits, runs, 0.86, 0.94)


@dataclass(frozen=True)
class Evidence:
    """Everything that was measured in memory."""

    needed: Sequence[Needed]
    never: Sequence[Never]
    found: Sequence[Proof]

    @property
    def broken(self) -> str:
        """The first promise that was not kept, in words."""
        for one in self.never:
            if not one.ok:
                return f"{one.fakes} fakes beside {one.honest} honest phones listed a victim {one.listed} times"
        for row in self.needed:
            if not row.ok:
                seen, said = f"{row.half} and {row.most}", f"{row.half_by_law} and {row.most_by_law}"
                return f"to {row.what} took {seen} fakes beside {row.honest} honest phones, by the law {said}"
        return next((f"{proof.name}: {proof.rate:.0%}" for proof in self.found if not proof.ok), "")


Watch = Callable[[str], Progress]


def measure(
    runs: int = 200,
    seed: int = 1,
    tolerance: int = TOLERANCE,
    epsilon: float = DEFAULT.epsilon,
    sizes: Sequence[int] = SIZES,
    hidden: Sequence[tuple[int, int]] = HIDDEN,
    watch: Watch = lambda _: quiet,
) -> Evidence:
    """The whole proof; five times as many rounds for what must never happen as for counts."""
    daily = replace(DEFAULT, epsilon=epsilon, windows=(1,), tolerance=tolerance)
    bare, scanned = replace(daily, tolerance=0), replace(daily, windows=WINDOWS)
    rows, rounds, small = [], [], sizes[: max(len(sizes) - 1, 1)]
    for profile, some in ((bare, sizes), (daily, sizes), (scanned, small)):
        for honest in some:
            label = f"{honest:,} phones, f = {profile.tolerance}, windows up to {max(profile.windows)}"
            rows.append(needed(profile, honest, runs, seed, progress=watch(label)))
            if profile.tolerance:
                rounds.append(never(profile, honest, 5 * runs, seed, progress=watch(f"{label}: f lies")))
    if tolerance:
        rounds.append(never(daily, 0, runs, seed, OLD_ATTACK))
    for honest, holders in hidden:
        label = f"hiding {holders} of {honest:,}"
        rows += [needed(one, honest, runs, seed, holders, watch(label)) for one in (bare, daily)]
    once = never(bare, 0, runs, seed, OLD_ATTACK)
    name = f"{OLD_ATTACK} fakes in a bucket of their own list their victim where f = 0 (the control)"
    found = [Proof(name, once.listed, once.runs, 0.99, 1.0)]
    if 1000 in sizes:
        found.append(honest_count(daily, 1000, runs, seed, watch("honest reports")))
    return Evidence(rows, rounds, found)
