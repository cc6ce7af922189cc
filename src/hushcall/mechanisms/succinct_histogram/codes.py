"""The error-correcting code of the succinct histogram: RM(r−2, r), the extended Hamming code.

RM(3,5) = [32, 26, 4] carries a 7-digit suffix (24 bits, two spare), RM(4,6) = [64, 57, 4] a whole number (34). A word
is a codeword exactly when its number of ones is even and the XOR of their positions is 0. One flipped bit makes the
parity odd, and the XOR *is* its position. Two flipped bits are detected, not corrected.

The encoding is systematic: message bit i is at the i-th position that is neither 0 nor a power of two. Bit j of an
integer is position j.

>>> word = RM_3_5.encode(5550143)
>>> RM_3_5.decode(word), RM_3_5.decode(word ^ 1 << 17), RM_3_5.decode(word ^ 0b11)
(5550143, 5550143, None)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hushcall import checks


@dataclass(frozen=True)
class ExtendedHamming:
    """The code of length 2^order; ``order`` is 3 to 6."""

    order: int

    def __post_init__(self) -> None:
        checks.whole("order", self.order, 3, 6)

    @property
    def length(self) -> int:
        return 1 << self.order

    @property
    def message_bits(self) -> int:
        return self.length - self.order - 1

    @cached_property
    def message_positions(self) -> tuple[int, ...]:
        return tuple(place for place in range(self.length) if place & (place - 1))

    @cached_property
    def _bases(self) -> tuple[int, ...]:
        """The codeword of each message bit alone; the code is linear, so these make all others."""
        words = []
        for place in self.message_positions:
            checks_set = sum(1 << (1 << bit) for bit in range(self.order) if place >> bit & 1)
            word = 1 << place | checks_set
            words.append(word | word.bit_count() & 1)
        return tuple(words)

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """Column i of the generator matrix: bit i of the codeword of x is the parity of ``columns[i] & x``."""
        return tuple(
            sum((base >> place & 1) << bit for bit, base in enumerate(self._bases)) for place in range(self.length)
        )

    def encode(self, message: int) -> int:
        checks.whole("message", message, 0, (1 << self.message_bits) - 1)
        word = 0
        for bit, base in enumerate(self._bases):
            if message >> bit & 1:
                word ^= base
        return word

    def decode(self, word: int) -> int | None:
        """The message of the nearest codeword if at most one bit is wrong; ``None`` if two are."""
        checks.whole("word", word, 0, (1 << self.length) - 1)
        syndrome, parity, rest = 0, 0, word
        while rest:
            low = rest & -rest
            syndrome ^= low.bit_length() - 1
            parity ^= 1
            rest ^= low
        if parity:
            word ^= 1 << syndrome
        elif syndrome:
            return None
        return sum((word >> place & 1) << bit for bit, place in enumerate(self.message_positions))


RM_3_5 = ExtendedHamming(5)
RM_4_6 = ExtendedHamming(6)
