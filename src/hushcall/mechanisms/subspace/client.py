"""The client side of the subspace mechanism (ours): b randomised bits of a linear hash.

The public seed selects A, a b × ℓ matrix over GF(2). The client sends y = A·x through randomised response over all 2^b
values. A report supports the affine subspace {x : A·x = y}, and a server can count the support of every number at once:
one report both finds and counts.

Guarantee: ε-LDP for every A, so a malicious server gains nothing by choosing seeds. Because A·(x ⊕ x') is uniform for
x ≠ x', any other number is supported with probability exactly 2^−b.

>>> Subspace(4.0, 8).rows(bytes(32))[:2]
(4945619, 14590369)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

from hushcall import checks
from hushcall.mechanisms.mechanism import OneResponse
from hushcall.protocol.exact import epsilon_value
from hushcall.protocol.seeds import SEED_BYTES
from hushcall.protocol.wire import Kind

MAX_BITS = 24
ROW_BYTES = 5
_LABEL = b"hushcall/1/rows"


@lru_cache(maxsize=4)  # they are public, and an audit asks thousands of times with one seed
def expand_rows(public: bytes, count: int, item_bits: int) -> tuple[int, ...]:
    """The rows of A: SHAKE-256(label ‖ public), five bytes a row, most significant first, cut to item_bits."""
    stream = hashlib.shake_256(_LABEL + public).digest(ROW_BYTES * count)
    mask = (1 << item_bits) - 1
    return tuple(int.from_bytes(stream[at : at + ROW_BYTES], "big") & mask for at in range(0, len(stream), ROW_BYTES))


def linear_hash(rows: tuple[int, ...], item: int) -> int:
    """A·x: bit i is the parity of rows[i] & x."""
    return sum(((row & item).bit_count() & 1) << place for place, row in enumerate(rows))


@dataclass(frozen=True)
class Subspace(OneResponse):
    """ε and b. Items are suffixes."""

    epsilon: float
    bits: int
    item_bits: int = 24
    name = "subspace"
    kind = Kind.SUBSPACE

    def __post_init__(self) -> None:
        epsilon_value("epsilon", self.epsilon)
        object.__setattr__(self, "epsilon", float(self.epsilon))  # equal parameters must print alike
        checks.whole("bits", self.bits, 1, MAX_BITS)
        checks.whole("item_bits", self.item_bits, 1, 8 * ROW_BYTES)

    @property
    def size(self) -> int:
        return 1 << self.bits

    def rows(self, public: bytes) -> tuple[int, ...]:
        checks.length("public", public, SEED_BYTES)
        return expand_rows(public, self.bits, self.item_bits)

    def hashed(self, item: int, public: bytes) -> int:
        return linear_hash(self.rows(public), item)


@dataclass(frozen=True)
class SubspaceHundreds(Subspace):
    """The same about the hundred that a number lies in. The item is the suffix without its last two digits."""

    item_bits: int = 17
    name = "subspace-hundreds"
    kind = Kind.SUBSPACE_HUNDREDS


@dataclass(frozen=True)
class WholeNumber(Subspace):
    """Nothing is in the clear: the item is (index of the area code) · 2²⁴ + suffix, under one ε."""

    item_bits: int = 33
    name = "whole-number"
    kind = Kind.WHOLE_NUMBER
