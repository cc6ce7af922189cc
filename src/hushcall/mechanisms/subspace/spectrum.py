"""Whole-number mode for many reports: the spectra of sixteen area codes at a time.

A report adds ±1 at 2^b characters u = (u_area, u_suffix). The spectrum of area code t over suffixes is Σ over u_area of
χ(u_area, t) times the spectrum of all, so the characters are made once for all area codes, sorted by block of u_suffix.
For every group of sixteen area codes they are added up in a tile [16 × block] that stays in cache, transformed over the
four lowest area bits there, and written out. For 469 area codes that makes n·2^b·30 updates in cache instead of
n·2^b·469 all over memory. The spectra of a group take 1 GB, the characters 4 bytes each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numba import get_num_threads, int32, int64, prange, uint32
from numpy.typing import NDArray

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.mechanisms.kernels.compiled import kernel

GROUP_BITS = 4
GROUP = 1 << GROUP_BITS
LOW_BITS = 13  # 16 rows of 2^13 numbers are 512 KiB: half of a core's second-level cache
_TILE_BITS = LOW_BITS + GROUP_BITS
Longs: TypeAlias = NDArray[np.uint64]
Words: TypeAlias = NDArray[np.uint32]
Ints: TypeAlias = NDArray[np.int32]
Places: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Characters:
    """All characters of many reports. Those of block k of the suffixes are ``words[starts[k] : starts[k + 1]]``.

    A word holds, from the lowest bit: the place in the block (13 bits), u_area, the sign (1 bit).
    """

    words: Words = field(repr=False)
    starts: Places = field(repr=False)
    suffix_bits: int
    area_bits: int

    @classmethod
    def of(cls, rows: Longs, values: Words, suffix_bits: int, item_bits: int) -> Characters:
        """Makes and sorts them: n·2^b·4 bytes. Sums of fewer than 2³¹ characters cannot overflow."""
        (n, b), area_bits = rows.shape, max(item_bits - suffix_bits, GROUP_BITS)
        checks.whole("suffix_bits", suffix_bits, LOW_BITS, 30)
        checks.whole("area_bits", area_bits, GROUP_BITS, 31 - LOW_BITS)
        if n << b >= 1 << 31:
            raise InvalidParameter("n * 2**b", "stay below 2**31", n << b)
        packed, blocks = _packed(rows, values, suffix_bits, area_bits), 1 << (suffix_bits - LOW_BITS)
        shards = np.linspace(0, n, get_num_threads() + 1).astype(np.int64)
        counts = _counted(packed, shards, blocks)
        ends = np.cumsum(counts.T.reshape(-1))  # block after block, in each the shards in turn
        firsts = np.concatenate([[0], ends[:-1]]).reshape(blocks, len(shards) - 1).T.copy()
        words = np.empty(n << b, np.uint32)
        starts = np.concatenate([firsts[0], [n << b]]).astype(np.int64)
        _sorted_into(words, packed, shards, firsts)
        return cls(words, starts, suffix_bits, area_bits)

    def group(self, group: int, spectra: Ints) -> None:
        """Writes the spectra of area codes 16·group … 16·group + 15 over suffixes into the 16 rows of ``spectra``."""
        if spectra.dtype != np.int32 or spectra.shape != (GROUP, 1 << self.suffix_bits):
            rule = f"be int32 of shape (16, 2^{self.suffix_bits})"
            raise InvalidParameter("spectra", rule, (spectra.dtype, spectra.shape))
        parity = np.bitwise_count(np.arange(1 << (self.area_bits - GROUP_BITS)) & group) & 1
        weights = 1 - 2 * np.concatenate([parity, 1 - parity]).astype(np.int32)  # without the sign, and with it
        _add_up(spectra, self.words, self.starts, weights.astype(np.int32))


def compile_kernels(rows: Longs, values: Words) -> None:
    """Compiles what a large round needs, on a few reports. The last step by its types alone, as it fills a gigabyte."""
    Characters.of(rows, values, LOW_BITS, LOW_BITS + GROUP_BITS)
    signature = (int32[:, ::1], uint32[::1], int64[::1], int32[::1])  # of spectra, words, starts, weights
    _add_up.compile(signature)  # type: ignore[attr-defined]


def _packed(rows: Longs, values: Words, suffix_bits: int, area_bits: int) -> Longs:
    """Each row with its bit of the value: the block in the upper half, the word of ``Characters`` in the lower."""
    low, place = np.uint64((1 << LOW_BITS) - 1), np.arange(rows.shape[1], dtype=np.uint32)
    block = rows >> np.uint64(LOW_BITS) & np.uint64((1 << (suffix_bits - LOW_BITS)) - 1)
    sign = (values[:, None] >> place & np.uint32(1)).astype(np.uint64)
    area = rows >> np.uint64(suffix_bits)
    return np.ascontiguousarray(
        block << np.uint64(32) | sign << np.uint64(LOW_BITS + area_bits) | area << np.uint64(LOW_BITS) | (rows & low)
    )


@kernel(inline="always")
def _spanned(span: Longs, rows: Longs) -> None:
    """All sums of a report's rows. Every step doubles their number."""
    span[0], filled = 0, np.uint64(1)
    for i in range(len(rows)):
        row = rows[i]
        for k in range(filled):
            span[filled + k] = span[k] ^ row
        filled += filled


@kernel(parallel=True)
def _counted(packed: Longs, shards: Places, blocks: int) -> Places:
    """(shard, block): the number of characters of a shard of the reports in a block."""
    counts = np.zeros((len(shards) - 1, blocks), np.int64)
    for shard in prange(len(shards) - 1):
        span = np.empty(1 << packed.shape[1], np.uint64)
        mine = counts[shard]
        for j in range(shards[shard], shards[shard + 1]):
            _spanned(span, packed[j])
            for k in range(len(span)):
                mine[span[k] >> np.uint64(32)] += 1
    return counts


@kernel(parallel=True)
def _sorted_into(words: Words, packed: Longs, shards: Places, firsts: Places) -> None:
    """Puts every character behind its shard's last one of its block."""
    for shard in prange(len(shards) - 1):
        span = np.empty(1 << packed.shape[1], np.uint64)
        at = firsts[shard].copy()
        for j in range(shards[shard], shards[shard + 1]):
            _spanned(span, packed[j])
            for k in range(len(span)):
                block = span[k] >> np.uint64(32)
                words[np.uint64(at[block])] = np.uint32(span[k])
                at[block] += 1


@kernel(parallel=True)
def _add_up(spectra: Ints, words: Words, starts: Places, weights: Ints) -> None:
    """Adds up, transforms over the group's own area bits and writes out, one block after the other."""
    size = np.uint64(1 << LOW_BITS)
    for block in prange(len(starts) - 1):
        tile = np.zeros(1 << _TILE_BITS, np.int32)
        for k in range(starts[block], starts[block + 1]):
            word = words[np.uint64(k)]
            tile[word & np.uint32((1 << _TILE_BITS) - 1)] += weights[word >> np.uint32(_TILE_BITS)]
        for level in range(GROUP_BITS):
            span = size << np.uint64(level)
            for base in range(np.uint64(0), np.uint64(1 << _TILE_BITS), span + span):
                for i in range(base, base + span):
                    a, c = tile[i], tile[i + span]
                    tile[i], tile[i + span] = a + c, a - c
        for area in range(GROUP):
            row, first = spectra[area], np.uint64(block) * size
            for i in range(size):
                row[first + i] = tile[np.uint64(area) * size + i]
