"""The server side of the paper's protocol (modified SH-Server).

The sums of a channel are read by the paper's hard decoder or, better and at no cost in privacy, by list decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hushcall import checks
from hushcall.mechanisms import tallies
from hushcall.mechanisms.aggregator import Aggregator, Progress, Reported, quiet
from hushcall.mechanisms.decision import HeavyHitter, Support, more_than_tau
from hushcall.mechanisms.kernels.compiled import kernel
from hushcall.mechanisms.local_hashing.client import MultiplyShift
from hushcall.mechanisms.local_hashing.server import ORACLE_SHAPES, LocalHashingAggregator
from hushcall.mechanisms.profiles import Profile
from hushcall.mechanisms.report_arrays import hash_words, matrix, read_values, refuse
from hushcall.mechanisms.succinct_histogram import theory
from hushcall.mechanisms.succinct_histogram.client import SuccinctHistogram
from hushcall.mechanisms.succinct_histogram.codes import ExtendedHamming
from hushcall.mechanisms.tallies import HashTally, same_maker
from hushcall.protocol.items import SUFFIX
from hushcall.protocol.numbers.plan import NumberingPlan

Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class HistogramTally:
    """Per channel and position, pluses minus minuses. Beside them OLH's reports."""

    made_by: bytes
    sums: NDArray[np.int32] = field(repr=False)
    oracle: HashTally

    @property
    def count(self) -> int:
        return self.oracle.count

    def merge(self, other: HistogramTally) -> HistogramTally:
        same_maker(self.made_by, other.made_by)
        return HistogramTally(self.made_by, self.sums + other.sums, self.oracle.merge(other.oracle))

    def to_bytes(self) -> bytes:
        return tallies.pack(self.made_by, {"sums": self.sums, **self.oracle.arrays()})


@dataclass(frozen=True)
class SuccinctHistogramAggregator(Aggregator[HistogramTally]):
    """The decoder of one bucket. ``domain`` holds the suffixes that exist."""

    mechanism: SuccinctHistogram
    domain: range
    list_size: int = 0
    """L, the candidates of a channel. 0 is the paper's hard decoder."""
    tolerance: int = 0

    @cached_property
    def made_by(self) -> bytes:
        return tallies.fingerprint(self.mechanism)

    @cached_property
    def oracle(self) -> LocalHashingAggregator:
        return LocalHashingAggregator(self.mechanism.oracle, self.domain)

    def tally(self, reports: Iterable[Reported]) -> HistogramTally:
        pairs, mechanism = list(reports), self.mechanism
        bodies = matrix(mechanism, [report for _, report in pairs])
        symbols, values = bodies[:, : mechanism.total_channels], read_values(bodies[:, mechanism.total_channels :])
        zero = mechanism.randomiser.kind != "basic"
        bad = bad_symbols(symbols, mechanism.code.length, zero_allowed=zero) | (values >= mechanism.oracle.size)
        refuse(mechanism, bodies, bad)
        oracle = HashTally(self.oracle.made_by, hash_words([public for public, _ in pairs]), values)
        return HistogramTally(self.made_by, channel_sums(symbols, mechanism.code.length), oracle)

    def from_bytes(self, data: bytes) -> HistogramTally:
        sums = (self.mechanism.total_channels, self.mechanism.code.length)
        arrays = tallies.shaped(tallies.unpack(self.made_by, data), sums=sums, **ORACLE_SHAPES)
        oracle = HashTally(self.oracle.made_by, arrays["seeds"].astype(np.uint64), arrays["values"].astype(np.uint32))
        return HistogramTally(self.made_by, arrays["sums"].astype(np.int32), oracle)

    def law(self, reports: int) -> Support:
        return self.oracle.law(reports)

    def estimate(self, tally: HistogramTally, items: Sequence[int]) -> NDArray[np.float64]:
        return self.oracle.estimate(tally.oracle, items)

    def candidates(self, tally: HistogramTally) -> list[int]:
        """Γ before filtering: the numbers that the channels of all rounds spell out."""
        code, item_bits = self.mechanism.code, self.mechanism.item_bits
        if not self.list_size:
            return decode_hard(tally.sums, code, item_bits, self.domain)
        return decode_list(tally.sums, self.mechanism.hashes, code, item_bits, self.domain, self.list_size)

    def find(self, tally: HistogramTally, tau: float, progress: Progress = quiet) -> list[HeavyHitter]:
        """The candidates whose OLH estimate is above τ (the paper uses τ, since η is far below it)."""
        return self.oracle.judge(tally.oracle, self.candidates(tally), tau, self.tolerance)

    def chance(self, users: int, tau: float) -> Callable[[int], float]:
        return lambda holders: theory.found_probability(self.mechanism, users, holders, tau, self.tolerance)

    @property
    def setting(self) -> str:
        return f"T={self.mechanism.rounds} K={self.mechanism.channels}"


def open_bucket(
    profile: Profile, plan: NumberingPlan, users: int, seed: bytes, buckets: int
) -> SuccinctHistogramAggregator | None:
    """With K and the tuned odds from the size of the bucket. None if no more than τ clients report."""
    if not more_than_tau(users, profile.tau, profile.tolerance):
        return None
    kind, tau = profile.mechanism.removeprefix("sh-"), max(profile.tau, 1)
    mechanism = SuccinctHistogram.with_budget(
        kind,
        profile.epsilon_hh,
        profile.epsilon_olh,
        rounds=profile.repetitions,
        channels=channels(profile, users),
        seed=seed,
        accounting=profile.accounting,
        keep=theory.best_keep(profile.epsilon_hh / profile.repetitions, users, tau) if kind == "tuned" else None,
        item_bits=SUFFIX.bits(plan),
    )
    return resume(profile, plan, mechanism, buckets)


def resume(
    profile: Profile, plan: NumberingPlan, mechanism: SuccinctHistogram, buckets: int
) -> SuccinctHistogramAggregator:
    return SuccinctHistogramAggregator(mechanism, SUFFIX.domain(plan), profile.list_size, profile.tolerance)


def channels(profile: Profile, users: int) -> int:
    """K. More than the collision rule asks costs bytes and no privacy, and keeps other callers out of a channel."""
    return max(theory.channels_for(users, max(profile.tau, 1), profile.repetitions), profile.least_channels)


def bad_symbols(symbols: NDArray[np.uint8], length: int, *, zero_allowed: bool) -> NDArray[np.bool_]:
    code = symbols >> 6
    bad = (code == 3) | ((symbols & 63) >= length)
    if not zero_allowed:
        bad |= code == 0
    return np.asarray(bad.any(axis=1))


def channel_sums(symbols: NDArray[np.uint8], length: int) -> NDArray[np.int32]:
    """(n, channels) symbols → (channels, m): pluses minus minuses at every position of every channel."""
    channels = symbols.shape[1]
    # One flat index per possible (channel, byte): counting is a single pass, and the sign is applied once at the end.
    flat = symbols + np.arange(channels, dtype=np.int64) * 256
    counts = np.bincount(flat.ravel(), minlength=channels * 256).reshape(channels, 4, 64)
    return np.asarray(counts[:, 1, :length] - counts[:, 2, :length], dtype=np.int32)


def decode_hard(sums: NDArray[np.int32], code: ExtendedHamming, item_bits: int, domain: range) -> list[int]:
    """The paper's decoder: round every sum to a bit (z̄ ≥ 0 is a plus), repair one error, keep what is a valid item.

    A plus is a 0 and a minus a 1, which the paper leaves open. Valid suffixes have a few more zeros, so ties are right
    more often this way. The upper message bits of shorter items are zero and are not read, as noise in them would cost
    up to 5 points of detection. Sorted, each candidate once.
    """
    ones = sums < 0
    ones[:, list(code.message_positions[item_bits:])] = False
    places = np.arange(code.length)
    syndrome = np.bitwise_xor.reduce(np.where(ones, places, 0), axis=1)
    odd = ones.sum(axis=1) % 2 == 1
    ones[odd, syndrome[odd]] ^= True
    weights = np.int64(1) << np.arange(code.message_bits, dtype=np.int64)
    messages = ones[:, list(code.message_positions)] @ weights
    decoded = messages[odd | (syndrome == 0)]
    return [int(item) for item in np.unique(decoded) if int(item) in domain]


@dataclass(frozen=True)
class _Half:
    """All subsets of some positions, ordered by syndrome: class s is members[starts[s] : starts[s + 1]]."""

    places: tuple[int, ...]
    order: int

    @cached_property
    def _syndromes(self) -> Ints:
        """The syndrome of every subset: XOR of its positions, and its parity on top."""
        syndromes = np.zeros(1, dtype=np.int64)
        for place in self.places:
            syndromes = np.concatenate([syndromes, syndromes ^ (place | 1 << self.order)])
        return syndromes

    @cached_property
    def members(self) -> Ints:
        """Subsets (bit i: places[i]), class by class."""
        return np.argsort(self._syndromes, kind="stable").astype(np.int64)

    @cached_property
    def starts(self) -> Ints:
        classes = np.arange((2 << self.order) + 1)
        return np.searchsorted(np.sort(self._syndromes), classes).astype(np.int64)

    def costs(self, weights: Ints) -> Ints:
        costs = np.zeros(1, dtype=np.int64)
        for place in self.places:
            costs = np.concatenate([costs, costs + weights[place]])
        return costs[self.members]


@lru_cache(maxsize=8)
def _halves(code: ExtendedHamming, item_bits: int) -> tuple[_Half, _Half]:
    """The positions that the decoder reads (the others are zero), cut in two."""
    zeros = set(code.message_positions[item_bits:])
    places = tuple(place for place in range(code.length) if place not in zeros)
    return _Half(places[::2], code.order), _Half(places[1::2], code.order)


@lru_cache(maxsize=8)
def _extraction(code: ExtendedHamming) -> Ints:
    """Position → the message bit that stands there, −1 for a check."""
    bits = np.full(code.length, -1, dtype=np.int64)
    for bit, place in enumerate(code.message_positions):
        bits[place] = bit
    return bits


def likeliest(
    sums: NDArray[np.int32],
    size: int,
    code: ExtendedHamming,
    item_bits: int,
    domain: range,
    channel: tuple[MultiplyShift, int, int] | None = None,
) -> list[int]:
    """The ``size`` numbers of ``domain`` with the highest correlation, best first, ties by number.

    ``channel`` is (hash, its bits, the channel's index): only numbers that hash to the channel count.

    The log-likelihood of a number σ is, up to a factor, Σᵢ Sᵢ·(−1)^⟨gᵢ,σ⟩: Σ|Sᵢ| minus twice the |Sᵢ| of the positions
    where its codeword contradicts the sums. So the likeliest codewords are the cheapest sets of flips with the syndrome
    of the rounded word. They are found exactly, by meeting in the middle: every subset of half of the positions has a
    cost and a syndrome (64 classes), and two subsets make a codeword exactly when their classes match. Only subsets
    within a cost bound are paired. The bound grows until enough numbers that exist and hash to the channel are found.
    """
    checks.whole("L", size, 1)
    rounded = np.asarray(sums) < 0
    weights = np.abs(np.asarray(sums, dtype=np.int64))
    left, right = _halves(code, item_bits)
    for place in code.message_positions[item_bits:]:
        rounded[place] = False
    places = np.flatnonzero(rounded)
    target = int(np.bitwise_xor.reduce(places, initial=0)) | (len(places) & 1) << code.order
    costs = left.costs(weights), right.costs(weights)
    function, bits, index = channel or (MultiplyShift(0, 0), 0, 0)
    where, total = _extraction(code), int(weights.sum())
    bound = max(int(np.sort(weights)[: code.order].sum()), 1)
    while True:
        items, prices = _pairs(
            (left.members, left.starts, costs[0], np.array(left.places)),
            (right.members, right.starts, costs[1], np.array(right.places)),
            target,
            bound,
            (rounded.astype(np.int64), where),
            (domain.start, domain.stop),
            (np.uint64(function.a), np.uint64(function.b), bits, index),
        )
        if len(items) >= size or bound >= total:
            best = np.lexsort((items, prices))[:size]
            return [int(item) for item in items[best]]
        bound = bound * 5 // 4 + 1


@kernel()
def _message(word: int, places: Ints, where: Ints) -> int:
    message = 0
    for i in range(len(places)):
        if word >> i & 1 and where[places[i]] >= 0:
            message |= 1 << where[places[i]]
    return message


@kernel()
def _pairs(  # type: ignore[no-untyped-def]  # noqa: PLR0912  (one loop nest: numba inlines no closures)
    left, right, target: int, bound: int, word, domain, channel
) -> tuple[Ints, Ints]:
    """All pairs of subsets of matching class within the bound that pass the checks: (numbers, costs)."""
    members, starts, costs, places = left
    members2, starts2, costs2, places2 = right
    rounded, where = word
    a, b, bits, index = channel
    base, base2 = 0, 0  # the rounded word, as each half sees it
    for i in range(len(places)):
        base |= rounded[places[i]] << i
    for i in range(len(places2)):
        base2 |= rounded[places2[i]] << i
    items, prices, size = np.empty(256, np.int64), np.empty(256, np.int64), 0
    near, nearest = np.empty(len(members2), np.int64), np.empty(len(members2), np.int64)
    for s in range(len(starts) - 1):
        other, count = s ^ target, 0
        for j in range(starts2[other], starts2[other + 1]):
            if costs2[j] <= bound:
                near[count], nearest[count] = costs2[j], _message(members2[j] ^ base2, places2, where)
                count += 1
        if count == 0:
            continue
        for i in range(starts[s], starts[s + 1]):
            if costs[i] > bound:
                continue
            half = _message(members[i] ^ base, places, where)
            for j in range(count):
                if costs[i] + near[j] > bound:
                    continue
                item = half | nearest[j]
                if item < domain[0] or item >= domain[1]:
                    continue
                if bits and (a * np.uint64(item) + b) >> np.uint64(64 - bits) != np.uint64(index):
                    continue
                if size == len(items):
                    items = np.concatenate((items, np.empty(size, np.int64)))
                    prices = np.concatenate((prices, np.empty(size, np.int64)))
                items[size], prices[size] = item, costs[i] + near[j]
                size += 1
    return items[:size], prices[:size]


def decode_list(
    sums: NDArray[np.int32],
    hashes: tuple[MultiplyShift, ...],
    code: ExtendedHamming,
    item_bits: int,
    domain: range,
    size: int,
) -> list[int]:
    """The likeliest numbers of every channel of every round, each once. ``sums`` is (T·K, m), round by round."""
    channels = len(sums) // len(hashes)
    bits = channels.bit_length() - 1
    candidates: set[int] = set()
    for place, row in enumerate(sums):
        channel = (hashes[place // channels], bits, place % channels)
        candidates.update(likeliest(row, size, code, item_bits, domain, channel))
    return sorted(candidates)
