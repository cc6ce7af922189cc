"""One month under one setting: what each day detects, and its scores. A number is an integer, area·10⁷ + suffix."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from hushcall import checks
from hushcall.decoding.window import Passed
from hushcall.mechanisms.bucket_setup import open_bucket
from hushcall.mechanisms.mechanism import report_bytes
from hushcall.mechanisms.profiles import WINDOWS, Profile
from hushcall.mechanisms.randomisers import Accounting
from hushcall.protocol import blocklist
from hushcall.protocol.blocklist import Sighting
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import seeded
from hushcall.protocol.seeds import SEED_BYTES
from hushcall_lab.data.datasets import Calls
from hushcall_lab.study.bucket_model import Bucket, buckets_of, detect, detect_windows, sighting
from hushcall_lab.study.metrics import WINDOW_DAYS, Scores, blocked_rates, blocking_rates


@dataclass(frozen=True)
class Setting:
    mechanism: str
    epsilon: float
    tau: int = 143
    rounds: int = 2
    list_size: int = 0
    epsilon_olh: float = 3.0
    level: float = 1e-3  # the chance that any number without a report is listed on a day
    exact: bool = False  # the basic randomiser at its exact cost, which allows it twice the ε per channel
    window: int = 1  # days decided together; 1 is daily
    full: bool = False  # phone by phone with the real decoder, instead of the model
    days: int = 0  # only the first so many (0: all)
    scan: bool = False  # windows of all lengths, as the service has, instead of one
    tolerance: int = 0  # fakes that no decision may depend on
    warn_level: float = 0.0  # as the profile's: 0 is one tier
    block_rounds: int = 0  # as a service's setting: numbers warn before they block. 0: they block at once
    hints: float = 0.0  # the share of the complaints of the day before that hint at their numbers

    @property
    def windows(self) -> tuple[int, ...]:
        return WINDOWS if self.scan else (self.window,)

    def profile(self) -> Profile:
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
            warn_level=self.warn_level,
        )


def detect_day(
    calls: Calls, day: int, setting: Setting, users: int, generator: np.random.Generator
) -> dict[int, float]:
    profile, listed = setting.profile(), {}
    spec = profile.spec
    buckets = buckets_of(calls, day, users, generator, spec.items)
    for area, bucket in buckets.items():
        aggregator = open_bucket(profile, NANP, bucket.users, generator.bytes(SEED_BYTES), len(buckets))
        if aggregator is None:
            continue
        if setting.full or not spec.tolerates:
            detected = phone_by_phone(aggregator, bucket, setting.tau, generator)
        else:
            detected = detect(aggregator, bucket, setting.tau, generator)
        for item, estimate in detected.items():
            if number := spec.items.number(item, area, NANP):
                listed[int(number.digits)] = estimate
    return listed


def phone_by_phone(aggregator: Any, bucket: Bucket, tau: float, generator: np.random.Generator) -> dict[int, float]:
    """As :func:`detect`, through the client side of every phone and the full decoder."""
    rand = seeded(generator.bytes(32))
    items = np.repeat(bucket.items, bucket.counts).tolist()
    items += generator.integers(aggregator.domain.start, aggregator.domain.stop, bucket.dummies).tolist()
    pairs = []
    for item in items:
        public = rand(SEED_BYTES)
        pairs.append((public, aggregator.mechanism.privatise(item, public, rand)))
    return {hitter.item: hitter.estimate for hitter in aggregator.find(aggregator.tally(pairs), tau)}


def run_month(calls: Calls, setting: Setting, seed: int) -> dict[str, Any]:
    """One repetition of one setting over all days: counts, scores and blocking rates, ready for JSON."""
    checks.whole("seed", seed, 0)
    users, days = int(calls.per_day.max()), min(calls.days, setting.days or calls.days)
    generator = np.random.default_rng([seed, *setting_seed(setting)])
    truth = [calls.counts_by_number(day) for day in range(days)]
    heavy, blocked = _heavy_in_window(truth, setting), None
    if setting.mechanism == "none":
        listed = heavy
    elif setting.windows != (1,):
        service = (setting.hints, setting.block_rounds)
        findings = detect_windows(calls, setting.profile(), users, days, generator, *service)
        listed = [set(day) for day in findings]
        blocked = _blocked(findings, setting.block_rounds) if setting.block_rounds else None
    else:
        listed = [set(detect_day(calls, day, setting, users, generator)) for day in range(days)]
    scores = [Scores.of(now, above) for now, above in zip(listed, heavy, strict=True)]
    total, longest = Scores.total(scores), max(setting.windows)
    return {
        "setting": asdict(setting),
        "seed": seed,
        "days": [asdict(score) for score in scores],
        **asdict(total),
        "precision": total.precision,
        "recall": total.recall,
        "f1": total.f1,
        "largest": max((count for day in truth for count in day.values()), default=0),
        "listed": sum(len(day) for day in listed),
        "never_reported": sum(
            len(now.difference(*truth[max(0, day - longest + 1) : day + 1])) for day, now in enumerate(listed)
        ),
        "never_reported_blocked": len(set().union(*blocked or listed).difference(*truth)),
        "blocking": blocking_rates(listed, truth),
        "blocked": blocking_rates(listed, truth) if blocked is None else blocked_rates(blocked, truth),
    }


def _blocked(findings: Sequence[Mapping[int, Passed]], block_rounds: int) -> list[set[int]]:
    """The numbers that the list of each evening blocks, by the service's own rule."""
    sightings, blocked = list[Sighting](), []
    for day, listed in enumerate(findings):
        sightings += [sighting(number, day, passed) for number, passed in listed.items()]
        entries = blocklist.listed(sightings, day, WINDOW_DAYS, block_rounds=block_rounds)
        blocked.append({int(entry.number[2:]) for entry in entries if entry.block})
    return blocked


def setting_seed(setting: Setting) -> list[int]:
    """The setting as integers: every setting has its own stream. Later fields leave older settings theirs."""
    text = repr(replace(setting, full=False)).replace(", warn_level=0.0, block_rounds=0, hints=0.0", "")
    return list(text.replace(", scan=False, tolerance=0", "").encode())


def _heavy_in_window(truth: list[dict[int, int]], setting: Setting) -> list[set[int]]:
    heavy = []
    for day in range(len(truth)):
        sums = Counter[int]()
        for past in truth[max(0, day - max(setting.windows) + 1) : day + 1]:
            sums.update(past)
        heavy.append({number for number, count in sums.items() if count > setting.tau})
    return heavy


def weight(setting: Setting, users: int = 1000) -> int | None:
    """Bytes of one report, or None where the bucket is skipped."""
    aggregator = open_bucket(setting.profile(), NANP, users, bytes(SEED_BYTES))
    return None if aggregator is None else report_bytes(aggregator.mechanism)
