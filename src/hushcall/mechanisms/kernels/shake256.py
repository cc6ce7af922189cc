"""The matrix rows of many reports at once, as ``subspace.client.expand_rows`` makes them (FIPS 202, sections 3.2, 6.2).

24 rows are 120 bytes, less than the 136 that one Keccak permutation gives, so a report costs one permutation. Eight
reports go side by side through each round.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.mechanisms.kernels.compiled import kernel
from hushcall.mechanisms.kernels.sha256 import read_only
from hushcall.mechanisms.subspace.client import MAX_BITS, ROW_BYTES
from hushcall.protocol.seeds import SEED_BYTES

_SIDE = 8  # reports side by side: one vector of 64-bit words
_RATE = 136
_LABEL = b"hushcall/1/rows"
Bytes: TypeAlias = NDArray[np.uint8]
Words: TypeAlias = NDArray[np.uint64]


def report_rows(seeds: Bytes, count: int, item_bits: int) -> Words:
    checks.whole("rows", count, 1, MAX_BITS)
    checks.whole("item_bits", item_bits, 1, 8 * ROW_BYTES)
    if seeds.dtype != np.uint8 or seeds.ndim != 2 or seeds.shape[1] != SEED_BYTES:
        raise InvalidParameter("seeds", f"be uint8 of shape (n, {SEED_BYTES})", (seeds.dtype, seeds.shape))
    rows = np.empty((len(seeds), count), np.uint64)
    _expand_all(_frame(), read_only(seeds), _CONSTANTS, np.uint64((1 << item_bits) - 1), rows)
    return rows


def _frame() -> Bytes:
    """The one block: label, zeros where the seed goes, SHAKE's padding."""
    block = bytearray(_LABEL + bytes(_RATE - len(_LABEL)))
    block[len(_LABEL) + SEED_BYTES] ^= 0x1F
    block[_RATE - 1] ^= 0x80
    return np.frombuffer(bytes(block), np.uint8)


def _round_constants() -> Words:
    """Rounds 0 … 23: bit 2^j − 1 of constant i is step j + 7i of the register with x⁸ + x⁶ + x⁵ + x⁴ + 1."""
    constants, register = [], 1
    for _ in range(24):
        constant = 0
        for j in range(7):
            constant |= (register & 1) << ((1 << j) - 1)
            register = register << 1 ^ (0x171 if register & 0x80 else 0)
        constants.append(constant)
    return np.array(constants, np.uint64)


_CONSTANTS: Words = _round_constants()


@kernel(inline="always")
def _rotated(word: np.uint64, by: int) -> np.uint64:
    return (word << np.uint64(by)) | (word >> np.uint64(64 - by))


@kernel()
def _permute(s: Words, constants: Words) -> None:
    """Keccak-f[1600] on eight states side by side: word (x, y) of report j is s[8 (x + 5y) + j].

    θ, ρ and π move word (x, y) to (y, 2x + 3y), turned; χ mixes each row of five. Written out, as only then the
    compiler keeps a round of all eight in registers.
    """
    for r in range(24):
        constant = constants[r]
        for j in range(np.uint64(_SIDE)):
            a0, a1, a2, a3, a4 = s[j], s[8 + j], s[16 + j], s[24 + j], s[32 + j]
            a5, a6, a7, a8, a9 = s[40 + j], s[48 + j], s[56 + j], s[64 + j], s[72 + j]
            a10, a11, a12, a13, a14 = s[80 + j], s[88 + j], s[96 + j], s[104 + j], s[112 + j]
            a15, a16, a17, a18, a19 = s[120 + j], s[128 + j], s[136 + j], s[144 + j], s[152 + j]
            a20, a21, a22, a23, a24 = s[160 + j], s[168 + j], s[176 + j], s[184 + j], s[192 + j]
            c0, c1 = a0 ^ a5 ^ a10 ^ a15 ^ a20, a1 ^ a6 ^ a11 ^ a16 ^ a21
            c2, c3 = a2 ^ a7 ^ a12 ^ a17 ^ a22, a3 ^ a8 ^ a13 ^ a18 ^ a23
            c4 = a4 ^ a9 ^ a14 ^ a19 ^ a24
            d0, d1, d2 = c4 ^ _rotated(c1, 1), c0 ^ _rotated(c2, 1), c1 ^ _rotated(c3, 1)
            d3, d4 = c2 ^ _rotated(c4, 1), c3 ^ _rotated(c0, 1)
            b0, b1, b2 = a0 ^ d0, _rotated(a6 ^ d1, 44), _rotated(a12 ^ d2, 43)
            b3, b4 = _rotated(a18 ^ d3, 21), _rotated(a24 ^ d4, 14)
            s[j] = b0 ^ (~b1 & b2) ^ constant
            s[8 + j], s[16 + j] = b1 ^ (~b2 & b3), b2 ^ (~b3 & b4)
            s[24 + j], s[32 + j] = b3 ^ (~b4 & b0), b4 ^ (~b0 & b1)
            b0, b1, b2 = _rotated(a3 ^ d3, 28), _rotated(a9 ^ d4, 20), _rotated(a10 ^ d0, 3)
            b3, b4 = _rotated(a16 ^ d1, 45), _rotated(a22 ^ d2, 61)
            s[40 + j], s[48 + j], s[56 + j] = b0 ^ (~b1 & b2), b1 ^ (~b2 & b3), b2 ^ (~b3 & b4)
            s[64 + j], s[72 + j] = b3 ^ (~b4 & b0), b4 ^ (~b0 & b1)
            b0, b1, b2 = _rotated(a1 ^ d1, 1), _rotated(a7 ^ d2, 6), _rotated(a13 ^ d3, 25)
            b3, b4 = _rotated(a19 ^ d4, 8), _rotated(a20 ^ d0, 18)
            s[80 + j], s[88 + j], s[96 + j] = b0 ^ (~b1 & b2), b1 ^ (~b2 & b3), b2 ^ (~b3 & b4)
            s[104 + j], s[112 + j] = b3 ^ (~b4 & b0), b4 ^ (~b0 & b1)
            b0, b1, b2 = _rotated(a4 ^ d4, 27), _rotated(a5 ^ d0, 36), _rotated(a11 ^ d1, 10)
            b3, b4 = _rotated(a17 ^ d2, 15), _rotated(a23 ^ d3, 56)
            s[120 + j], s[128 + j], s[136 + j] = b0 ^ (~b1 & b2), b1 ^ (~b2 & b3), b2 ^ (~b3 & b4)
            s[144 + j], s[152 + j] = b3 ^ (~b4 & b0), b4 ^ (~b0 & b1)
            b0, b1, b2 = _rotated(a2 ^ d2, 62), _rotated(a8 ^ d3, 55), _rotated(a14 ^ d4, 39)
            b3, b4 = _rotated(a15 ^ d0, 41), _rotated(a21 ^ d1, 2)
            s[160 + j], s[168 + j], s[176 + j] = b0 ^ (~b1 & b2), b1 ^ (~b2 & b3), b2 ^ (~b3 & b4)
            s[184 + j], s[192 + j] = b3 ^ (~b4 & b0), b4 ^ (~b0 & b1)


@kernel()
def _expand_all(frame: Bytes, seeds: Bytes, constants: Words, mask: np.uint64, rows: Words) -> None:
    """Eight reports at a time; a last group that is not full expands its last report again."""
    n, at, state = len(seeds), len(_LABEL), np.empty(25 * _SIDE, np.uint64)
    block, stream = np.empty((_SIDE, _RATE), np.uint8), np.empty(_RATE, np.uint8)
    for j in range(_SIDE):
        block[j] = frame
    for first in range(0, n, _SIDE):
        state[:] = np.uint64(0)
        for j in range(_SIDE):
            block[j, at : at + SEED_BYTES] = seeds[min(first + j, n - 1)]
            for i in range(_RATE // 8):
                word = np.uint64(0)
                for byte in range(8):
                    word |= np.uint64(block[j, 8 * i + byte]) << np.uint64(8 * byte)
                state[i * _SIDE + j] = word
        _permute(state, constants)
        for j in range(min(_SIDE, n - first)):
            for i in range(_RATE // 8):
                for byte in range(8):
                    stream[8 * i + byte] = state[i * _SIDE + j] >> np.uint64(8 * byte) & np.uint64(255)
            for i in range(rows.shape[1]):
                word = np.uint64(0)
                for byte in range(ROW_BYTES):
                    word = word << np.uint64(8) | np.uint64(stream[ROW_BYTES * i + byte])
                rows[first + j, i] = word & mask
