"""The client side of RAPPOR, kept for its vectors: it has to be given the candidates, so nothing here decodes it.

A client belongs to a cohort, by its public seed. It enters its item into a Bloom filter with its cohort's hash
functions, and flips every bit of the filter with the same odds (Erlingsson, Pihur and Korolova 2014).

This is the paper's one-time RAPPOR, since each client is asked once: a bit is flipped with probability
f/2 = 1/(1 + e^(ε/2k)) for k hash functions. One word decides eight bits at once.

Guarantee: ε-LDP for every public seed: two items differ in at most 2k bits of the filter, e^(ε/2k) each.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import comb

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.mechanisms.local_hashing.client import MultiplyShift
from hushcall.mechanisms.mechanism import Draw, check_item
from hushcall.protocol.exact import ceil_divide, epsilon_value, exp_below
from hushcall.protocol.randomness import ONE, WORD_BYTES, ByteSource, read, words
from hushcall.protocol.seeds import SEED_BYTES, derive
from hushcall.protocol.wire import Kind, seal, unseal
from hushcall_lab.rivals.splitting import share

COHORT_PIECE = 0
MAX_COHORTS = 1 << 12
MAX_BITS = 1 << 12
MAX_FUNCTIONS = 16
_PATTERNS = tuple(sorted(range(256), key=lambda pattern: (pattern.bit_count(), pattern)))
_FIRST = tuple(accumulate((comb(8, flips) for flips in range(8)), initial=0))


@dataclass(frozen=True)
class ByteFlips:
    """Flip each of eight bits with odds 1 : e^ε, by one word.

    ``weights[d]`` belongs to every pattern of d flips. Each is at least 1/e^ε of the one before, so bytes
    whose truths differ in j bits have odds within e^(jε) of each other, exactly.
    """

    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        total = sum(comb(8, flips) * weight for flips, weight in enumerate(self.weights))
        if len(self.weights) != 9 or min(self.weights) < 1 or total != ONE:
            raise InvalidParameter("weights", "be nine that make 2⁶⁴ over all patterns", self.weights)

    @classmethod
    def of(cls, epsilon: Fraction) -> ByteFlips:
        """Flips that cost at most ``epsilon`` a bit: rare patterns are rounded up, at the expense of no flip at all."""
        ratio = exp_below(epsilon)
        weights = [ceil_divide(ONE, (ratio + 1) ** 8 / ratio**7)]
        for _ in range(7):
            weights.append(ceil_divide(weights[-1], ratio))
        none = ONE - sum(comb(8, flips) * weight for flips, weight in enumerate(weights, 1))
        return cls((none, *weights))

    @property
    def odds(self) -> tuple[int, int]:
        """(keep, flip): the weights of the two outcomes of any one bit."""
        flip = sum(comb(7, flips - 1) * self.weights[flips] for flips in range(1, 9))
        return ONE - flip, flip

    @cached_property
    def ends(self) -> tuple[int, ...]:
        return tuple(accumulate(comb(8, flips) * weight for flips, weight in enumerate(self.weights)))

    def draw(self, byte: int, word: int) -> int:
        """``byte`` with the flips that ``word`` chooses. Every pattern has one interval of words."""
        flips = bisect_right(self.ends, word)
        within = word - (self.ends[flips - 1] if flips else 0)
        return byte ^ _PATTERNS[_FIRST[flips] + within // self.weights[flips]]


@dataclass(frozen=True)
class Rappor:
    """One-time RAPPOR with budget ``epsilon``: filters of ``bits`` bits, ``functions`` hash functions a cohort.

    >>> mechanism = Rappor(4.0, bits=16)
    >>> mechanism.filter(5550143, 0).hex(), mechanism.body_bytes
    ('0108', 2)
    """

    epsilon: float
    bits: int = 128
    functions: int = 2
    cohorts: int = 64
    item_bits: int = 24
    seed: bytes = bytes(SEED_BYTES)
    name = "rappor"
    kind = Kind.RAPPOR
    groups = 1
    """Cohorts are no groups: they answer the same question with other hash functions."""

    def __post_init__(self) -> None:
        epsilon_value("epsilon", self.epsilon)
        checks.power_of_two("bits", self.bits, MAX_BITS)
        checks.whole("bits", self.bits, 8)
        checks.whole("functions", self.functions, 1, MAX_FUNCTIONS)
        checks.whole("cohorts", self.cohorts, 1, MAX_COHORTS)
        checks.whole("item_bits", self.item_bits, 1, 34)
        checks.length("seed", self.seed, SEED_BYTES)

    @property
    def cost(self) -> Fraction:
        return Fraction(self.epsilon)

    @cached_property
    def flips(self) -> ByteFlips:
        return ByteFlips.of(Fraction(self.epsilon) / (2 * self.functions))

    @property
    def rand_size(self) -> int:
        return self.body_bytes * WORD_BYTES

    @property
    def body_bytes(self) -> int:
        return self.bits // 8

    @cached_property
    def bloom(self) -> tuple[tuple[MultiplyShift, ...], ...]:
        def function(cohort: int, place: int) -> MultiplyShift:
            label = cohort.to_bytes(2, "big") + bytes([place])
            return MultiplyShift.from_seed(derive("rappor", self.seed, label))

        return tuple(tuple(function(c, k) for k in range(self.functions)) for c in range(self.cohorts))

    def cohort(self, public: bytes) -> int:
        return share(public, COHORT_PIECE, self.cohorts)

    def filter(self, item: int, cohort: int) -> bytes:
        out = bytearray(self.body_bytes)
        for function in self.bloom[cohort]:
            place = function.below(item, self.bits)
            out[place >> 3] |= 1 << (place & 7)
        return bytes(out)

    def draws(self) -> tuple[Draw, ...]:
        return tuple(Draw(word_at=WORD_BYTES * at, out=slice(at, at + 1)) for at in range(self.body_bytes))

    def privatise(self, item: int, public: bytes, rand: ByteSource) -> bytes:
        check_item(item, self.item_bits)
        truth = self.filter(item, self.cohort(public))
        drawn = zip(truth, words(read(rand, self.rand_size)), strict=True)
        return seal(self.kind, bytes(self.flips.draw(byte, word) for byte, word in drawn))

    def parse(self, report: bytes) -> bytes:
        """The filter of a report. Any byte is possible, so only the envelope can be wrong."""
        return unseal(self.kind, self.body_bytes, report)
