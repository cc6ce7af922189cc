"""The phone's half of the subspace mechanism (ours): a number comes in, b randomised bits of a linear hash leave.

The public seed selects A, a b × ℓ matrix over GF(2). The phone computes y = A·x, and sends y through randomised
response over all 2^b values. That is local hashing with a *linear* hash: a report supports the affine subspace {x : A·x
= y}, and a server can count the support of every number that exists at once (``learn.subspace``), so one report both
finds and counts.

Guarantee: ε-LDP for every A, by itself: p/q of the response is at most e^ε whatever the hash, so a malicious server
gains nothing by choosing seeds. Because A·(x ⊕ x') is uniform for x ≠ x', any other number is supported with
probability exactly 2^−b.

>>> Subspace(4.0, 8).rows(bytes(32))[:2]
(4945619, 14590369)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

from hushcall import checks
from hushcall.privacy.coins import WORD_BYTES, ByteSource, read
from hushcall.privacy.exact import epsilon_value
from hushcall.protocol.seeds import SEED_BYTES
from hushcall.protocol.wire import Kind, pack_value, seal, unpack_value, unseal
from hushcall.report.mechanism import check_item
from hushcall.report.one_response import OneResponse

MOST_BITS = 24
ROW_BYTES = 5
_LABEL = b"hushcall/1/rows"


@lru_cache(maxsize=4)
def expand_rows(public: bytes, count: int, item_bits: int) -> tuple[int, ...]:
    """The rows of A: SHAKE-256(label ‖ public), five bytes a row, most significant first, cut to item_bits.

    A shorter matrix is a prefix of a longer one with the same seed. The last few are kept: they are public, and whoever
    audits a phone asks it thousands of times with one seed.
    """
    stream = hashlib.shake_256(_LABEL + public).digest(ROW_BYTES * count)
    mask = (1 << item_bits) - 1
    return tuple(int.from_bytes(stream[at : at + ROW_BYTES], "big") & mask for at in range(0, len(stream), ROW_BYTES))


def linear_hash(rows: tuple[int, ...], item: int) -> int:
    """A·x: bit i is the parity of rows[i] & x."""
    return sum(((row & item).bit_count() & 1) << place for place, row in enumerate(rows))


@dataclass(frozen=True)
class Subspace(OneResponse):
    """ε and b. Items are suffixes (24 bits); :class:`WholeNumber` protects the area code too."""

    epsilon: float
    bits: int
    item_bits: int = 24
    name = "subspace"
    kind = Kind.SUBSPACE

    def __post_init__(self) -> None:
        epsilon_value("epsilon", self.epsilon)
        object.__setattr__(self, "epsilon", float(self.epsilon))  # equal parameters must print alike
        checks.whole("bits", self.bits, 1, MOST_BITS)
        checks.whole("item_bits", self.item_bits, 1, 8 * ROW_BYTES)

    @property
    def size(self) -> int:
        """How many values the hash can have: g = 2^b."""
        return 1 << self.bits

    def rows(self, public: bytes) -> tuple[int, ...]:
        """The matrix A of the report with that public seed, a row as one integer."""
        checks.length("public", public, SEED_BYTES)
        return expand_rows(public, self.bits, self.item_bits)

    def hashed(self, item: int, public: bytes) -> int:
        """A·x: the value that goes through the randomised response."""
        return linear_hash(self.rows(public), item)

    def privatise(self, item: int, public: bytes, coins: ByteSource) -> bytes:
        """A·x for the public seed's matrix, kept with odds e^ε : 1 against each other value."""
        check_item(item, self.item_bits)
        word = int.from_bytes(read(coins, WORD_BYTES), "big")
        return seal(self.kind, pack_value(self.response.draw(self.hashed(item, public), word), self.size))

    def parse(self, report: bytes) -> int:
        """The value that a report holds, strictly."""
        return unpack_value("hash value", unseal(self.kind, self.body_bytes, report), self.size)


@dataclass(frozen=True)
class WholeNumber(Subspace):
    """Nothing in the clear: the item is (index of the area code) · 2²⁴ + suffix, 33 bits, under one ε."""

    item_bits: int = 33
    name = "whole-number"
    kind = Kind.WHOLE_NUMBER
