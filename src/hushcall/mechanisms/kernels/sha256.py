"""SHA-256 of many short messages with one prefix (FIPS 180-4, section 6.2).

Sixteen messages go side by side, so that one vector instruction serves sixteen: ten times the speed of a loop over
``hashlib`` on the same core.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hushcall.errors import InvalidParameter
from hushcall.mechanisms.kernels.compiled import kernel

DIGEST_BYTES = 32
_SIDE = 16  # messages side by side: one vector of 32-bit words
_BLOCK = 64
Bytes: TypeAlias = NDArray[np.uint8]
Words: TypeAlias = NDArray[np.uint32]


def sha256_all(prefix: bytes, endings: Bytes) -> Bytes:
    """(n, 32): SHA-256(prefix ‖ ending) of each row of ``endings``."""
    if endings.dtype != np.uint8 or endings.ndim != 2:
        raise InvalidParameter("endings", "be uint8 of shape (n, length)", (endings.dtype, endings.shape))
    digests = np.empty((len(endings), DIGEST_BYTES), np.uint8)
    frame = _frame(prefix, endings.shape[1])
    _hash_all(frame, len(prefix), read_only(endings), _STARTS, _CONSTANTS, digests)
    return digests


def read_only(array: Bytes) -> Bytes:
    """The same bytes in one piece, not to be written: numba compiles a kernel anew for arrays that may be."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _frame(prefix: bytes, ending: int) -> Bytes:
    """The padded blocks of one message, with zeros where its ending goes."""
    length = len(prefix) + ending
    zeros = bytes(-(length + 9) % _BLOCK)
    padded = prefix + bytes(ending) + b"\x80" + zeros + (8 * length).to_bytes(8, "big")
    return np.frombuffer(padded, np.uint8)


def _fraction(root: int, prime: int) -> int:
    """The first 32 bits after the point of a prime's square or cube root. A float has 16 bits more than that takes."""
    return int(prime ** (1 / root) % 1 * 2**32)


_PRIMES = [n for n in range(2, 312) if all(n % d for d in range(2, math.isqrt(n) + 1))]
_STARTS: Words = np.array([_fraction(2, prime) for prime in _PRIMES[:8]], np.uint32)
_CONSTANTS: Words = np.array([_fraction(3, prime) for prime in _PRIMES], np.uint32)


@kernel(inline="always")
def _rotated(word: np.uint32, by: int) -> np.uint32:
    return (word >> np.uint32(by)) | (word << np.uint32(32 - by))


@kernel(inline="always")
def _big_endian(data: Bytes, at: int) -> np.uint32:
    high = np.uint32(data[at]) << np.uint32(24) | np.uint32(data[at + 1]) << np.uint32(16)
    return high | np.uint32(data[at + 2]) << np.uint32(8) | np.uint32(data[at + 3])


@kernel(inline="always")
def _step(s: Words, a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int, w: Words, i: int, k: Words) -> None:
    """One round for all reports side by side; the caller renames the eight words instead of moving them."""
    constant, at = k[i], np.uint64(i * _SIDE)
    for j in range(np.uint64(_SIDE)):
        x, y = s[np.uint64(e) + j], s[np.uint64(a) + j]
        chosen = (x & s[np.uint64(f) + j]) ^ (~x & s[np.uint64(g) + j])
        mixed = _rotated(x, 6) ^ _rotated(x, 11) ^ _rotated(x, 25)
        first = np.uint32(s[np.uint64(h) + j] + mixed + chosen + constant + w[at + j])
        most = (y & s[np.uint64(b) + j]) ^ (y & s[np.uint64(c) + j]) ^ (s[np.uint64(b) + j] & s[np.uint64(c) + j])
        turned = _rotated(y, 2) ^ _rotated(y, 13) ^ _rotated(y, 22)
        s[np.uint64(d) + j] = np.uint32(s[np.uint64(d) + j] + first)
        s[np.uint64(h) + j] = np.uint32(first + turned + most)


@kernel()
def _compress(state: Words, s: Words, w: Words, k: Words) -> None:
    """One block of every report: 48 words of schedule, 64 rounds, eight additions."""
    for i in range(16, 64):
        at = np.uint64(i * _SIDE)
        for j in range(np.uint64(_SIDE)):
            x, y = w[at + j - np.uint64(15 * _SIDE)], w[at + j - np.uint64(2 * _SIDE)]
            low = _rotated(x, 7) ^ _rotated(x, 18) ^ (x >> np.uint32(3))
            high = _rotated(y, 17) ^ _rotated(y, 19) ^ (y >> np.uint32(10))
            w[at + j] = np.uint32(w[at + j - np.uint64(16 * _SIDE)] + low + w[at + j - np.uint64(7 * _SIDE)] + high)
    s[:] = state
    for i in range(0, 64, 8):
        _step(s, 0, 16, 32, 48, 64, 80, 96, 112, w, i, k)
        _step(s, 112, 0, 16, 32, 48, 64, 80, 96, w, i + 1, k)
        _step(s, 96, 112, 0, 16, 32, 48, 64, 80, w, i + 2, k)
        _step(s, 80, 96, 112, 0, 16, 32, 48, 64, w, i + 3, k)
        _step(s, 64, 80, 96, 112, 0, 16, 32, 48, w, i + 4, k)
        _step(s, 48, 64, 80, 96, 112, 0, 16, 32, w, i + 5, k)
        _step(s, 32, 48, 64, 80, 96, 112, 0, 16, w, i + 6, k)
        _step(s, 16, 32, 48, 64, 80, 96, 112, 0, w, i + 7, k)
    for i in range(8 * _SIDE):
        state[i] = np.uint32(state[i] + s[i])


@kernel()
def _hash_all(frame: Bytes, at: int, endings: Bytes, starts: Words, constants: Words, digests: Bytes) -> None:
    n, length = endings.shape
    state, s, w = np.empty(8 * _SIDE, np.uint32), np.empty(8 * _SIDE, np.uint32), np.empty(64 * _SIDE, np.uint32)
    messages = np.empty((_SIDE, len(frame)), np.uint8)
    for j in range(_SIDE):
        messages[j] = frame
    for first in range(0, n, _SIDE):
        for j in range(_SIDE):
            for i in range(length):
                messages[j, at + i] = endings[min(first + j, n - 1), i]
        for i in range(8 * _SIDE):
            state[i] = starts[i // _SIDE]
        for block in range(0, len(frame), _BLOCK):
            for i in range(16):
                for j in range(_SIDE):
                    w[i * _SIDE + j] = _big_endian(messages[j], block + 4 * i)
            _compress(state, s, w, constants)
        for j in range(min(_SIDE, n - first)):
            for i in range(DIGEST_BYTES):
                digests[first + j, i] = state[i // 4 * _SIDE + j] >> np.uint32(24 - 8 * (i % 4)) & np.uint32(255)
