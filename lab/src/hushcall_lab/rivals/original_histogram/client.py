"""The client side of the original succinct histogram (SH-Client), the paper's baseline, by Bassily and Smith.

There are no buckets: the item is a whole ten-digit number in 34 bits (or a suffix in 24). Every report goes to all T·K
channels through the basic randomiser, plus one report to the protocol's own frequency oracle, each at ε/(2T+1). The
oracle (Bassily and Smith 2015, Algorithm 1) has a public matrix of ``rows`` × items with entries ±1. The client draws a
row and sends its item's sign there. ``docs/paper-notes.md`` has the two deviations from the paper.

Guarantee: ε under the paper's accounting. The exact cost is (T+1)·ε/(2T+1).
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from hushcall import checks
from hushcall.errors import WrongSymbol
from hushcall.mechanisms import randomisers
from hushcall.mechanisms.local_hashing.client import MultiplyShift
from hushcall.mechanisms.mechanism import Draw, check_item
from hushcall.mechanisms.randomisers import Accounting, ChannelRandomiser, round_cost
from hushcall.mechanisms.succinct_histogram import client as histogram
from hushcall.mechanisms.succinct_histogram.codes import RM_3_5, RM_4_6, ExtendedHamming
from hushcall.protocol.exact import epsilon_value
from hushcall.protocol.items import ItemCodec
from hushcall.protocol.numbers.plan import Number, NumberingPlan
from hushcall.protocol.randomness import WORD_BYTES, ByteSource, read
from hushcall.protocol.seeds import SEED_BYTES, derive
from hushcall.protocol.wire import Kind, seal, unseal

ROW_BYTES = 2


class _Digits(ItemCodec):
    """The national number as it is written: the item of the original protocol."""

    def weights(self, plan: NumberingPlan) -> tuple[int, int, int]:
        return 0, plan.suffixes, 1

    def number(self, item: int, bucket: int, plan: NumberingPlan) -> Number | None:
        return plan.existing(*divmod(item, plan.suffixes))


DIGITS: ItemCodec = _Digits()


@lru_cache(maxsize=1 << 16)
def row_hash(seed: bytes, row: int) -> MultiplyShift:
    return MultiplyShift.from_seed(derive("row", seed, row.to_bytes(4, "big")))


def row_sign(seed: bytes, row: int, item: int) -> int:
    """The projection's entry, +1 or −1, pairwise independent over items."""
    return 1 if row_hash(seed, row).bits(item, 1) else -1


@dataclass(frozen=True)
class OriginalHistogram:
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
        checks.whole("T", self.rounds, 1, histogram.MAX_ROUNDS)
        checks.power_of_two("K", self.channels, histogram.MAX_CHANNELS)
        checks.length("seed", self.seed, SEED_BYTES)
        checks.whole("item_bits", self.item_bits, 1, 34)
        checks.power_of_two("rows", self.rows, 1 << 8 * ROW_BYTES)

    @property
    def part_epsilon(self) -> Fraction:
        return Fraction(self.epsilon) / (2 * self.rounds + 1)

    @property
    def cost(self) -> Fraction:
        return self.rounds * round_cost("basic", self.part_epsilon, Accounting.EXACT) + self.part_epsilon

    @property
    def code(self) -> ExtendedHamming:
        return RM_3_5 if self.item_bits <= RM_3_5.message_bits else RM_4_6

    @cached_property
    def randomiser(self) -> ChannelRandomiser:
        return randomisers.basic(self.part_epsilon)

    @cached_property
    def hashes(self) -> tuple[MultiplyShift, ...]:
        return histogram.channel_hashes(self.seed, self.rounds)

    @property
    def total_channels(self) -> int:
        return self.rounds * self.channels

    @property
    def rand_size(self) -> int:
        return self.total_channels * (1 + WORD_BYTES) + ROW_BYTES + WORD_BYTES

    @property
    def body_bytes(self) -> int:
        return self.total_channels + ROW_BYTES + 1

    def draws(self) -> tuple[Draw, ...]:
        at = self.rand_size - ROW_BYTES - WORD_BYTES
        oracle = Draw(
            at + ROW_BYTES, slice(self.total_channels, self.body_bytes), at, ROW_BYTES, self.rows.bit_length() - 1
        )
        return (*histogram.channel_draws(self.total_channels, self.code), oracle)

    def privatise(self, item: int, public: bytes, rand: ByteSource) -> bytes:
        """A report of ``item``. The protocol has no per-report seed, so ``public`` is only checked."""
        check_item(item, self.item_bits)
        checks.length("public", public, SEED_BYTES)
        block = read(rand, self.rand_size)
        symbols = histogram.channel_symbols(
            item, self.hashes, self.channels, self.randomiser, self.code, block[: self.total_channels * 9]
        )
        row = int.from_bytes(block[-ROW_BYTES - WORD_BYTES : -WORD_BYTES], "big") & (self.rows - 1)
        word = int.from_bytes(block[-WORD_BYTES:], "big")
        sign = self.randomiser.draw(row_sign(self.seed, row, item), word)
        return seal(self.kind, symbols + row.to_bytes(ROW_BYTES, "big") + bytes([sign > 0]))

    def parse(self, report: bytes) -> tuple[tuple[tuple[int, int], ...], tuple[int, int]]:
        body = unseal(self.kind, self.body_bytes, report)
        channels = histogram.parse_channels(body[: self.total_channels], self.randomiser, self.code)
        row, sign = int.from_bytes(body[-ROW_BYTES - 1 : -1], "big"), body[-1]
        if row >= self.rows or sign > 1:
            raise WrongSymbol("oracle", f"hold a row below {self.rows} and a sign 0 or 1", f"row {row}, sign {sign}")
        return channels, (row, 2 * sign - 1)
