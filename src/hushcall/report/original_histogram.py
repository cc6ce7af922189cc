"""The phone's half of the original succinct histogram (SH-Client): the paper's baseline, by Bassily and Smith.

No buckets: the item is a whole ten-digit number in 34 bits (or a suffix in 24). Every report goes to all T·K
channels through the basic randomiser, plus one report to the protocol's own frequency oracle, each at ε/(2T+1).

The oracle (Bassily and Smith 2015, Algorithm 1 with a random projection): a public matrix of ``rows`` × items with
entries ±1; the phone draws a row and sends its item's sign there through the basic randomiser. The paper's text uses
the *codeword* in place of the projection; codewords of a code with distance 4 are far from orthogonal, so that estimate
is biased by every similar number (``docs/paper-notes.md``, and a test). The algorithm in the paper also sends this
report inside the loop over t: at ε/(2T+1) the budget has room for one, so one is sent.

Guarantee: (2T+1)·ε/(2T+1) = ε under the paper's accounting; exactly, (T+1)·ε/(2T+1).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from hushcall import checks
from hushcall.errors import WrongSymbol
from hushcall.privacy.accounting import Accounting, round_cost
from hushcall.privacy.coins import WORD_BYTES, ByteSource, read
from hushcall.privacy.exact import epsilon_value
from hushcall.protocol.seeds import SEED_BYTES, derive
from hushcall.protocol.wire import Kind, seal, unseal
from hushcall.report import randomisers
from hushcall.report.codes import RM_3_5, RM_4_6, ExtendedHamming
from hushcall.report.hashing import MultiplyShift
from hushcall.report.mechanism import Draw, check_item
from hushcall.report.randomisers import ChannelRandomiser
from hushcall.report.succinct_histogram import (
    MOST_CHANNELS,
    MOST_ROUNDS,
    channel_draws,
    channel_hashes,
    channel_symbols,
    parse_channels,
)

ROW_BYTES = 2


@lru_cache(maxsize=1 << 16)
def row_hash(seed: bytes, row: int) -> MultiplyShift:
    """Row ``row`` of the public projection."""
    return MultiplyShift.from_seed(derive("row", seed, row.to_bytes(4, "big")))


def row_sign(seed: bytes, row: int, item: int) -> int:
    """The entry of the projection, +1 or −1: pairwise independent over items."""
    return 1 if row_hash(seed, row).bits(item, 1) else -1


@dataclass(frozen=True)
class OriginalHistogram:
    """The public parameters of a round of the original protocol."""

    epsilon: float
    rounds: int = 2
    channels: int = 8
    seed: bytes = bytes(SEED_BYTES)
    item_bits: int = 34
    rows: int = 1 << 16
    name = "sh-original"
    kind = Kind.ORIGINAL_HISTOGRAM

    def __post_init__(self) -> None:
        epsilon_value("epsilon", self.epsilon)
        object.__setattr__(self, "epsilon", float(self.epsilon))  # equal parameters must print alike
        checks.whole("T", self.rounds, 1, MOST_ROUNDS)
        checks.power_of_two("K", self.channels, MOST_CHANNELS)
        checks.length("seed", self.seed, SEED_BYTES)
        checks.whole("item_bits", self.item_bits, 1, 34)
        checks.power_of_two("rows", self.rows, 1 << 8 * ROW_BYTES)

    @property
    def part_epsilon(self) -> Fraction:
        """ε/(2T+1): of each channel, and of the frequency report."""
        return Fraction(self.epsilon) / (2 * self.rounds + 1)

    @property
    def cost(self) -> Fraction:
        """T rounds and one frequency report, exactly."""
        return self.rounds * round_cost("basic", self.part_epsilon, Accounting.EXACT) + self.part_epsilon

    @property
    def code(self) -> ExtendedHamming:
        """RM(3,5) where a suffix fits, RM(4,6) for a whole number."""
        return RM_3_5 if self.item_bits <= RM_3_5.message_bits else RM_4_6

    @cached_property
    def randomiser(self) -> ChannelRandomiser:
        """The basic one, at its part of the budget."""
        return randomisers.basic(self.part_epsilon)

    @cached_property
    def hashes(self) -> tuple[MultiplyShift, ...]:
        """The channel hash of each round."""
        return channel_hashes(self.seed, self.rounds)

    @property
    def total_channels(self) -> int:
        """T·K, all of which are in every report."""
        return self.rounds * self.channels

    @property
    def coin_bytes(self) -> int:
        """A position byte and a word per channel; a row and a word for the oracle."""
        return self.total_channels * (1 + WORD_BYTES) + ROW_BYTES + WORD_BYTES

    @property
    def body_bytes(self) -> int:
        """A byte per channel; two bytes of row and one of sign."""
        return self.total_channels + ROW_BYTES + 1

    def draws(self) -> tuple[Draw, ...]:
        """One per channel, and one for the oracle."""
        at = self.coin_bytes - ROW_BYTES - WORD_BYTES
        oracle = Draw(
            at + ROW_BYTES,
            slice(self.total_channels, self.body_bytes),
            at,
            ROW_BYTES,
            self.rows.bit_length() - 1,
        )
        return (*channel_draws(self.total_channels, self.code), oracle)

    def privatise(self, item: int, public: bytes, coins: ByteSource) -> bytes:
        """A report of ``item``. The original protocol has no per-report seed: ``public`` is only checked."""
        check_item(item, self.item_bits)
        checks.length("public", public, SEED_BYTES)
        block = read(coins, self.coin_bytes)
        symbols = channel_symbols(
            item, self.hashes, self.channels, self.randomiser, self.code, block[: self.total_channels * 9]
        )
        row = int.from_bytes(block[-ROW_BYTES - WORD_BYTES : -WORD_BYTES], "big") & (self.rows - 1)
        word = int.from_bytes(block[-WORD_BYTES:], "big")
        sign = self.randomiser.draw(row_sign(self.seed, row, item), word)
        return seal(self.kind, symbols + row.to_bytes(ROW_BYTES, "big") + bytes([sign > 0]))

    def parse(self, report: bytes) -> tuple[tuple[tuple[int, int], ...], tuple[int, int]]:
        """((position, symbol) per channel, (row, sign) for the oracle), strictly."""
        body = unseal(self.kind, self.body_bytes, report)
        channels = parse_channels(body[: self.total_channels], self.randomiser, self.code)
        row, sign = int.from_bytes(body[-ROW_BYTES - 1 : -1], "big"), body[-1]
        if row >= self.rows or sign > 1:
            raise WrongSymbol("oracle", f"hold a row below {self.rows} and a sign 0 or 1", f"row {row}, sign {sign}")
        return channels, (row, 2 * sign - 1)
