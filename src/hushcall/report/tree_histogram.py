"""The phone's half of TreeHist, a rival: a number comes in, one randomised bit leaves.

Numbers are leaves of a tree of prefixes. A phone belongs to one level (half of all phones to the last, which
counts the leaves), to one row of that level's count sketch, and to one column of a Hadamard matrix, all by
its public seed. It hashes its prefix to a bucket and a sign, and sends sign · H[column, bucket] through
Bassily and Smith's basic randomiser (Bassily, Nissim, Stemmer and Thakurta 2017, "Practical locally private
heavy hitters").

Two liberties, both in its favour: phones are split between search and counting instead of halving ε, and
levels are ``step`` bits apart instead of one (``start=1, step=1`` is the paper's binary tree).

Guarantee: ε-LDP for every public seed: one randomised bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from hushcall import checks
from hushcall.errors import WrongSymbol
from hushcall.privacy.coins import WORD_BYTES, ByteSource, read
from hushcall.privacy.exact import epsilon_value
from hushcall.protocol.seeds import SEED_BYTES, derive
from hushcall.protocol.wire import Kind, seal, unseal
from hushcall.report import randomisers
from hushcall.report.hashing import MultiplyShift
from hushcall.report.mechanism import Draw, check_item
from hushcall.report.randomisers import ChannelRandomiser
from hushcall.report.splitting import PrefixSplit, share

LEVEL_PIECE, ROW_PIECE, COLUMN_PIECE = 0, 1, 2
"""Which pieces of the public seed decide where a phone belongs."""
MOST_ROWS = 256
MOST_COLUMNS = 1 << 16
MOST_START = 20
MOST_STEP = 12


@dataclass(frozen=True)
class TreeHistogram(PrefixSplit):
    """TreeHist with budget ``epsilon``. The sketch of each level has ``rows`` × ``columns`` cells.

    >>> TreeHistogram(4.0).lengths, TreeHistogram(4.0).groups
    ((18, 24), 2)
    """

    epsilon: float
    start: int = 18
    step: int = 6
    item_bits: int = 24
    rows: int = 128
    columns: int = 1 << 10
    seed: bytes = bytes(SEED_BYTES)
    name = "treehist"
    kind = Kind.TREE_HISTOGRAM
    needs = "is told nothing beforehand, and finds what rises above its noise at every level"

    def __post_init__(self) -> None:
        epsilon_value("epsilon", self.epsilon)
        checks.whole("start", self.start, 1, MOST_START)
        checks.whole("step", self.step, 1, MOST_STEP)
        checks.whole("item_bits", self.item_bits, 1, 34)
        checks.whole("rows", self.rows, 1, MOST_ROWS)
        checks.power_of_two("columns", self.columns, MOST_COLUMNS)
        checks.whole("columns", self.columns, 2)
        checks.length("seed", self.seed, SEED_BYTES)

    @property
    def cost(self) -> Fraction:
        """ε, exactly: one bit."""
        return Fraction(self.epsilon)

    @property
    def coin_bytes(self) -> int:
        """One word of eight bytes, whatever the item."""
        return WORD_BYTES

    @property
    def body_bytes(self) -> int:
        """One bit, in a byte."""
        return 1

    @cached_property
    def randomiser(self) -> ChannelRandomiser:
        """The basic one, never zero."""
        return randomisers.basic(self.epsilon)

    @cached_property
    def sketch(self) -> tuple[tuple[MultiplyShift, ...], ...]:
        """The hash function of each row of each level: its top bit is the sign, the next ones are the bucket."""

        def function(level: int, row: int) -> MultiplyShift:
            return MultiplyShift.from_seed(derive("treehist", self.seed, bytes([level]), bytes([row])))

        return tuple(tuple(function(level, row) for row in range(self.rows)) for level in range(self.groups))

    def place(self, public: bytes) -> tuple[int, int, int]:
        """(level, row, column) of a report with that public seed."""
        # Levels above the leaves have one part each, the leaves as many as all of them together: half of the phones.
        inner = self.groups - 1
        level = min(share(public, LEVEL_PIECE, 2 * inner or 1), inner)
        return level, share(public, ROW_PIECE, self.rows), share(public, COLUMN_PIECE, self.columns)

    def entry(self, prefix: int, level: int, row: int, column: int) -> int:
        """The truth that a phone there randomises: sign(prefix) · H[column, bucket(prefix)], +1 or −1."""
        hashed = self.sketch[level][row].bits(prefix, self.columns.bit_length())
        # The sign is the bit above the bucket, so that one more bit of the "column" folds it into the parity.
        return -1 if (hashed & (self.columns | column)).bit_count() & 1 else 1

    def draws(self) -> tuple[Draw, ...]:
        """The whole report is one draw."""
        return (Draw(word_at=0, out=slice(0, 1)),)

    def privatise(self, item: int, public: bytes, coins: ByteSource) -> bytes:
        """One sign: the item's prefix against the public row, kept with odds e^ε : 1."""
        check_item(item, self.item_bits)
        level, row, column = self.place(public)
        truth = self.entry(item >> self.item_bits - self.lengths[level], level, row, column)
        word = int.from_bytes(read(coins, WORD_BYTES), "big")
        return seal(self.kind, bytes([self.randomiser.draw(truth, word) > 0]))

    def parse(self, report: bytes) -> int:
        """The sign that a report holds, strictly."""
        bit = unseal(self.kind, self.body_bytes, report)[0]
        if bit > 1:
            raise WrongSymbol("sign", "be 0 or 1", bit)
        return 2 * bit - 1
