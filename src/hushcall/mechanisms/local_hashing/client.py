"""The client side of optimal local hashing (OLH): a few bits of a randomised hash.

Guarantee: ε-LDP for every public seed. The client hashes its item to g = round(e^ε) + 1 values with a hash that the
report's public seed selects, and sends the hash through randomised response (Wang et al. 2017, section 4.4).

The hash is multiply-shift, h(x) = ((a·x + b) mod 2⁶⁴) >> (64 − k) with a, b uniform: *exactly* pairwise independent
from w-bit integers to k bits if w + k − 1 ≤ 64 (Dietzfelbinger 1996, Theorem 3). 34-bit items leave 31 bits.

>>> h = MultiplyShift(a=0x9E3779B97F4A7C15, b=1)
>>> h.bits(5550143, 7), h.below(5550143, 21)
(2, 0)
"""

from __future__ import annotations

from dataclasses import dataclass

from hushcall import checks
from hushcall.mechanisms.mechanism import OneResponse
from hushcall.protocol.exact import epsilon_value, exp_below
from hushcall.protocol.seeds import SEED_BYTES
from hushcall.protocol.wire import Kind

HASH_BITS = 31
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class MultiplyShift:
    a: int
    b: int

    @classmethod
    def from_seed(cls, seed: bytes) -> MultiplyShift:
        return cls(int.from_bytes(seed[:8], "big"), int.from_bytes(seed[8:16], "big"))

    def bits(self, item: int, count: int) -> int:
        return ((self.a * item + self.b) & _MASK) >> (64 - count)

    def below(self, item: int, size: int) -> int:
        """Hash to 0 … size−1: 31 bits scaled down, exact for powers of two, off by at most 2⁻³¹ otherwise."""
        return self.bits(item, HASH_BITS) * size >> HASH_BITS


@dataclass(frozen=True)
class LocalHashing(OneResponse):
    """OLH with budget ``epsilon``. ``size`` is g, by default the one with the least variance.

    >>> LocalHashing(3.0).size
    21
    """

    epsilon: float
    size: int = 0
    item_bits: int = 24
    name = "olh"
    kind = Kind.LOCAL_HASHING

    def __post_init__(self) -> None:
        exact = epsilon_value("epsilon", self.epsilon)
        object.__setattr__(self, "epsilon", float(self.epsilon))  # equal parameters must print alike
        checks.whole("item_bits", self.item_bits, 1, 34)
        if self.size == 0:
            # round(e^ε) + 1. ε above 20 would give a g that no longer compresses.
            object.__setattr__(self, "size", min(round(exp_below(exact)) + 1, 1 << 24))
        checks.whole("size", self.size, 2, 1 << 24)

    def hashed(self, item: int, public: bytes) -> int:
        checks.length("public", public, SEED_BYTES)
        return MultiplyShift.from_seed(public).below(item, self.size)
