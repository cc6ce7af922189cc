"""The exact ε of a mechanism's reports, found by probing the real client code.

A report is made of independent draws (``Mechanism.draws``). The audit feeds ``privatise`` with chosen random bytes and
finds, by bisection over all 2⁶⁴ values of a draw's word, exactly where the outcome changes. That gives the law of the
draw in rational numbers. The worst ratio of a report is the product of its draws' worst ratios:

    e^ε = max over items v, v' of Π_draws max_z P(z|v)/P(z|v')

Items are chosen so that every pattern of shared and different channels over the T rounds occurs. The assumptions behind
the product are checked too: a draw's random bytes touch no other byte, and neither the bytes consumed nor the length
sent depend on the item. The law is exact if every outcome of a draw occupies one interval of words.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from hushcall.mechanisms.mechanism import Draw, Mechanism
from hushcall.protocol.exact import exp_below
from hushcall.protocol.randomness import ONE, WORD_BYTES, seeded, words
from hushcall.protocol.seeds import derive
from hushcall.protocol.wire import HEADER_BYTES, VERSION

Law = dict[bytes, int]
"""Outcome → weight. The weights of one law add up to the same power of two for every item."""

PUBLIC = derive("audit")
"""A public seed like any other."""
PUBLICS = (PUBLIC, bytes(32), b"\xff" * 32, derive("audit", b"again"), derive("audit", b"once more"))
"""Seeds that a server might pick on purpose. The guarantee holds for every one."""
MAX_PIECES = 1 << 12


def log(ratio: Fraction) -> float:
    return math.log(ratio.numerator) - math.log(ratio.denominator)


@dataclass(frozen=True)
class Finding:
    randomiser: str
    epsilon: float
    claimed: float
    exact: float
    ok: bool
    paper: float | None = None
    why: str = ""


@dataclass
class Probe:
    mechanism: Mechanism
    public: bytes = PUBLIC
    hints: set[int] = field(default_factory=set)

    def body(self, item: int, block: bytes) -> bytes:
        """The report's body for these random bytes. Raises :class:`Broken` if the report has not the declared shape."""
        sizes: list[int] = []

        def source(count: int) -> bytes:
            start = sum(sizes)
            sizes.append(count)
            return block[start : start + count].ljust(count, b"\0")

        report = self.mechanism.privatise(item, self.public, source)
        if sum(sizes) != self.mechanism.rand_size:
            raise Broken(f"takes {sum(sizes)} random bytes where it says {self.mechanism.rand_size}")
        if report[:HEADER_BYTES] != bytes((VERSION, self.mechanism.kind)):
            raise Broken("writes something of its own into the envelope")
        if len(report) != HEADER_BYTES + self.mechanism.body_bytes:
            raise Broken(f"sends {len(report) - HEADER_BYTES} bytes where it says {self.mechanism.body_bytes}")
        return report[HEADER_BYTES:]

    def law(self, item: int, draw: Draw) -> Law:
        law: Law = {}
        base = bytearray(seeded(b"audit")(self.mechanism.rand_size))
        for index in range(1 << draw.index_bits):
            base[draw.index_at : draw.index_at + draw.index_bytes] = index.to_bytes(draw.index_bytes, "big")

            def outcome(word: int) -> bytes:
                base[draw.word_at : draw.word_at + WORD_BYTES] = word.to_bytes(WORD_BYTES, "big")
                return self.body(item, bytes(base))[draw.out]

            for value, weight in steps(outcome, self.hints):
                law[value] = law.get(value, 0) + weight
        return law

    def check_independence(self, item: int) -> None:
        """Checks that each draw's random bytes decide its own bytes of the report and no others."""
        draws, rand = self.mechanism.draws(), seeded(b"independence")
        covered = sorted(place for draw in draws for place in range(draw.out.start, draw.out.stop))
        if covered != list(range(self.mechanism.body_bytes)):
            raise Broken("has bytes that no draw, or more than one, accounts for")
        owned = sorted(place for draw in draws for place in rand_of(draw))
        if owned != list(range(self.mechanism.rand_size)):
            raise Broken("takes random bytes that no draw, or more than one, accounts for")
        for _ in range(3):
            block = bytearray(rand(self.mechanism.rand_size))
            before = self.body(item, bytes(block))
            for number, draw in enumerate(draws):
                changed = bytearray(block)
                for place in rand_of(draw):
                    changed[place] = rand(1)[0]
                after = bytearray(self.body(item, bytes(changed)))
                after[draw.out] = before[draw.out]
                if after != before:
                    raise Broken(f"lets the random bytes of draw {number} change other bytes of the report")

    def check_positions(self, item: int, draw: Draw) -> None:
        unused = 8 * draw.index_bytes - draw.index_bits
        if unused <= 0:
            return
        base = bytearray(seeded(b"positions")(self.mechanism.rand_size))
        spots = seeded(b"upper")
        for index in range(1 << draw.index_bits):
            base[draw.word_at : draw.word_at + WORD_BYTES] = spots(WORD_BYTES)
            outcomes = set()
            for upper in range(1 << min(unused, 3)):
                position = upper << (8 * draw.index_bytes - min(unused, 3)) | index
                base[draw.index_at : draw.index_at + draw.index_bytes] = position.to_bytes(draw.index_bytes, "big")
                outcomes.add(self.body(item, bytes(base))[draw.out])
            if len(outcomes) > 1:
                raise Broken("lets unused bits of a position byte change its symbol")


def rand_of(draw: Draw) -> list[int]:
    index = range(draw.index_at, draw.index_at + draw.index_bytes)
    return [*index, *range(draw.word_at, draw.word_at + WORD_BYTES)]


class Broken(Exception):
    """The audited code does not have the shape of a randomiser. The audit reports this as a finding."""


def steps(outcome: Callable[[int], bytes], hints: set[int]) -> list[tuple[bytes, int]]:
    """The pieces of a step function on 0 … 2⁶⁴−1, as (value, length). ``hints``: steps of earlier laws, shared."""
    values = {0: outcome(0), ONE - 1: outcome(ONE - 1)}
    for hint in hints:
        for word in (hint - 1, hint):
            values[word] = outcome(word)
    pieces: list[tuple[bytes, int]] = []
    points = sorted(values)
    start = 0
    stack = list(pairwise(points))[::-1]
    while stack:
        low, high = stack.pop()
        if values[low] == values[high]:
            continue
        if high - low == 1:
            if len(pieces) == MAX_PIECES:
                raise Broken(f"has a draw with more than {MAX_PIECES} steps: outcomes do not lie in intervals")
            hints.add(high)
            pieces.append((values[low], high - start))
            start = high
        else:
            middle = (low + high) // 2
            values[middle] = outcome(middle)
            stack += [(middle, high), (low, middle)]
    pieces.append((values[ONE - 1], ONE - start))
    _spot_check(outcome, pieces)
    return pieces


_SPOTS = words(seeded(b"spots")(5 * WORD_BYTES))


def _spot_check(outcome: Callable[[int], bytes], pieces: list[tuple[bytes, int]]) -> None:
    """Checks fixed words against the pieces. Bisection alone would accept any function."""
    for spot in _SPOTS:
        offset = spot
        for value, length in pieces:
            if offset < length:
                if outcome(spot) != value:
                    raise Broken("has outcomes that do not lie in intervals")
                break
            offset -= length


def worst_ratio(probe: Probe, items: Sequence[int], draws: Iterable[Draw]) -> Fraction:
    """The largest product over draws of max_z P(z|v)/P(z|v') for any ordered pair of items."""
    draws = list(draws)
    laws = [[probe.law(item, draw) for draw in draws] for item in items]
    worst = Fraction(1)
    for first in laws:
        for second in laws:
            product = Fraction(1)
            for mine, theirs in zip(first, second, strict=True):
                if mine is theirs or mine == theirs:
                    continue
                if mine.keys() - theirs.keys():
                    raise Broken("an outcome of one number is impossible for another")
                product *= max(Fraction(weight, theirs[value]) for value, weight in mine.items())
            worst = max(worst, product)
    return worst


def probe_items(mechanism: Mechanism) -> list[int]:
    """Items that share channels in every possible pattern. For mechanisms without channels, a spread of items."""
    rand = seeded(b"items")
    candidates = [int.from_bytes(rand(5), "big") & ((1 << mechanism.item_bits) - 1) for _ in range(400)]
    hashes, channels = getattr(mechanism, "hashes", None), getattr(mechanism, "channels", 0)
    if hashes is None:
        return [0, (1 << mechanism.item_bits) - 1, *candidates[:8]]
    bits, first = channels.bit_length() - 1, candidates[0]
    patterns: dict[tuple[bool, ...], int] = {}
    for item in candidates[1:]:
        patterns.setdefault(tuple(h.bits(item, bits) == h.bits(first, bits) for h in hashes), item)
    return [first, *patterns.values()]


def examine(mechanism: Mechanism, *, epsilon: float, paper: float | None = None, name: str = "") -> Finding:
    """The exact ε of a complete report: each draw at its worst over several public seeds."""

    def ratio() -> Fraction:
        probe, items = Probe(mechanism), probe_items(mechanism)
        for item in items:
            probe.check_independence(item)
        for draw in mechanism.draws():
            probe.check_positions(items[0], draw)
        # Only draws without positions depend on the public seed.
        placed = [draw for draw in mechanism.draws() if draw.index_bits]
        hashed = [draw for draw in mechanism.draws() if not draw.index_bits]
        shared: set[int] = set()  # hints, shared between seeds. Draws with positions have other steps.
        parts = [worst_ratio(Probe(mechanism, seed, shared), items, hashed) for seed in PUBLICS]
        return worst_ratio(probe, items, placed) * max(parts)

    return _finding(name or mechanism.name, epsilon, mechanism.cost, paper, ratio)


def examine_round(mechanism: Mechanism, claimed: Fraction, *, epsilon: float, paper: float, name: str) -> Finding:
    """Audits one round of a succinct histogram: K channels, two of which a changed number touches."""
    draws = mechanism.draws()[: getattr(mechanism, "channels", 0)]
    return _finding(name, epsilon, claimed, paper, lambda: worst_ratio(Probe(mechanism), probe_items(mechanism), draws))


def _finding(
    name: str, epsilon: float, claimed: Fraction, paper: float | None, ratio: Callable[[], Fraction]
) -> Finding:
    try:
        exact = ratio()
    except Broken as reason:
        return Finding(name, epsilon, float(claimed), float("inf"), ok=False, paper=paper, why=str(reason))
    ok = exact <= exp_below(claimed)
    why = "" if ok else "costs more than it claims"
    return Finding(name, epsilon, float(claimed), log(exact), ok=ok, paper=paper, why=why)
