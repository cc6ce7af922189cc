"""A bucket without its phones: who holds what comes in, what the server would detect leaves; each number exactly.

A million phones one by one take minutes; their sums have known laws. For the histograms, what phones send on the
channel that holds their number is drawn phone by phone (a few draws each), and what all of them send on the other
channels is one multinomial per channel. The frequency oracles and the subspace decoder see a number only through its
support, C ~ Binomial(c, p) + Binomial(n − c, q), drawn per number; of the numbers that nobody holds, Binomial(D, tail)
pass the threshold. What is left out is the dependence *between* numbers' supports, which pairwise independent hashes
make uncorrelated; ``tests/lab/test_fast.py`` compares with the phone-by-phone path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcall.learn.channels import decode_hard
from hushcall.learn.decision import Support
from hushcall.learn.list_decoding import likeliest
from hushcall.mechanisms.scheme import Family
from hushcall.mechanisms.schemes import scheme_of
from hushcall.report.hashing import MultiplyShift
from hushcall.report.randomisers import ChannelRandomiser

Ints = NDArray[np.int64]
WORTH_A_LIST = 40
"""Channels in which no number has this many holders are not list-decoded: nothing in them could pass the oracle's τ ≥
100.
"""


@dataclass(frozen=True)
class Bucket:
    """Distinct items and how many phones hold each; ``dummies`` more phones hold a random item each."""

    items: Ints
    counts: Ints
    dummies: int

    @property
    def users(self) -> int:
        """N: how many phones report in the bucket, whatever they hold."""
        return int(self.counts.sum()) + self.dummies


def detect(learner: Any, bucket: Bucket, tau: float, generator: np.random.Generator) -> dict[int, float]:
    """{item: estimate} of everything that this learner would list. Rivals have no short cut (``phone_by_phone``)."""
    if scheme_of(learner.mechanism).family is Family.OURS:
        return _tested(learner, bucket, tau, generator)
    candidates = _histogram(learner, learner.list_size, bucket, generator)
    return _judged(learner.law(bucket.users), candidates, bucket, tau, generator)


def _judged(
    law: Support, candidates: list[int], bucket: Bucket, tau: float, generator: np.random.Generator
) -> dict[int, float]:
    """The candidates whose estimate is above τ."""
    holders = dict(zip(bucket.items.tolist(), bucket.counts.tolist(), strict=True))
    found = {}
    for item in candidates:
        mine = holders.get(item, 0)
        count = generator.binomial(mine, law.p) + generator.binomial(law.reports - mine, law.q)
        if (estimate := float(law.estimate(float(count)))) > tau:
            found[item] = estimate
    return found


def _tested(learner: Any, bucket: Bucket, tau: float, generator: np.random.Generator) -> dict[int, float]:
    law = learner.law(bucket.users)
    least = learner.rule(tau).least(law)
    counts = generator.binomial(bucket.counts, law.p) + generator.binomial(law.reports - bucket.counts, law.q)
    estimates = np.asarray(law.estimate(counts.astype(np.float64)))
    found = {int(bucket.items[place]): float(estimates[place]) for place in np.flatnonzero(counts >= least)}
    absent = len(learner.domain) * learner.areas - len(bucket.items)
    for _ in range(generator.binomial(absent, min(law.p_value(least), 1.0))):
        area, suffix = generator.integers(learner.areas), generator.integers(learner.domain.start, learner.domain.stop)
        found.setdefault(int(area) << 24 | int(suffix), float(law.estimate(float(least))))
    return found


def _histogram(learner: Any, list_size: int, bucket: Bucket, generator: np.random.Generator) -> list[int]:
    """Γ: the candidates that the channels of all rounds spell out."""
    chosen = learner.mechanism
    held = np.repeat(bucket.items, bucket.counts)
    random_items = generator.integers(learner.domain.start, learner.domain.stop, bucket.dummies)
    phones = np.concatenate([held, random_items])
    candidates: set[int] = set()
    for function in chosen.hashes:
        channels = _hash(function, phones, chosen.channels)
        sums = channel_sums(phones, channels, chosen.channels, chosen.randomiser, chosen.code, generator)
        if not list_size:
            candidates.update(decode_hard(sums, chosen.code, chosen.item_bits, learner.domain))
            continue
        heavy = bucket.items[bucket.counts >= WORTH_A_LIST]
        bits = chosen.channels.bit_length() - 1
        for channel in set(_hash(function, heavy, chosen.channels).tolist()):
            where = (function, bits, channel) if bits else None
            candidates.update(likeliest(sums[channel], list_size, chosen.code, chosen.item_bits, learner.domain, where))
    return sorted(candidates)


def _hash(function: MultiplyShift, items: Ints, channels: int) -> Ints:
    bits = channels.bit_length() - 1
    if bits == 0:
        return np.zeros(len(items), dtype=np.int64)
    hashed = items.astype(np.uint64) * np.uint64(function.a) + np.uint64(function.b)
    return (hashed >> np.uint64(64 - bits)).astype(np.int64)


def channel_sums(
    phones: Ints,
    channels: Ints,
    total: int,
    randomiser: ChannelRandomiser,
    code: Any,
    generator: np.random.Generator,
) -> NDArray[np.int32]:
    """(K, m): pluses minus minuses at every position of every channel, as n phones send them in one round."""
    p, q, theta = randomiser.probabilities
    length = code.length
    positions = generator.integers(0, length, len(phones))
    columns = np.array(code.columns, dtype=np.int64)[positions]
    signs = 1 - 2 * (np.bitwise_count(columns & phones).astype(np.int64) & 1)
    draws = generator.random(len(phones))
    symbols = np.where(draws < p, signs, np.where(draws < p + q, -signs, 0))
    sums = np.bincount(channels * length + positions, weights=symbols, minlength=total * length)
    empty = len(phones) - np.bincount(channels, minlength=total)
    odds = np.full(2 * length + 1, theta / length)
    odds[-1] = max(1 - 2 * theta, 0.0)
    noise = generator.multinomial(empty, odds / odds.sum())
    return np.asarray(sums.reshape(total, length) + noise[:, :length] - noise[:, length : 2 * length], dtype=np.int32)
