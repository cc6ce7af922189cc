"""The phone's half of RAPPOR, a rival: a number comes in, a randomised Bloom filter leaves.

A phone belongs to a cohort, by its public seed. It enters its item into a Bloom filter with its cohort's hash
functions, and flips every bit of the filter with the same odds (Erlingsson, Pihur and Korolova 2014).

RAPPOR randomises twice: once for good (f), and again for each report (p, q), so that one answer can be
repeated. hushcall asks each phone once, so the two steps are collapsed into one, the paper's one-time RAPPOR:
a bit is flipped with probability f/2 = 1/(1 + e^(ε/2k)) for k hash functions. For each bit that is one pair
of whole numbers out of 2⁶⁴ (:attr:`ByteFlips.odds`). One word decides eight bits at once, so that a report is
as short as RAPPOR's.

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
from hushcall.privacy.coins import ONE, WORD_BYTES, ByteSource, read, words
from hushcall.privacy.exact import ceil_divide, epsilon_value, exp_below
from hushcall.protocol.seeds import SEED_BYTES, derive
from hushcall.protocol.wire import Kind, seal, unseal
from hushcall.report.hashing import MultiplyShift
from hushcall.report.mechanism import Draw, check_item
from hushcall.report.splitting import share

COHORT_PIECE = 0
MOST_COHORTS = 1 << 12
MOST_BITS = 1 << 12
MOST_FUNCTIONS = 16
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
        """The flips that cost at most ``epsilon`` a bit: rare patterns are rounded up, none at all gets the rest."""
        ratio = exp_below(epsilon)
        weights = [ceil_divide(ONE, (ratio + 1) ** 8 / ratio**7)]
        for _ in range(7):
            weights.append(ceil_divide(weights[-1], ratio))
        rest = ONE - sum(comb(8, flips) * weight for flips, weight in enumerate(weights, 1))
        return cls((rest, *weights))

    @property
    def odds(self) -> tuple[int, int]:
        """(keep, flip): the weights of the two outcomes of any one bit."""
        flip = sum(comb(7, flips - 1) * self.weights[flips] for flips in range(1, 9))
        return ONE - flip, flip

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Where the words of 0, 1, … 8 flips end."""
        return tuple(accumulate(comb(8, flips) * weight for flips, weight in enumerate(self.weights)))

    def draw(self, byte: int, word: int) -> int:
        """``byte`` with the flips that ``word`` chooses; every pattern owns one interval of words."""
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
    needs = "must be given the candidates"
    groups = 1
    """Cohorts are no groups: every report answers the same question, only with other hash functions."""

    def __post_init__(self) -> None:
        epsilon_value("epsilon", self.epsilon)
        checks.power_of_two("bits", self.bits, MOST_BITS)
        checks.whole("bits", self.bits, 8)
        checks.whole("functions", self.functions, 1, MOST_FUNCTIONS)
        checks.whole("cohorts", self.cohorts, 1, MOST_COHORTS)
        checks.whole("item_bits", self.item_bits, 1, 34)
        checks.length("seed", self.seed, SEED_BYTES)

    @property
    def cost(self) -> Fraction:
        """ε, exactly: what the odds of all bits in which two items can differ come to."""
        return Fraction(self.epsilon)

    @cached_property
    def flips(self) -> ByteFlips:
        """The odds, ε/2k a bit."""
        return ByteFlips.of(Fraction(self.epsilon) / (2 * self.functions))

    @property
    def coin_bytes(self) -> int:
        """A word for each byte of the filter."""
        return self.body_bytes * WORD_BYTES

    @property
    def body_bytes(self) -> int:
        """The filter, bit 0 the lowest of its first byte."""
        return self.bits // 8

    @cached_property
    def bloom(self) -> tuple[tuple[MultiplyShift, ...], ...]:
        """The hash functions of each cohort."""

        def function(cohort: int, place: int) -> MultiplyShift:
            label = cohort.to_bytes(2, "big") + bytes([place])
            return MultiplyShift.from_seed(derive("rappor", self.seed, label))

        return tuple(tuple(function(c, k) for k in range(self.functions)) for c in range(self.cohorts))

    def cohort(self, public: bytes) -> int:
        """The cohort of a report with that public seed."""
        return share(public, COHORT_PIECE, self.cohorts)

    def filter(self, item: int, cohort: int) -> bytes:
        """The Bloom filter of ``item``; bit 0 is the lowest of the first byte."""
        out = bytearray(self.body_bytes)
        for function in self.bloom[cohort]:
            place = function.below(item, self.bits)
            out[place >> 3] |= 1 << (place & 7)
        return bytes(out)

    def draws(self) -> tuple[Draw, ...]:
        """One per byte of the filter."""
        return tuple(Draw(word_at=WORD_BYTES * at, out=slice(at, at + 1)) for at in range(self.body_bytes))

    def privatise(self, item: int, public: bytes, coins: ByteSource) -> bytes:
        """The item's Bloom filter, every bit of it randomised."""
        check_item(item, self.item_bits)
        truth = self.filter(item, self.cohort(public))
        drawn = zip(truth, words(read(coins, self.coin_bytes)), strict=True)
        return seal(self.kind, bytes(self.flips.draw(byte, word) for byte, word in drawn))

    def parse(self, report: bytes) -> bytes:
        """The filter that a report holds: any byte is possible, so only the envelope can be wrong."""
        return unseal(self.kind, self.body_bytes, report)
