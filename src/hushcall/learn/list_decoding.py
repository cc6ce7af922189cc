"""The same channels, read better: 32 sums of a channel come in, the L likeliest numbers leave. It costs no privacy.

Rounding the sums S to bits first throws most of them away. The log-likelihood of a number σ is, up to a factor, the
correlation Σᵢ Sᵢ·(−1)^⟨gᵢ,σ⟩ with its codeword: Σ|Sᵢ| minus twice the |Sᵢ| of the positions where the codeword
contradicts the sums. So the likeliest codewords are the cheapest sets of flips whose syndrome is that of the rounded
word.

They are found exactly, by meeting in the middle: the positions are cut in two halves, every subset of a half has a cost
and a syndrome (64 classes), and a pair of subsets is a codeword exactly when their classes match. Only subsets within a
cost bound are paired, and the bound grows until L numbers that exist and hash to the channel are found (that check
alone removes all but 1/K of the impostors). Correlations of all 2²⁴ numbers by one Walsh–Hadamard transform give the
same list; a test says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hushcall import checks
from hushcall.learn.compiled import kernel
from hushcall.report.codes import ExtendedHamming
from hushcall.report.hashing import MultiplyShift

Ints: TypeAlias = NDArray[np.int64]


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
        """Where each class begins."""
        classes = np.arange((2 << self.order) + 1)
        return np.searchsorted(np.sort(self._syndromes), classes).astype(np.int64)

    def costs(self, weights: Ints) -> Ints:
        """Σ of the weights of every subset's positions, in the order of ``members``."""
        costs = np.zeros(1, dtype=np.int64)
        for place in self.places:
            costs = np.concatenate([costs, costs + weights[place]])
        return costs[self.members]


@lru_cache(maxsize=8)
def _halves(code: ExtendedHamming, item_bits: int) -> tuple[_Half, _Half]:
    """The positions that the decoder reads (the others are known to be zero), cut in two."""
    known = set(code.message_positions[item_bits:])
    places = tuple(place for place in range(code.length) if place not in known)
    return _Half(places[::2], code.order), _Half(places[1::2], code.order)


@lru_cache(maxsize=8)
def _extraction(code: ExtendedHamming) -> Ints:
    """Position → the message bit that stands there, −1 for a check."""
    where = np.full(code.length, -1, dtype=np.int64)
    for bit, place in enumerate(code.message_positions):
        where[place] = bit
    return where


def likeliest(
    sums: NDArray[np.int32],
    size: int,
    code: ExtendedHamming,
    item_bits: int,
    domain: range,
    channel: tuple[MultiplyShift, int, int] | None = None,
) -> list[int]:
    """The ``size`` numbers of ``domain`` with the highest correlation, best first, ties by number.

    ``channel`` is (hash, its bits, the channel's index): only numbers that hash to the channel count. Fewer than
    ``size`` come back only if no more exist.
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
    where, most = _extraction(code), int(weights.sum())
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
        if len(items) >= size or bound >= most:
            best = np.lexsort((items, prices))[:size]
            return [int(item) for item in items[best]]
        bound = bound * 5 // 4 + 1


@kernel()
def _message(word: int, places: Ints, where: Ints) -> int:
    """The message bits of the positions that are set in a half's word."""
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
    items, prices, found = np.empty(256, np.int64), np.empty(256, np.int64), 0
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
                if found == len(items):
                    items = np.concatenate((items, np.empty(found, np.int64)))
                    prices = np.concatenate((prices, np.empty(found, np.int64)))
                items[found], prices[found] = item, costs[i] + near[j]
                found += 1
    return items[:found], prices[:found]


def decode_list(
    sums: NDArray[np.int32],
    hashes: tuple[MultiplyShift, ...],
    code: ExtendedHamming,
    item_bits: int,
    domain: range,
    size: int,
) -> list[int]:
    """The likeliest numbers of every channel of every round, each once: candidates for the judge.

    ``sums`` is (T·K, m), channel by channel, round by round.
    """
    channels = len(sums) // len(hashes)
    bits = channels.bit_length() - 1
    found: set[int] = set()
    for place, row in enumerate(sums):
        channel = (hashes[place // channels], bits, place % channels)
        found.update(likeliest(row, size, code, item_bits, domain, channel))
    return sorted(found)
