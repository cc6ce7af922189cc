"""Randomisers that are broken on purpose. The audit must catch every one of them."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

from hushcall.mechanisms.local_hashing.client import LocalHashing, MultiplyShift
from hushcall.mechanisms.mechanism import Draw, Mechanism, RandomisedResponse
from hushcall.mechanisms.randomisers import Accounting, ChannelRandomiser, basic
from hushcall.mechanisms.subspace.client import Subspace, SubspaceHundreds, linear_hash
from hushcall.mechanisms.succinct_histogram.client import SuccinctHistogram
from hushcall.protocol.randomness import ONE, WORD_BYTES, ByteSource, read
from hushcall.protocol.wire import pack_channel, pack_value, seal
from hushcall_lab.audit.enumeration import Finding, examine
from hushcall_lab.audit.examples import EPSILON_OLH, histogram
from hushcall_lab.rivals.prefix_extending.client import PrefixExtending
from hushcall_lab.rivals.tree_histogram.client import TreeHistogram

BUDGET = 8.8
T = TypeVar("T")


def _honest(budget: float = BUDGET) -> SuccinctHistogram:
    return histogram("extended", budget, Accounting.PAPER)


def _changed(honest: T, method: str, function: Callable[..., Any]) -> T:
    """A mechanism or randomiser with another method. The function gets the honest one before the arguments."""
    members = {method: lambda _, *values: function(honest, *values)}
    broken = type("Broken", (type(honest),), members)
    return broken(**{each.name: getattr(honest, each.name) for each in fields(honest) if each.init})  # type: ignore


def _drawing(draw: Callable[[ChannelRandomiser, int, int], int]) -> Mechanism:
    honest = _honest()
    return replace(honest, randomiser=_changed(honest.randomiser, "draw", draw))


def _biased(honest: ChannelRandomiser, sign: int, word: int) -> int:
    """On an empty channel, plus comes up three times as often as minus."""
    if sign:
        return honest.draw(sign, word)
    return 1 if word < honest.noise * 3 // 2 else -1 if word < 2 * honest.noise else 0


def _leaking(honest: SuccinctHistogram, item: int, public: bytes, rand: ByteSource) -> bytes:
    """On the channel that holds the number, the position is always even."""
    block = bytearray(read(rand, honest.rand_size))
    for t, function in enumerate(honest.hashes):
        block[t * honest.channels + function.bits(item, honest.channels.bit_length() - 1)] &= 0xFE
    return honest.privatise(item, public, lambda _: bytes(block))


def _shared_word(honest: SuccinctHistogram, item: int, public: bytes, rand: ByteSource) -> bytes:
    """Draws one word and uses it for every channel."""
    block, total = read(rand, honest.rand_size), honest.total_channels
    word = block[total : total + WORD_BYTES]
    return honest.privatise(item, public, lambda _: block[:total] + word * total + block[-WORD_BYTES:])


def _truth_in_round_two(honest: SuccinctHistogram, item: int, public: bytes, rand: ByteSource) -> bytes:
    """The last round is sent as it is, without noise."""
    report = bytearray(honest.privatise(item, public, rand))
    last = (honest.rounds - 1) * honest.channels
    mine = last + honest.hashes[-1].bits(item, honest.channels.bit_length() - 1)
    for place in range(last, honest.total_channels):
        position = report[2 + place] & 63
        sign = -1 if honest.code.encode(item) >> position & 1 else 1
        report[2 + place] = pack_channel(position, sign if place == mine else 0)
    return bytes(report)


def _thrifty_rand(honest: SuccinctHistogram, item: int, public: bytes, rand: ByteSource) -> bytes:
    """Consumes an extra random byte for odd items."""
    rand(item & 1)
    return honest.privatise(item, public, rand)


def _upper_bits(honest: SuccinctHistogram, item: int, public: bytes, rand: ByteSource) -> bytes:
    """A position byte of 224 or more switches the noise off."""
    block = bytearray(read(rand, honest.rand_size))
    for place in range(honest.total_channels):
        if block[place] >= 224:
            at = honest.total_channels + place * WORD_BYTES
            block[at : at + WORD_BYTES] = bytes(WORD_BYTES)
    return honest.privatise(item, public, lambda _: bytes(block))


def _narrow_hash(honest: LocalHashing, item: int, public: bytes, word: int) -> bytes:
    """Hashes to g values but randomises over half as many."""
    narrow = RandomisedResponse.of(honest.epsilon, honest.size // 2)
    hashed = MultiplyShift.from_seed(public).below(item, honest.size)
    return pack_value(narrow.draw(hashed, word), honest.size)


def _generous_response(honest: LocalHashing, item: int, public: bytes, word: int) -> bytes:
    """Keeps the truth one per cent more often than it may."""
    return honest.respond(item, public, max(word - ONE // 100, 0))


def _eager(honest: Subspace, item: int, public: bytes, rand: ByteSource) -> bytes:
    """Uses the odds of half as many values."""
    hashed = linear_hash(honest.rows(public), item)
    eager = RandomisedResponse.of(honest.epsilon, honest.size // 2)
    word = int.from_bytes(read(rand, WORD_BYTES), "big")
    index = (word - eager.keep) * (honest.size - 1) // (ONE - eager.keep)
    value = hashed if word < eager.keep else (hashed + 1 + index) % honest.size
    return seal(honest.kind, pack_value(value, honest.size))


def _telling_envelope(honest: Subspace, item: int, public: bytes, rand: ByteSource) -> bytes:
    """Hides a bit of the number in the version byte."""
    return bytes([1 + (item & 1)]) + honest.privatise(item, public, rand)[1:]


def _trusting_seed(honest: Subspace, item: int, public: bytes, rand: ByteSource) -> bytes:
    """Sends the truth if the last byte of the public seed is 255."""
    block = read(rand, WORD_BYTES)
    return honest.privatise(item, public, lambda _: bytes(WORD_BYTES) if public[-1] == 255 else block)


class _Claiming(SuccinctHistogram):
    """Claims the cost of :data:`BUDGET`, whatever its own is."""

    @property
    def cost(self) -> Fraction:
        return Fraction(BUDGET) + self.oracle.cost


class _TellingGroup(PrefixExtending):
    """Chooses the group by the item instead of the public seed, and sends it in one more byte."""

    @property
    def body_bytes(self) -> int:
        return super().body_bytes + 1

    def draws(self) -> tuple[Draw, ...]:
        return (Draw(word_at=0, out=slice(0, self.body_bytes)),)

    def privatise(self, item: int, public: bytes, rand: ByteSource) -> bytes:
        group = item % self.groups
        word = int.from_bytes(read(rand, self.rand_size), "big")
        return seal(self.kind, self.oracle.respond(self.prefix(item, group), public, word) + bytes([group]))


class _GenerousBit(TreeHistogram):
    """Uses the odds of 5 % more ε."""

    @cached_property
    def randomiser(self) -> ChannelRandomiser:
        return basic(self.epsilon * 1.05)


class _OwnKind(Subspace):
    """Reports odd numbers, and the hundreds of even ones, whatever the public seed says."""

    def privatise(self, item: int, public: bytes, rand: ByteSource) -> bytes:
        if item & 1:
            return super().privatise(item, public, rand)
        return SubspaceHundreds(self.epsilon, self.bits).privatise(item // 100, public, rand)


class _SecretRand(Subspace):
    """Takes a random byte that no draw accounts for. Once in 256 times it sends the truth."""

    @property
    def rand_size(self) -> int:
        return WORD_BYTES + 1

    def privatise(self, item: int, public: bytes, rand: ByteSource) -> bytes:
        block = read(rand, self.rand_size)
        word = bytes(WORD_BYTES) if block[-1] == 0 else block[:WORD_BYTES]
        return super().privatise(item, public, lambda _: word)


def _claiming(budget: float) -> Mechanism:
    honest = _honest(budget)
    return _Claiming(
        honest.rounds, honest.channels, honest.randomiser, honest.round_epsilon, honest.oracle, honest.seed
    )


MUTANTS: dict[str, Callable[[], Mechanism]] = {
    "five per cent more": lambda: _claiming(BUDGET * 1.05),
    "budget not halved": lambda: _claiming(2 * BUDGET),  # ε_HH/T for each of two channels, not ε_HH/2T
    "biased rand": lambda: _drawing(_biased),
    "no zero when held": lambda: _drawing(lambda honest, sign, word: honest.draw(sign, word) or -sign),
    "silent when empty": lambda: _drawing(lambda honest, sign, word: honest.draw(sign, word) if sign else 0),
    # off by a few parts in 10⁵: it compares only 16 bits
    "coarse thresholds": lambda: _drawing(lambda honest, sign, word: honest.draw(sign, word >> 48 << 48)),
    "leaking position": lambda: _changed(_honest(), "privatise", _leaking),
    "shared word": lambda: _changed(_honest(), "privatise", _shared_word),
    "truth in round two": lambda: _changed(_honest(), "privatise", _truth_in_round_two),
    "thrifty rand": lambda: _changed(_honest(), "privatise", _thrifty_rand),
    "telling length": lambda: _changed(
        _honest(),
        "privatise",
        lambda honest, item, public, rand: honest.privatise(item, public, rand) + bytes(item & 1),
    ),
    "hash of the wrong width": lambda: _changed(LocalHashing(EPSILON_OLH), "respond", _narrow_hash),
    "odds of a narrower hash": lambda: _changed(Subspace(EPSILON_OLH, 4), "privatise", _eager),
    "telling envelope": lambda: _changed(Subspace(EPSILON_OLH, 4), "privatise", _telling_envelope),
    "secret rand": lambda: _SecretRand(EPSILON_OLH, 4),
    "upper bits": lambda: _changed(_honest(), "privatise", _upper_bits),
    "own kind": lambda: _OwnKind(EPSILON_OLH, 4),
    "trusting seed": lambda: _changed(Subspace(EPSILON_OLH, 4), "privatise", _trusting_seed),
    "generous response": lambda: _changed(LocalHashing(EPSILON_OLH), "respond", _generous_response),
    "telling group": lambda: _TellingGroup(EPSILON_OLH),
    "generous bit": lambda: _GenerousBit(EPSILON_OLH),
}


def mutant_findings() -> Iterator[Finding]:
    for name, make in MUTANTS.items():
        mutant = make()
        yield examine(mutant, epsilon=float(mutant.cost), name=name)
