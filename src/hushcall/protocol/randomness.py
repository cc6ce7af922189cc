"""Exact sampling from random bytes that the caller supplies.

A *byte source* is a function from a count to that many bytes: :func:`os_entropy` makes a client's key, :func:`keyed`
its draws from then on, :func:`seeded` those of a simulation. Every randomiser reads one block of a fixed size, whatever
its input, cuts it into 64-bit words and compares each word with integer thresholds. No floating point takes part, so
the true ε is a rational function of those integers.

>>> rand = seeded(b"example")
>>> [uniform(word, 6) + 1 for word in words(rand(40))]
[3, 5, 1, 2, 4]
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from hushcall.errors import InvalidParameter

ByteSource: TypeAlias = Callable[[int], bytes]

WORD_BITS = 64
WORD_BYTES = 8
ONE = 1 << WORD_BITS
"""A probability is a whole number of 2⁻⁶⁴ths. This many make 1."""


def os_entropy(count: int) -> bytes:
    return os.urandom(count)


@dataclass(slots=True)
class seeded:  # noqa: N801  (used like a function)
    """A reproducible byte source for simulations and vectors: read number i is SHAKE-256(i ‖ seed).

    i is written in 8 bytes, most significant first. A read of any size counts as one.
    """

    seed: bytes
    reads: int = field(default=0, init=False)

    def __call__(self, count: int) -> bytes:
        block = hashlib.shake_256(struct.pack(">Q", self.reads) + self.seed).digest(count)
        self.reads += 1
        return block


def keyed(key: bytes, *parts: bytes) -> ByteSource:
    """The random bytes of one occasion: the same key and parts give the same bytes, on every copy of a client.

    The seed is HMAC-SHA-256 of the parts, each behind its length (4 bytes, most significant first). The stream is that
    of :class:`seeded`. Without the key it looks like fresh entropy as long as HMAC-SHA-256 and SHAKE-256 are
    pseudo-random functions, so laws that are exact for uniform bytes hold against everybody who cannot break those.
    """
    message = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return seeded(hmac.digest(key, message, "sha256"))


def read(rand: ByteSource, count: int) -> bytes:
    """Takes ``count`` bytes. A source that runs dry is an error, never a shorter draw."""
    block = rand(count)
    if len(block) != count:
        raise InvalidParameter("rand", f"return exactly {count} bytes", f"{len(block)} bytes")
    return block


def words(block: bytes) -> tuple[int, ...]:
    """The 64-bit words of a block, most significant byte first."""
    return struct.unpack(f">{len(block) // WORD_BYTES}Q", block)


def uniform(word: int, size: int) -> int:
    """One of 0 … size−1 from a word: exact for powers of two, off by at most size·2⁻⁶⁴ otherwise.

    For public choices only (a dummy, a position among 2ᵏ). Where privacy depends on the odds, a randomiser has its own
    integer weights.
    """
    return word * size >> WORD_BITS
