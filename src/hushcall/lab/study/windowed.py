"""A month of scans without its phones: buckets day by day come in, what each day's scan lists leaves.

The decisions are the service's own (``learn.window.spans``); only the counts are drawn, each from its law, once for
every number and day, so that windows that share a day share its luck.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcall.lab.data.datasets import Calls
from hushcall.lab.study.bucket_model import Bucket
from hushcall.lab.study.buckets import buckets_of
from hushcall.learn.bucket_setup import open_bucket
from hushcall.learn.decision import Support
from hushcall.learn.pooled import Span
from hushcall.learn.window import spans
from hushcall.numbers import NANP
from hushcall.profiles import Profile
from hushcall.protocol.seeds import SEED_BYTES

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Drawn:
    """One day of one bucket: its learner, its law, and how many reports support each of the bucket's numbers."""

    day: int
    learner: Any
    law: Support
    counts: Ints


def windowed(
    calls: Calls, profile: Profile, users: int, days: int, generator: np.random.Generator
) -> list[dict[int, float]]:
    """{number: estimate} of everything that each day's scan lists."""
    months = [buckets_of(calls, day, users, generator, profile.scheme.items) for day in range(days)]
    out: list[dict[int, float]] = [{} for _ in range(days)]
    for area in sorted(set().union(*months)):
        items = np.unique(np.concatenate([month[area].items for month in months if area in month]))
        drawn = [
            one
            for day, month in enumerate(months)
            if area in month and (one := _draw(day, profile, month[area], len(month), items, generator))
        ]
        for day in range(days):
            for item, estimate in _scan(drawn, day, profile, items, generator).items():
                if number := profile.scheme.items.number(item, area, NANP):
                    out[day][number.national] = estimate
    return out


def _draw(
    day: int, profile: Profile, bucket: Bucket, buckets: int, items: Ints, generator: np.random.Generator
) -> Drawn | None:
    learner: Any = open_bucket(profile, NANP, bucket.users, bytes(SEED_BYTES), buckets)
    if learner is None:
        return None
    law, held = learner.law(bucket.users), np.zeros(len(items), dtype=np.int64)
    held[np.searchsorted(items, bucket.items)] = bucket.counts
    counts = generator.binomial(held, law.p) + generator.binomial(law.reports - held, law.q)
    return Drawn(day, learner, law, counts)


def _scan(
    drawn: list[Drawn], today: int, profile: Profile, items: Ints, generator: np.random.Generator
) -> dict[int, float]:
    inside = [one for one in drawn if 0 <= today - one.day < max(profile.windows)][::-1]
    if not inside:
        return {}
    learner, found = inside[0].learner, dict[int, float]()
    absent = len(learner.domain) * learner.areas - len(items)
    for span in spans([(today - one.day, one.law) for one in inside], profile.windows, learner.rule(profile.tau)):
        parts = _by_part([one for one in inside if today - one.day < span.length], span)
        for place in np.flatnonzero(parts.sum(axis=0) >= span.least).tolist():
            if span.lists(counts := parts[:, place].tolist()):
                found.setdefault(int(items[place]), span.law.estimate(counts))
        for _ in range(generator.binomial(absent, min(span.noise, 1.0))):  # what nobody ever held
            area, suffix = (
                generator.integers(learner.areas),
                generator.integers(learner.domain.start, learner.domain.stop),
            )
            found.setdefault(int(area) << NANP.suffix_bits | int(suffix), float(profile.tau + 1))
    return found


def _by_part(inside: list[Drawn], span: Span) -> Ints:
    """(parts of the law, numbers): the counts of the days with equal odds added up."""
    out = np.zeros((len(span.law.parts), len(inside[0].counts)), dtype=np.int64)
    odds = [(part.p, part.q) for part in span.law.parts]
    for one in inside:
        out[odds.index((one.law.p, one.law.q))] += one.counts
    return out
