"""Randomisers that are broken on purpose: an audit that does not catch every one of them is worth nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from hushcall.audit.enumeration import Finding, examine
from hushcall.mechanisms.examples import EPSILON_OLH, histogram
from hushcall.privacy.accounting import Accounting
from hushcall.privacy.coins import ONE, WORD_BYTES, ByteSource, read
from hushcall.protocol.wire import HEADER_BYTES, pack_channel, pack_value, seal
from hushcall.report.hashing import MultiplyShift
from hushcall.report.local_hashing import LocalHashing
from hushcall.report.mechanism import Draw, Mechanism
from hushcall.report.prefix_extending import PrefixExtending
from hushcall.report.randomisers import ChannelRandomiser, RandomisedResponse, basic
from hushcall.report.rappor import Rappor
from hushcall.report.subspace import Subspace, linear_hash
from hushcall.report.succinct_histogram import SuccinctHistogram
from hushcall.report.tree_histogram import TreeHistogram

BUDGET = 8.8


def _honest(budget: float = BUDGET) -> SuccinctHistogram:
    return histogram("extended", budget, Accounting.PAPER)


@dataclass(frozen=True)
class _Claiming(SuccinctHistogram):
    """The same phone code, claiming the cost of another budget."""

    claim: float = BUDGET

    @property
    def cost(self) -> Fraction:
        """A lie."""
        return Fraction(self.claim) + self.oracle.cost


def five_per_cent_more() -> Mechanism:
    """Spends 5 % more on finding numbers than it says."""
    return _as(_Claiming, _honest(BUDGET * 1.05))


def budget_not_halved() -> Mechanism:
    """Forgets that a changed number touches two channels: ε_HH/T for each instead of ε_HH/2T."""
    return _as(_Claiming, _honest(2 * BUDGET))


class _BiasedRandomiser(ChannelRandomiser):
    __slots__ = ()

    def draw(self, sign: int, word: int) -> int:
        """On an empty channel, plus comes up three times as often as minus."""
        if sign:
            return super().draw(sign, word)
        return 1 if word < self.noise * 3 // 2 else -1 if word < 2 * self.noise else 0


class _ZerolessRandomiser(ChannelRandomiser):
    __slots__ = ()

    def draw(self, sign: int, word: int) -> int:
        """A channel that holds something never sends a zero."""
        return super().draw(sign, word) or (-sign if sign else 0)


class _SilentRandomiser(ChannelRandomiser):
    __slots__ = ()

    def draw(self, sign: int, word: int) -> int:
        """An empty channel never makes noise."""
        return super().draw(sign, word) if sign else 0


class _CoarseRandomiser(ChannelRandomiser):
    __slots__ = ()

    def draw(self, sign: int, word: int) -> int:
        """Compares only 16 bits, so that thresholds round the wrong way."""
        return super().draw(sign, word >> 48 << 48)


def _with_randomiser(broken: type[ChannelRandomiser]) -> Mechanism:
    honest = _honest()
    odds = honest.randomiser
    return replace(honest, randomiser=broken(odds.kind, odds.keep, odds.flip, odds.noise))


def biased_coin() -> Mechanism:
    """Noise that leans to one side."""
    return _with_randomiser(_BiasedRandomiser)


def no_zero_when_held() -> Mechanism:
    """A zero proves that the channel is empty."""
    return _with_randomiser(_ZerolessRandomiser)


def silent_when_empty() -> Mechanism:
    """Any other symbol proves that it is not."""
    return _with_randomiser(_SilentRandomiser)


def coarse_thresholds() -> Mechanism:
    """A 16-bit generator behind 64-bit thresholds: off by a few parts in 10⁵."""
    return _with_randomiser(_CoarseRandomiser)


@dataclass(frozen=True)
class _Leaking(SuccinctHistogram):
    def privatise(self, item: int, public: bytes, coins: ByteSource) -> bytes:
        """On the channel that holds the number, the position is always even."""
        block = bytearray(read(coins, self.coin_bytes))
        for t, function in enumerate(self.hashes):
            block[t * self.channels + function.bits(item, self.channels.bit_length() - 1)] &= 0xFE
        return super().privatise(item, public, lambda _: bytes(block))


@dataclass(frozen=True)
class _SharedWord(SuccinctHistogram):
    def privatise(self, item: int, public: bytes, coins: ByteSource) -> bytes:
        """Draws one word and uses it for every channel."""
        block = read(coins, self.coin_bytes)
        total = self.total_channels
        word = block[total : total + WORD_BYTES]
        return super().privatise(item, public, lambda _: block[:total] + word * total + block[-WORD_BYTES:])


@dataclass(frozen=True)
class _TruthInRoundTwo(SuccinctHistogram):
    def privatise(self, item: int, public: bytes, coins: ByteSource) -> bytes:
        """The last round is sent as it is, without noise."""
        report = bytearray(super().privatise(item, public, coins))
        last = (self.rounds - 1) * self.channels
        mine = last + self.hashes[-1].bits(item, self.channels.bit_length() - 1)
        for place in range(last, self.total_channels):
            position = report[2 + place] & 63
            sign = -1 if self.code.encode(item) >> position & 1 else 1
            report[2 + place] = pack_channel(position, sign if place == mine else 0)
        return bytes(report)


@dataclass(frozen=True)
class _ThriftyCoins(SuccinctHistogram):
    def privatise(self, item: int, public: bytes, coins: ByteSource) -> bytes:
        """Takes an extra coin for odd items: whoever sees the entropy pool drain learns a bit."""
        coins(item & 1)
        return super().privatise(item, public, coins)


@dataclass(frozen=True)
class _TellingLength(SuccinctHistogram):
    def privatise(self, item: int, public: bytes, coins: ByteSource) -> bytes:
        """Pads the reports of odd items."""
        return super().privatise(item, public, coins) + bytes(item & 1)


def _as(broken: type[SuccinctHistogram], honest: SuccinctHistogram | None = None) -> Mechanism:
    honest = honest or _honest()
    return broken(honest.rounds, honest.channels, honest.randomiser, honest.round_epsilon, honest.oracle, honest.seed)


def leaking_position() -> Mechanism:
    """Where the symbol stands tells which channel holds the number."""
    return _as(_Leaking)


def shared_word() -> Mechanism:
    """Channels that are not independent."""
    return _as(_SharedWord)


def truth_in_round_two() -> Mechanism:
    """One round left in the clear."""
    return _as(_TruthInRoundTwo)


def thrifty_coins() -> Mechanism:
    """Randomness consumed depends on the number."""
    return _as(_ThriftyCoins)


def telling_length() -> Mechanism:
    """Length depends on the number."""
    return _as(_TellingLength)


@dataclass(frozen=True)
class _NarrowHash(LocalHashing):
    def respond(self, item: int, public: bytes, word: int) -> bytes:
        """Hashes to g values but randomises over half as many."""
        narrow = RandomisedResponse.of(self.epsilon, self.size // 2)
        hashed = MultiplyShift.from_seed(public).below(item, self.size)
        return pack_value(narrow.draw(hashed, word), self.size)


@dataclass(frozen=True)
class _GenerousResponse(LocalHashing):
    def respond(self, item: int, public: bytes, word: int) -> bytes:
        """Keeps the truth one per cent more often than it may."""
        return super().respond(item, public, max(word - ONE // 100, 0))


@dataclass(frozen=True)
class _EagerSubspace(Subspace):
    def privatise(self, item: int, public: bytes, coins: ByteSource) -> bytes:
        """Uses the odds of half as many values."""
        hashed = linear_hash(self.rows(public), item)
        eager = RandomisedResponse.of(self.epsilon, self.size // 2)
        word = int.from_bytes(read(coins, WORD_BYTES), "big")
        index = (word - eager.keep) * (self.size - 1) // (ONE - eager.keep)
        value = hashed if word < eager.keep else (hashed + 1 + index) % self.size
        return seal(self.kind, pack_value(value, self.size))


def odds_of_a_narrower_hash() -> Mechanism:
    """Randomised response over 2^b values with the odds of 2^(b−1)."""
    return _EagerSubspace(EPSILON_OLH, 4)


def hash_of_the_wrong_width() -> Mechanism:
    """Some values can only be the truth."""
    return _NarrowHash(EPSILON_OLH)


def generous_response() -> Mechanism:
    """A threshold moved by one per cent."""
    return _GenerousResponse(EPSILON_OLH)


@dataclass(frozen=True)
class _TellingGroup(PrefixExtending):
    @property
    def body_bytes(self) -> int:
        """A byte more, for the group."""
        return super().body_bytes + 1

    def draws(self) -> tuple[Draw, ...]:
        """The whole report is one draw."""
        return (Draw(word_at=0, out=slice(0, self.body_bytes)),)

    def privatise(self, item: int, public: bytes, coins: ByteSource) -> bytes:
        """Chooses the group by the item instead of the public seed, so it has to say which."""
        group = item % self.groups
        word = int.from_bytes(read(coins, self.coin_bytes), "big")
        return seal(self.kind, self.oracle.respond(self.prefix(item, group), public, word) + bytes([group]))


@dataclass(frozen=True)
class _BitInTheClear(Rappor):
    def privatise(self, item: int, public: bytes, coins: ByteSource) -> bytes:
        """Sends the filter's first bit as it is."""
        report = bytearray(super().privatise(item, public, coins))
        report[HEADER_BYTES] = report[HEADER_BYTES] & 0xFE | self.filter(item, self.cohort(public))[0] & 1
        return bytes(report)


@dataclass(frozen=True)
class _GenerousBit(TreeHistogram):
    @cached_property
    def randomiser(self) -> ChannelRandomiser:
        """The odds of 5 % more ε."""
        return basic(self.epsilon * 1.05)


def telling_group() -> Mechanism:
    """PEM, but which group a phone is in depends on its number."""
    return _TellingGroup(EPSILON_OLH)


def bit_in_the_clear() -> Mechanism:
    """RAPPOR with one bit that nobody flips."""
    return _BitInTheClear(EPSILON_OLH, bits=8)


def generous_bit() -> Mechanism:
    """TreeHist that spends 5 % more than it says."""
    return _GenerousBit(EPSILON_OLH)


@dataclass(frozen=True)
class _TellingEnvelope(Subspace):
    def privatise(self, item: int, public: bytes, coins: ByteSource) -> bytes:
        """Hides a bit of the number in the version byte."""
        return bytes([1 + (item & 1)]) + super().privatise(item, public, coins)[1:]


@dataclass(frozen=True)
class _SecretCoin(Subspace):
    @property
    def coin_bytes(self) -> int:
        """One more than it owns up to."""
        return WORD_BYTES + 1

    def privatise(self, item: int, public: bytes, coins: ByteSource) -> bytes:
        """Once in 256 times, the truth."""
        block = read(coins, self.coin_bytes)
        word = bytes(WORD_BYTES) if block[-1] == 0 else block[:WORD_BYTES]
        return super().privatise(item, public, lambda _: word)


@dataclass(frozen=True)
class _UpperBits(SuccinctHistogram):
    def privatise(self, item: int, public: bytes, coins: ByteSource) -> bytes:
        """A position coin of 224 or more switches the noise off."""
        block = bytearray(read(coins, self.coin_bytes))
        for place in range(self.total_channels):
            if block[place] >= 224:
                at = self.total_channels + place * WORD_BYTES
                block[at : at + WORD_BYTES] = bytes(WORD_BYTES)
        return super().privatise(item, public, lambda _: bytes(block))


@dataclass(frozen=True)
class _TrustingSeed(Subspace):
    def privatise(self, item: int, public: bytes, coins: ByteSource) -> bytes:
        """Does what a server with an odd seed tells it: the truth."""
        block = read(coins, WORD_BYTES)
        return super().privatise(item, public, lambda _: bytes(WORD_BYTES) if public[-1] == 255 else block)


def telling_envelope() -> Mechanism:
    """A leak outside the body."""
    return _TellingEnvelope(EPSILON_OLH, 4)


def secret_coin() -> Mechanism:
    """A coin that no draw accounts for."""
    return _SecretCoin(EPSILON_OLH, 4)


def upper_bits() -> Mechanism:
    """A position coin that decides more than a position."""
    return _as(_UpperBits)


def trusting_seed() -> Mechanism:
    """A server that picks the public seed gets the number."""
    return _TrustingSeed(EPSILON_OLH, 4)


MUTANTS: tuple[Callable[[], Mechanism], ...] = (
    five_per_cent_more,
    budget_not_halved,
    biased_coin,
    no_zero_when_held,
    silent_when_empty,
    coarse_thresholds,
    leaking_position,
    shared_word,
    truth_in_round_two,
    thrifty_coins,
    telling_length,
    hash_of_the_wrong_width,
    odds_of_a_narrower_hash,
    telling_envelope,
    secret_coin,
    upper_bits,
    trusting_seed,
    generous_response,
    telling_group,
    bit_in_the_clear,
    generous_bit,
)


def mutant_findings() -> Iterator[Finding]:
    """Each mutant under the same audit as the honest ones; all must come out ``ok=False``."""
    for make in MUTANTS:
        mutant = make()
        yield examine(mutant, epsilon=float(mutant.cost), name=make.__name__.replace("_", " "))
