"""The client side of TreeHist.

By its public seed, a client belongs to one level of a tree of prefixes (half of all clients to the leaves), to one row
of that level's count sketch, and to one column of a Hadamard matrix. It hashes its prefix to a bucket and a sign, and
sends sign · H[column, bucket] through the basic randomiser (Bassily, Nissim, Stemmer and Thakurta 2017).

Two deviations, both in its favour: clients are split between search and counting instead of halving ε, and levels are
``step`` bits apart instead of one (``start=1, step=1`` is the paper's binary tree).

Guarantee: ε-LDP for every public seed: one randomised bit.
"""

from dataclasses import dataclass
from functools import cached_property

from hushcall import checks
from hushcall.errors import WrongSymbol
from hushcall.mechanisms import randomisers
from hushcall.mechanisms.local_hashing.client import MultiplyShift
from hushcall.mechanisms.mechanism import OneResponse
from hushcall.mechanisms.randomisers import ChannelRandomiser
from hushcall.protocol.exact import epsilon_value
from hushcall.protocol.seeds import SEED_BYTES, derive
from hushcall.protocol.wire import Kind, unseal
from hushcall_lab.rivals.splitting import PrefixSplit, share

LEVEL_PIECE, ROW_PIECE, COLUMN_PIECE = 0, 1, 2
"""The pieces of the public seed that decide where a client belongs."""
MAX_ROWS = 256
MAX_COLUMNS = 1 << 16


@dataclass(frozen=True)
class TreeHistogram(PrefixSplit, OneResponse):
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
    size = 2
    kind = Kind.TREE_HISTOGRAM

    def __post_init__(self) -> None:
        epsilon_value("epsilon", self.epsilon)
        self.check_split()
        checks.whole("item_bits", self.item_bits, 1, 34)
        checks.whole("rows", self.rows, 1, MAX_ROWS)
        checks.power_of_two("columns", self.columns, MAX_COLUMNS)
        checks.whole("columns", self.columns, 2)
        checks.length("seed", self.seed, SEED_BYTES)

    @cached_property
    def randomiser(self) -> ChannelRandomiser:
        return randomisers.basic(self.epsilon)

    @cached_property
    def sketch(self) -> tuple[tuple[MultiplyShift, ...], ...]:
        """The hash function of each row of each level. Its top bit is the sign, the next ones are the bucket."""

        def function(level: int, row: int) -> MultiplyShift:
            return MultiplyShift.from_seed(derive("treehist", self.seed, bytes([level]), bytes([row])))

        return tuple(tuple(function(level, row) for row in range(self.rows)) for level in range(self.groups))

    def place(self, public: bytes) -> tuple[int, int, int]:
        # Levels above the leaves have one part each, and the leaves as many as all of them: half of the clients.
        inner = self.groups - 1
        level = min(share(public, LEVEL_PIECE, 2 * inner or 1), inner)
        return level, share(public, ROW_PIECE, self.rows), share(public, COLUMN_PIECE, self.columns)

    def entry(self, prefix: int, level: int, row: int, column: int) -> int:
        """The truth that a client there randomises: sign(prefix) · H[column, bucket(prefix)], +1 or −1."""
        hashed = self.sketch[level][row].bits(prefix, self.columns.bit_length())
        # The sign is the bit above the bucket, so that one more bit of the "column" folds it into the parity.
        return -1 if (hashed & (self.columns | column)).bit_count() & 1 else 1

    def respond(self, item: int, public: bytes, word: int) -> bytes:
        level, row, column = self.place(public)
        truth = self.entry(self.prefix(item, level), level, row, column)
        return bytes([self.randomiser.draw(truth, word) > 0])

    def parse(self, report: bytes) -> int:
        bit = unseal(self.kind, self.body_bytes, report)[0]
        if bit > 1:
            raise WrongSymbol("sign", "be 0 or 1", bit)
        return 2 * bit - 1
