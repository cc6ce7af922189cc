"""The client side of a mechanism: public parameters that cannot be built invalid, and one verb, ``privatise``.

Odds are whole numbers out of 2⁶⁴. They are rounded so that the true ε is at or below the one asked for, never above.
The audit finds them again by probing the running code, and compares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Protocol

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.protocol.exact import ceil_divide, epsilon_value, exp_below
from hushcall.protocol.randomness import ONE, WORD_BYTES, ByteSource, read
from hushcall.protocol.wire import HEADER_BYTES, Kind, pack_value, seal, unpack_value, unseal, value_bytes


@dataclass(frozen=True, slots=True)
class Draw:
    """One independent part of a report: which random bytes decide which bytes of the body. For the audit.

    ``index`` bits of the ``index_bytes`` random bytes from ``index_at`` choose among equally likely positions (0 bits:
    none do). The 64-bit word at ``word_at`` chooses the symbol. The result is bytes ``out`` of the body.
    """

    word_at: int
    out: slice
    index_at: int = 0
    index_bytes: int = 0
    index_bits: int = 0


class Mechanism(Protocol):
    """A frozen value: the public parameters of a round, and the client side of it."""

    @property
    def name(self) -> str:
        """As in the registry."""

    @property
    def kind(self) -> Kind:
        """The second byte of its reports."""

    @property
    def item_bits(self) -> int:
        """Items are 0 … 2^item_bits − 1."""

    @property
    def cost(self) -> Fraction:
        """ε of one report, exactly accounted. The client's ledger records it."""

    @property
    def rand_size(self) -> int:
        """Random bytes that one report takes, whatever the item."""

    @property
    def body_bytes(self) -> int:
        """Length of a report's body, whatever the item."""

    def draws(self) -> tuple[Draw, ...]: ...

    def privatise(self, item: int, public: bytes, rand: ByteSource) -> bytes:
        """A report of ``item``. ``public`` is the 32-byte public seed of the report."""

    def parse(self, report: bytes) -> object:
        """The content of a report. Anything but a report of these parameters is an error."""


def report_bytes(mechanism: Mechanism) -> int:
    return HEADER_BYTES + mechanism.body_bytes


def check_item(item: int, bits: int) -> None:
    """Refuses an item that does not fit, without repeating it: it would silently be another one."""
    if type(item) is not int or item < 0 or item >> bits:
        raise InvalidParameter("item", f"be a whole number of at most {bits} bits", type(item).__name__)


@dataclass(frozen=True, slots=True)
class RandomisedResponse:
    """One of ``size`` values: the truth with e^ε times the odds of any other (Warner 1965, generalised).

    ``other`` is the weight of each other value, ⌈2⁶⁴/(e^ε + g − 1)⌉. The rest of 2⁶⁴ is the weight of the truth. One
    word decides, and the other values are exactly equally likely.

    >>> RandomisedResponse.of(3.0, 21).draw(7, 0)
    7
    """

    size: int
    other: int

    def __post_init__(self) -> None:
        checks.whole("size", self.size, 2, 1 << 31)
        checks.whole("other", self.other, 1, ONE // self.size)

    @classmethod
    def of(cls, epsilon: float | Fraction, size: int) -> RandomisedResponse:
        checks.whole("size", size, 2, 1 << 31)
        return cls(size, ceil_divide(ONE, exp_below(epsilon_value("epsilon", epsilon)) + size - 1))

    @property
    def keep(self) -> int:
        return ONE - (self.size - 1) * self.other

    def draw(self, value: int, word: int) -> int:
        if word < self.keep:
            return value
        index = (word - self.keep) // self.other
        return index + (index >= value)


class OneResponse:
    """A mechanism whose report is one randomised response over ``size`` values: local hashing, subspace.

    Its ε is that of the response, whatever the hash was. The guarantee does not depend on the public seed.
    """

    name: str
    kind: Kind
    epsilon: float
    item_bits: int
    bits: int
    """b, the bits of a value."""

    @property
    def size(self) -> int:
        raise NotImplementedError

    def hashed(self, item: int, public: bytes) -> int:
        raise NotImplementedError

    @property
    def cost(self) -> Fraction:
        return Fraction(self.epsilon)

    @property
    def rand_size(self) -> int:
        return WORD_BYTES

    @property
    def body_bytes(self) -> int:
        return value_bytes(self.size)

    @cached_property
    def response(self) -> RandomisedResponse:
        return RandomisedResponse.of(self.epsilon, self.size)

    def draws(self) -> tuple[Draw, ...]:
        return (Draw(word_at=0, out=slice(0, self.body_bytes)),)

    def respond(self, item: int, public: bytes, word: int) -> bytes:
        return pack_value(self.response.draw(self.hashed(item, public), word), self.size)

    def privatise(self, item: int, public: bytes, rand: ByteSource) -> bytes:
        check_item(item, self.item_bits)
        word = int.from_bytes(read(rand, WORD_BYTES), "big")
        return seal(self.kind, self.respond(item, public, word))

    def parse(self, report: bytes) -> int:
        return unpack_value("hash value", unseal(self.kind, self.body_bytes, report), self.size)


def least_bits(epsilon: Fraction | float) -> int:
    """The fewest bits that a report of this ε may have: ε itself up to 4, three quarters of it above, rounded down.

    Owners agree to no less: at ε = 4 the truth is then sent with at most 79 %, where b = 1 would send it with 98 %.

    >>> [least_bits(epsilon) for epsilon in (0.5, 2, 4, 6, 8, 16)]
    [1, 2, 4, 4, 6, 12]
    """
    exact = Fraction(epsilon)
    return max(1, math.floor(min(exact, max(Fraction(4), Fraction(3, 4) * exact))))
