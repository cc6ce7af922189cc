"""A month under one setting: a table of calls comes in, what each day's round detects leaves, with its scores.

A number is one integer here, area·10⁷ + suffix. Everyone takes part every day: phones without a call send a dummy.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from hushcall import checks
from hushcall.lab.data.datasets import Calls
from hushcall.lab.study import bucket_model
from hushcall.lab.study.buckets import buckets_of
from hushcall.lab.study.metrics import Scores, blocking_rates, days_to_listing
from hushcall.lab.study.windowed import windowed
from hushcall.learn.bucket_setup import open_bucket
from hushcall.mechanisms.scheme import Family
from hushcall.numbers import NANP
from hushcall.privacy.accounting import Accounting
from hushcall.privacy.coins import seeded
from hushcall.profiles import WINDOWS, Profile
from hushcall.protocol.seeds import SEED_BYTES
from hushcall.report.mechanism import report_bytes

SCALE = NANP.suffixes


@dataclass(frozen=True)
class Setting:
    """One line of an experiment: which mechanism, at which budget, listing what."""

    mechanism: str
    epsilon: float
    tau: int = 143
    rounds: int = 2
    list_size: int = 0
    epsilon_olh: float = 3.0
    level: float = 1e-3  # chance that anything nobody reported is listed on a day
    exact: bool = False  # the basic randomiser at its exact cost, which allows it twice the ε per channel
    window: int = 1  # days decided together; 1 is daily
    full: bool = False  # phone by phone with the real decoder, instead of the fast simulation
    days: int = 0  # only the first so many; 0 is all
    scan: bool = False  # windows of all lengths, as the service decides, instead of one
    tolerance: int = 0  # fakes that no decision must fall for

    @property
    def windows(self) -> tuple[int, ...]:
        """The lengths that are decided."""
        return WINDOWS if self.scan else (self.window,)

    def profile(self) -> Profile:
        """The library's profile for it."""
        return Profile(
            self.mechanism,
            "experiment",
            self.mechanism,
            self.epsilon,
            self.tau,
            level=self.level,
            epsilon_olh=self.epsilon_olh,
            repetitions=self.rounds,
            list_size=self.list_size,
            accounting=Accounting.EXACT if self.exact else Accounting.PAPER,
            tolerance=self.tolerance,
            windows=self.windows,
        )


def detect_day(
    calls: Calls, day: int, setting: Setting, users: int, generator: np.random.Generator
) -> dict[int, float]:
    """{number: estimate} of everything that one day's round lists."""
    profile, found = setting.profile(), {}
    scheme = profile.scheme
    buckets = buckets_of(calls, day, users, generator, scheme.items)
    for area, bucket in buckets.items():
        learner = open_bucket(profile, NANP, bucket.users, generator.bytes(SEED_BYTES), len(buckets))
        if learner is None:
            continue
        if setting.full or scheme.family is Family.RIVAL:
            detected = phone_by_phone(learner, bucket, setting.tau, generator)
        else:
            detected = bucket_model.detect(learner, bucket, setting.tau, generator)
        for item, estimate in detected.items():
            if number := scheme.items.number(item, area, NANP):
                found[number.national] = estimate
    return found


def phone_by_phone(
    learner: Any, bucket: bucket_model.Bucket, tau: float, generator: np.random.Generator
) -> dict[int, float]:
    """The same through every phone's own code and the full decoder."""
    coins = seeded(generator.bytes(32))
    items = np.repeat(bucket.items, bucket.counts).tolist()
    items += generator.integers(learner.domain.start, learner.domain.stop, bucket.dummies).tolist()
    pairs = []
    for item in items:
        public = coins(SEED_BYTES)
        pairs.append((public, learner.mechanism.privatise(item, public, coins)))
    return {hitter.item: hitter.estimate for hitter in learner.find(learner.tally(pairs), tau)}


def truth_of(calls: Calls, day: int) -> dict[int, int]:
    """How often each number called on a day."""
    areas, suffixes, counts = calls.counts(day)
    return dict(zip((areas.astype(np.int64) * SCALE + suffixes).tolist(), counts.tolist(), strict=True))


def busiest(calls: Calls) -> int:
    """The calls of the busiest day: how many phones take part."""
    return int(np.bincount(calls.day).max())


def run_month(calls: Calls, setting: Setting, seed: int) -> dict[str, Any]:
    """One repetition of one setting over all days: counts, scores and blocking rates, ready for JSON."""
    checks.whole("seed", seed, 0)
    users, days = busiest(calls), min(calls.days, setting.days or calls.days)
    generator = np.random.default_rng([seed, *setting_seed(setting)])
    truth = [truth_of(calls, day) for day in range(days)]
    heavy = [{number for number, count in day.items() if count > setting.tau} for day in truth]
    if setting.mechanism == "none":
        found: list[dict[int, float]] = [{n: float(c) for n, c in day.items() if c > setting.tau} for day in truth]
    elif setting.windows != (1,):
        found = windowed(calls, setting.profile(), users, days, generator)
        heavy = _heavy_in_window(truth, setting)
    else:
        found = [detect_day(calls, day, setting, users, generator) for day in range(days)]
    listed = [set(day) for day in found]
    scores = [Scores.of(now, above) for now, above in zip(listed, heavy, strict=True)]
    total, longest = Scores.total(scores), max(setting.windows)
    delays = days_to_listing(listed, heavy)
    return {
        "setting": asdict(setting),
        "seed": seed,
        "days": [asdict(score) for score in scores],
        **asdict(total),
        "precision": total.precision,
        "recall": total.recall,
        "f1": total.f1,
        "listed": sum(len(day) for day in listed),
        "never_reported": sum(
            len(now.difference(*truth[max(0, day - longest + 1) : day + 1])) for day, now in enumerate(listed)
        ),
        "blocking": blocking_rates(listed, truth),
        "delay": sum(delays) / len(delays) if delays else None,
    }


def setting_seed(setting: Setting) -> list[int]:
    """The setting as integers, so that every setting has its own stream; what came later leaves older ones theirs."""
    return list(repr(replace(setting, full=False)).replace(", scan=False, tolerance=0", "").encode())


def _heavy_in_window(truth: list[dict[int, int]], setting: Setting) -> list[set[int]]:
    """Numbers with more than τ calls over the last days."""
    out = []
    for day in range(len(truth)):
        sums: dict[int, int] = {}
        for past in truth[max(0, day - max(setting.windows) + 1) : day + 1]:
            for number, count in past.items():
                sums[number] = sums.get(number, 0) + count
        out.append({number for number, count in sums.items() if count > setting.tau})
    return out


def weight(setting: Setting, users: int = 1000) -> int | None:
    """Bytes of one report in a bucket of 1000."""
    learner = open_bucket(setting.profile(), NANP, users, bytes(SEED_BYTES))
    return None if learner is None else report_bytes(learner.mechanism)
