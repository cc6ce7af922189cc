"""The phone runs this for protocols that split the phones: a public seed comes in, which question it answers leaves.

PEM splits phones among prefix lengths, TreeHist among levels, rows and columns, RAPPOR among cohorts. A
phone's part follows from its report's public seed alone: it is no secret, takes no coins, and needs no place
in the report.
"""

from __future__ import annotations

from functools import cached_property

from hushcall import checks
from hushcall.protocol.seeds import SEED_BYTES

PIECE_BYTES = 4
PIECES = SEED_BYTES // PIECE_BYTES


def share(public: bytes, place: int, size: int) -> int:
    """One of ``size`` equal parts, from 32 bits of the seed: piece ``place`` of 8, scaled down.

    Exact for powers of two; otherwise a part is larger than another by at most 2⁻³² of all phones. Pieces 0
    to 3 also select the report's own hash function, where it has one: then use the later ones.

    >>> share(bytes(16) + bytes([200]) + bytes(15), 4, 3)
    2
    """
    checks.length("public", public, SEED_BYTES)
    at = PIECE_BYTES * place
    return int.from_bytes(public[at : at + PIECE_BYTES], "big") * size >> 8 * PIECE_BYTES


def prefix_lengths(item_bits: int, start: int, step: int) -> tuple[int, ...]:
    """Lengths that a prefix grows through: from ``start`` to all bits, by at most ``step``, as evenly as it goes.

    >>> prefix_lengths(24, 16, 8), prefix_lengths(34, 16, 8), prefix_lengths(12, 16, 8)
    ((16, 24), (16, 22, 28, 34), (12,))
    """
    first = min(start, item_bits)
    steps = -(-(item_bits - first) // step)
    return (first, *(first + (item_bits - first) * (i + 1) // steps for i in range(steps)))


class PrefixSplit:
    """A mechanism whose phones are split by how many leading bits of their item they report."""

    start: int
    step: int
    item_bits: int

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """ℓᵢ: how many leading bits each group reports; the last reports all."""
        return prefix_lengths(self.item_bits, self.start, self.step)

    @property
    def groups(self) -> int:
        """Among how many groups the reports are split."""
        return len(self.lengths)

    def prefix(self, item: int, group: int) -> int:
        """What a group reports of ``item``."""
        return item >> self.item_bits - self.lengths[group]
