"""The client side of the paper's protocol (modified SH-Client): T·K noisy symbols of a suffix.

In each of T rounds the suffix belongs to one of K channels, H_t(suffix). On that channel the client sends one
randomised bit of the suffix's codeword, at a random position. On every other channel it sends the randomised version of
nothing. A channel where many clients agree spells out their number. One OLH report for the frequency goes along.

Guarantee: a changed suffix changes at most two channels of a round, so a report costs T · cost(round) + ε_OLH
(Ucci et al., Theorem 1; ``mechanisms.randomisers`` has both costs of a round).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.mechanisms import randomisers
from hushcall.mechanisms.local_hashing.client import LocalHashing, MultiplyShift
from hushcall.mechanisms.mechanism import Draw, check_item
from hushcall.mechanisms.randomisers import (
    Accounting,
    ChannelRandomiser,
    channel_epsilon,
    exact_round_ratio,
    round_cost,
)
from hushcall.mechanisms.succinct_histogram.codes import RM_3_5, ExtendedHamming
from hushcall.protocol.exact import epsilon_value, exp_below
from hushcall.protocol.randomness import ONE, WORD_BYTES, ByteSource, read, words
from hushcall.protocol.seeds import SEED_BYTES, derive
from hushcall.protocol.wire import Kind, pack_channel, seal, unpack_channel, unpack_value, unseal

MAX_CHANNELS = 1 << 16
MAX_ROUNDS = 64


def channel_hashes(seed: bytes, rounds: int) -> tuple[MultiplyShift, ...]:
    """H₁ … H_T: one pairwise independent function per round, from the seed that a bucket's round publishes."""
    return tuple(MultiplyShift.from_seed(derive("channel", seed, bytes([t]))) for t in range(rounds))


def channel_symbols(
    item: int,
    hashes: tuple[MultiplyShift, ...],
    channels: int,
    randomiser: ChannelRandomiser,
    code: ExtendedHamming,
    block: bytes,
) -> bytes:
    """T·K bytes, one per channel. ``block`` holds T·K position bytes, then T·K words: the same for every item."""
    total = len(hashes) * channels
    positions, draws, mask = block[:total], words(block[total:]), code.length - 1
    codeword, bits = code.encode(item), channels.bit_length() - 1
    mine = {t * channels + h.bits(item, bits) for t, h in enumerate(hashes)}
    out = bytearray(total)
    for place in range(total):
        position = positions[place] & mask
        sign = (-1 if codeword >> position & 1 else 1) if place in mine else 0
        out[place] = pack_channel(position, randomiser.draw(sign, draws[place]))
    return bytes(out)


@dataclass(frozen=True)
class SuccinctHistogram:
    """The public parameters of one bucket's round. :meth:`with_budget` makes them from ε_HH and ε_OLH."""

    rounds: int
    channels: int
    randomiser: ChannelRandomiser
    round_epsilon: Fraction
    oracle: LocalHashing
    seed: bytes
    item_bits: int = 24
    kind = Kind.SUCCINCT_HISTOGRAM
    code = RM_3_5

    def __post_init__(self) -> None:
        checks.whole("T", self.rounds, 1, MAX_ROUNDS)
        checks.power_of_two("K", self.channels, MAX_CHANNELS)
        checks.length("seed", self.seed, SEED_BYTES)
        checks.whole("item_bits", self.item_bits, 1, self.code.message_bits)
        odds = self.randomiser
        ratio = exact_round_ratio(odds.keep, odds.flip, odds.noise, ONE)
        if ratio is None or ratio > exp_below(self.round_epsilon):
            raise InvalidParameter("round_epsilon", "cover the randomiser's exact cost", float(self.round_epsilon))

    @classmethod
    def with_budget(
        cls,
        kind: str,
        epsilon_hh: float | Fraction,
        epsilon_olh: float,
        *,
        rounds: int = 2,
        channels: int = 8,
        seed: bytes = bytes(SEED_BYTES),
        accounting: Accounting = Accounting.PAPER,
        keep: int | None = None,
        item_bits: int = 24,
    ) -> SuccinctHistogram:
        """The parameters that spend ε_HH on finding numbers and ε_OLH on counting them.

        ``kind`` is basic, extended or tuned. A channel gets ε_HH/2T under the paper's accounting. Under the exact one
        the basic randomiser gets twice that. ``keep`` is for tuned: the server's weight out of 2⁶⁴
        (``theory.best_keep``).
        """
        checks.whole("T", rounds, 1, MAX_ROUNDS)
        budget = epsilon_value("epsilon_hh", epsilon_hh)
        epsilon_value("epsilon_olh", epsilon_olh)
        if kind == "tuned":
            if keep is None:
                raise InvalidParameter("keep", "be given for the tuned randomiser", keep)
            randomiser = randomisers.tuned(budget / rounds, keep)
            spent = budget / rounds
        elif kind in ("basic", "extended"):
            epsilon = channel_epsilon(kind, budget, rounds, accounting)
            randomiser = getattr(randomisers, kind)(epsilon)
            spent = round_cost(kind, epsilon, Accounting.EXACT)
        else:
            raise InvalidParameter("randomiser", "be basic, extended or tuned", kind)
        return cls(rounds, channels, randomiser, spent, LocalHashing(epsilon_olh, item_bits=item_bits), seed, item_bits)

    @property
    def name(self) -> str:
        return f"sh-{self.randomiser.kind}"

    @property
    def cost(self) -> Fraction:
        return self.rounds * self.round_epsilon + self.oracle.cost

    @property
    def total_channels(self) -> int:
        """T·K, all of which are in every report."""
        return self.rounds * self.channels

    @property
    def rand_size(self) -> int:
        return self.total_channels * (1 + WORD_BYTES) + self.oracle.rand_size

    @property
    def body_bytes(self) -> int:
        return self.total_channels + self.oracle.body_bytes

    @cached_property
    def hashes(self) -> tuple[MultiplyShift, ...]:
        return channel_hashes(self.seed, self.rounds)

    def draws(self) -> tuple[Draw, ...]:
        oracle = Draw(self.rand_size - WORD_BYTES, slice(self.total_channels, self.body_bytes))
        return (*channel_draws(self.total_channels, self.code), oracle)

    def privatise(self, item: int, public: bytes, rand: ByteSource) -> bytes:
        check_item(item, self.item_bits)
        block = read(rand, self.rand_size)
        symbols = channel_symbols(item, self.hashes, self.channels, self.randomiser, self.code, block[:-WORD_BYTES])
        word = int.from_bytes(block[-WORD_BYTES:], "big")
        return seal(self.kind, symbols + self.oracle.respond(item, public, word))

    def parse(self, report: bytes) -> tuple[tuple[tuple[int, int], ...], int]:
        """((position, symbol) per channel, OLH's value), strictly."""
        body = unseal(self.kind, self.body_bytes, report)
        return (
            parse_channels(body[: self.total_channels], self.randomiser, self.code),
            unpack_value("hash value", body[self.total_channels :], self.oracle.size),
        )


def channel_draws(total: int, code: ExtendedHamming) -> tuple[Draw, ...]:
    """Where the random bytes of each channel lie in the block of :func:`channel_symbols`."""
    return tuple(
        Draw(total + place * WORD_BYTES, slice(place, place + 1), place, 1, code.order) for place in range(total)
    )


def parse_channels(body: bytes, randomiser: ChannelRandomiser, code: ExtendedHamming) -> tuple[tuple[int, int], ...]:
    zero = randomiser.kind != "basic"
    return tuple(unpack_channel(place, byte, code.length, zero_allowed=zero) for place, byte in enumerate(body))
