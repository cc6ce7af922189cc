"""Pairwise independent hashing that a phone and a server compute alike: multiply, add, take the top bits.

h(x) = ((a·x + b) mod 2⁶⁴) >> (64 − k) with a, b uniform is *exactly* pairwise independent from w-bit integers to k
bits when w + k − 1 ≤ 64 (Dietzfelbinger 1996, Theorem 3): h(x) is uniform, and so is the pair (h(x), h(y)), x ≠ y.
With 34-bit items this leaves 31 bits, enough for every use here. It is one line in any language.

>>> h = MultiplyShift(a=0x9E3779B97F4A7C15, b=1)
>>> h.bits(5550143, 7), h.below(5550143, 21)
(2, 0)
"""

from __future__ import annotations

from dataclasses import dataclass

HASH_BITS = 31
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class MultiplyShift:
    """One member of the family."""

    a: int
    b: int

    @classmethod
    def from_seed(cls, seed: bytes) -> MultiplyShift:
        """The member whose a and b are the first two 64-bit words of a uniformly random seed."""
        return cls(int.from_bytes(seed[:8], "big"), int.from_bytes(seed[8:16], "big"))

    def bits(self, item: int, count: int) -> int:
        """Hash to ``count`` bits, at most 31."""
        return ((self.a * item + self.b) & _MASK) >> (64 - count)

    def below(self, item: int, size: int) -> int:
        """Hash to 0 … size−1: 31 bits scaled down, exact for powers of two, off by at most 2⁻³¹ otherwise."""
        return self.bits(item, HASH_BITS) * size >> HASH_BITS
