"""The client side of protocols that split the clients: PEM by prefix length, TreeHist by level.

A client's part follows from its report's public seed alone. It is no secret, and takes no bytes of the report.
"""

from functools import cached_property

from hushcall import checks
from hushcall.protocol.seeds import SEED_BYTES

PIECE_BYTES = 4
PIECES = SEED_BYTES // PIECE_BYTES
MAX_START = 20
MAX_STEP = 12


def share(public: bytes, place: int, size: int) -> int:
    """One of ``size`` equal parts, from piece ``place`` of the seed. Pieces 0 to 3 also select a hash function.

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

    def check_split(self) -> None:
        checks.whole("start", self.start, 1, MAX_START)
        checks.whole("step", self.step, 1, MAX_STEP)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """ℓᵢ: the number of leading bits that each group reports. The last group reports all."""
        return prefix_lengths(self.item_bits, self.start, self.step)

    @property
    def groups(self) -> int:
        return len(self.lengths)

    def prefix(self, item: int, group: int) -> int:
        return item >> self.item_bits - self.lengths[group]
