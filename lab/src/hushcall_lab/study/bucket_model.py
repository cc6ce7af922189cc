"""Detection without phones: the counts of buckets are drawn from their laws, number by number.

For the histograms, reports on the channel of a phone's own number are drawn phone by phone, and each other channel is
one multinomial. The other decoders see a number only through its support, C ~ Binomial(c, p) + Binomial(n − c, q). Of
the numbers without a holder, Binomial(D, tail) pass the threshold. Supports of different numbers are taken as
independent. ``tests/lab/test_fast.py`` compares with phones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcall.decoding.hints import Hints
from hushcall.decoding.pooled import PooledSupport
from hushcall.decoding.window import Decision, Passed, passing, tiers
from hushcall.mechanisms.bucket_setup import open_bucket
from hushcall.mechanisms.decision import Support
from hushcall.mechanisms.local_hashing.client import MultiplyShift
from hushcall.mechanisms.profiles import Profile
from hushcall.mechanisms.randomisers import ChannelRandomiser
from hushcall.mechanisms.succinct_histogram.server import decode_hard, likeliest
from hushcall.protocol import blocklist
from hushcall.protocol.blocklist import Sighting
from hushcall.protocol.items import WHOLE, ItemCodec
from hushcall.protocol.numbers import NANP
from hushcall.protocol.seeds import SEED_BYTES
from hushcall_lab.data.datasets import Calls
from hushcall_lab.study.metrics import WINDOW_DAYS

Ints = NDArray[np.int64]
MIN_HOLDERS_TO_LIST = 40
"""Channels without a number of so many holders are not list-decoded: none of theirs could pass the oracle's τ ≥ 100."""


@dataclass(frozen=True)
class Bucket:
    items: Ints
    counts: Ints  # the holders of each
    dummies: int  # as many more phones hold a random item each

    @property
    def users(self) -> int:
        return int(self.counts.sum()) + self.dummies


def buckets_of(
    calls: Calls, day: int, users: int, generator: np.random.Generator, codec: ItemCodec
) -> dict[int, Bucket]:
    """A day's buckets by area code (or the one bucket of a round with nothing in the clear), dummies included."""
    areas, suffixes, counts = calls.counts(day)
    missing = users - int(counts.sum())
    plan = np.array(NANP.area_codes)
    if not codec.bucketed:
        places = np.searchsorted(plan, areas).astype(np.int64)
        items = codec.compose(places, areas.astype(np.int64), suffixes.astype(np.int64), NANP)
        return {WHOLE: Bucket(items, counts.astype(np.int64), missing)}
    dummies = dict(
        zip(NANP.area_codes, generator.multinomial(missing, np.full(len(plan), 1 / len(plan))).tolist(), strict=True)
    )
    buckets = {}
    for area in sorted({*np.unique(areas).tolist(), *(area for area, count in dummies.items() if count)}):
        inside = areas == area
        items, holders = suffixes[inside].astype(np.int64), counts[inside].astype(np.int64)
        buckets[area] = Bucket(items, holders, dummies.get(area, 0))
    return buckets


def detect(aggregator: Any, bucket: Bucket, tau: float, generator: np.random.Generator) -> dict[int, float]:
    """{item: estimate} of the items that this aggregator would list. Rivals need :func:`months.phone_by_phone`."""
    law = aggregator.law(bucket.users)
    if not aggregator.pooling:
        candidates = _candidates(aggregator, aggregator.list_size, bucket, generator)
        return _above(law, candidates, bucket, tau, generator)
    threshold = aggregator.rule(tau).least(law)
    counts = _draw(law, bucket.counts, generator)
    estimates = np.asarray(law.estimate(counts.astype(np.float64)))
    listed = {int(bucket.items[place]): float(estimates[place]) for place in np.flatnonzero(counts >= threshold)}
    for item in _noise(aggregator, len(bucket.items), law.p_value(threshold), generator):
        listed.setdefault(item, float(law.estimate(float(threshold))))
    return listed


def _draw(law: Support, holders: Any, generator: np.random.Generator) -> Any:
    return generator.binomial(holders, law.p) + generator.binomial(law.reports - holders, law.q)


def _noise(aggregator: Any, items: int, chance: float, generator: np.random.Generator) -> Iterator[int]:
    """Items without a holder that pass a threshold with that chance each. The bucket has ``items`` other ones."""
    absent = len(aggregator.domain) * aggregator.areas - items
    for _ in range(generator.binomial(absent, min(chance, 1.0))):
        area = generator.integers(aggregator.areas)
        suffix = generator.integers(aggregator.domain.start, aggregator.domain.stop)
        yield int(area) << aggregator.suffix_bits | int(suffix)


def _above(
    law: Support, candidates: list[int], bucket: Bucket, tau: float, generator: np.random.Generator
) -> dict[int, float]:
    holders = dict(zip(bucket.items.tolist(), bucket.counts.tolist(), strict=True))
    listed = {}
    for item in candidates:
        count = _draw(law, holders.get(item, 0), generator)
        if (estimate := float(law.estimate(float(count)))) > tau:
            listed[item] = estimate
    return listed


def _candidates(aggregator: Any, list_size: int, bucket: Bucket, generator: np.random.Generator) -> list[int]:
    """Γ: the candidates that the channels of all rounds spell."""
    chosen = aggregator.mechanism
    random_items = generator.integers(aggregator.domain.start, aggregator.domain.stop, bucket.dummies)
    phones = np.concatenate([np.repeat(bucket.items, bucket.counts), random_items])
    candidates: set[int] = set()
    for function in chosen.hashes:
        channels = hash_items(function, phones, chosen.channels)
        sums = channel_sums(phones, channels, chosen.channels, chosen.randomiser, chosen.code, generator)
        if not list_size:
            candidates.update(decode_hard(sums, chosen.code, chosen.item_bits, aggregator.domain))
            continue
        heavy = bucket.items[bucket.counts >= MIN_HOLDERS_TO_LIST]
        bits = chosen.channels.bit_length() - 1
        for channel in set(hash_items(function, heavy, chosen.channels).tolist()):
            where = (function, bits, channel) if bits else None
            candidates.update(
                likeliest(sums[channel], list_size, chosen.code, chosen.item_bits, aggregator.domain, where)
            )
    return sorted(candidates)


def hash_items(function: MultiplyShift, items: Ints, channels: int) -> Ints:
    bits = channels.bit_length() - 1
    if bits == 0:
        return np.zeros(len(items), dtype=np.int64)
    hashed = items.astype(np.uint64) * np.uint64(function.a) + np.uint64(function.b)
    return (hashed >> np.uint64(64 - bits)).astype(np.int64)


def channel_sums(
    phones: Ints, channels: Ints, total: int, randomiser: ChannelRandomiser, code: Any, generator: np.random.Generator
) -> NDArray[np.int32]:
    """(K, m): pluses minus minuses at every position of every channel, from n phones in one round."""
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


@dataclass
class _Drawn:
    day: int
    aggregator: Any
    law: Support
    counts: Ints


def detect_windows(
    calls: Calls,
    profile: Profile,
    users: int,
    days: int,
    generator: np.random.Generator,
    hints: float = 0.0,
    block_rounds: int = 0,
) -> list[dict[int, Passed]]:
    """{number: what lists it} of each day. Windows with a common day have its counts in common.

    ``hints``: the share of each day's calls that are hints of the next. ``block_rounds``: the setting of a service, by
    which it is easier to stay on the list than to enter.
    """
    month = [buckets_of(calls, day, users, generator, profile.spec.items) for day in range(days)]
    listed: list[dict[int, Passed]] = [{} for _ in range(days)]
    for area in sorted(set().union(*month)):
        items = np.unique(np.concatenate([buckets[area].items for buckets in month if area in buckets]))
        drawn = [
            counts
            for day, buckets in enumerate(month)
            if area in buckets and (counts := _draw_day(day, profile, buckets, area, items, generator))
        ]
        bucket = _BucketMonth(profile, drawn, items, generator)
        for day in range(days):
            before = month[day - 1].get(area) if day and hints else None
            hinted = before.items[generator.binomial(before.counts, hints) > 0].tolist() if before else []
            on_list = bucket.on_list(day, block_rounds) if block_rounds else {}
            for item, passed in bucket.decide(day, Hints(frozenset(hinted), on_list)).items():
                if number := profile.spec.items.number(item, area, NANP):
                    listed[day][int(number.digits)] = passed
    return listed


def _draw_day(
    day: int, profile: Profile, buckets: dict[int, Bucket], area: int, items: Ints, generator: np.random.Generator
) -> _Drawn | None:
    bucket = buckets[area]
    aggregator = _opened(profile, bucket.users, len(buckets))
    if aggregator is None:
        return None
    law, holders = aggregator.law(bucket.users), np.zeros(len(items), dtype=np.int64)
    holders[np.searchsorted(items, bucket.items)] = bucket.counts
    return _Drawn(day, aggregator, law, _draw(law, holders, generator))


@lru_cache(maxsize=1 << 16)
def _opened(profile: Profile, users: int, buckets: int) -> Any:
    return open_bucket(profile, NANP, users, bytes(SEED_BYTES), buckets)


class _BucketMonth:
    def __init__(self, profile: Profile, drawn: list[_Drawn], items: Ints, generator: np.random.Generator) -> None:
        self.profile, self.drawn, self.items, self.generator = profile, drawn, items, generator
        self.sightings: list[Sighting] = []

    def on_list(self, day: int, block_rounds: int) -> dict[int, frozenset[int]]:
        """{length: what was listed before a window, on evidence of its own}."""
        lists = {
            length: blocklist.listed(self.sightings, day - length, WINDOW_DAYS, block_rounds=block_rounds)
            for length in self.profile.windows
        }
        return {
            length: frozenset(int(entry.number[2:]) for entry in entries if not entry.hinted)
            for length, entries in lists.items()
        }

    def decide(self, today: int, hints: Hints) -> dict[int, Passed]:
        recent = [past for past in self.drawn if 0 <= today - past.day < self.profile.reach][::-1]
        if not recent:
            return {}
        newest, tau = recent[0].aggregator, self.profile.tau
        laws = [(today - past.day, past.law) for past in recent]
        decisions = tiers(laws, self.profile.windows, newest.rule(tau), newest.strict_rule(tau), newest.numbers, hints)
        for decision in decisions:
            self._add_noise(newest, decision, [past for past in recent if today - past.day < decision.length])
        listed = passing(self._counted(decisions, recent, today, hints))
        self.sightings += [sighting(item, today, passed) for item, passed in listed.items()]
        return listed

    def _counted(
        self, decisions: list[Decision], recent: list[_Drawn], today: int, hints: Hints
    ) -> Iterator[tuple[Decision, int, list[int]]]:
        named = np.isin(self.items, np.fromiter(hints.items, np.int64, len(hints.items)))
        for decision in decisions:
            parts = _by_part([past for past in recent if today - past.day < decision.length], decision.law)
            least = np.where(named, decision.least(hinted=True), decision.least())
            for place in np.flatnonzero(parts.sum(axis=0) >= least).tolist():
                yield decision, int(self.items[place]), parts[:, place].tolist()

    def _add_noise(self, aggregator: Any, decision: Decision, days: list[_Drawn]) -> None:
        """Adds items without a holder that pass a decision about all numbers, with counts on every day."""
        least, reports = decision.least(), np.array([past.law.reports for past in days])
        chance = decision.law.p_value(least)
        for item in _noise(aggregator, len(self.items), chance, self.generator):
            total, luck = least, self.generator.random() * chance
            while decision.law.p_value(total + 1) > luck:
                total += 1
            shares = self.generator.multivariate_hypergeometric(reports, total)
            inside = dict(zip((past.day for past in days), shares.tolist(), strict=True))
            self.items = np.append(self.items, item)
            for past in self.drawn:
                count = inside.get(past.day)
                count = self.generator.binomial(past.law.reports, past.law.q) if count is None else count
                past.counts = np.append(past.counts, count)


def sighting(number: int, day: int, passed: Passed) -> Sighting:
    """A finding as a list is made of it. ``number`` has ten digits."""
    return Sighting(f"+1{number:010}", day, day, 0.0, 0.0, 0.0, 0.0, passed.length, passed.strict, passed.hinted)


def _by_part(days: list[_Drawn], law: PooledSupport) -> Ints:
    """(parts of the law, items): the counts of the days with equal odds, added up."""
    sums = np.zeros((len(law.parts), len(days[0].counts)), dtype=np.int64)
    odds = [(part.p, part.q) for part in law.parts]
    for day in days:
        sums[odds.index((day.law.p, day.law.q))] += day.counts
    return sums
