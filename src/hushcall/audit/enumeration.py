"""Proof instead of promise: the running phone code comes in, the exact ε of its reports leaves.

A report is made of independent draws (``Mechanism.draws``). The audit feeds the *real* ``privatise`` with chosen coins
and finds, by bisection over all 2⁶⁴ values of a draw's word, exactly where the outcome changes. That gives the whole
law of the draw in rational numbers, and the worst ratio of a report is the product of its draws' worst ratios:

    e^ε = max over items v, v' of Π_draws max_z P(z|v)/P(z|v')

Items are chosen so that every pattern of shared and different channels over the T rounds occurs. What the product rests
on is checked too: each draw's coins touch no other byte, and neither the coins taken nor the length sent depend on the
item.

A law found this way is exact if every outcome of a draw occupies one interval of words, which is how all of our
randomisers are built; :mod:`hushcall.audit.blackbox` samples the same code without that assumption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from hushcall.privacy.coins import ONE, WORD_BYTES, seeded, words
from hushcall.privacy.exact import exp_below, log
from hushcall.protocol.seeds import derive
from hushcall.protocol.wire import HEADER_BYTES, VERSION
from hushcall.report.mechanism import Draw, Mechanism

Law = dict[bytes, int]
"""Outcome → weight; the weights of one law add up to the same power of two for every item."""

PUBLIC = derive("audit")
"""A public seed like any other."""
PUBLICS = (PUBLIC, bytes(32), b"\xff" * 32, derive("audit", b"again"), derive("audit", b"once more"))
"""Seeds that a server might pick on purpose: the guarantee holds for every one."""
MOST_PIECES = 1 << 12


@dataclass(frozen=True)
class Finding:
    """One audited randomiser: what it claims to cost, what it costs, and whether that is within the claim."""

    randomiser: str
    epsilon: float
    claimed: float
    exact: float
    ok: bool
    paper: float | None = None
    why: str = ""


@dataclass
class Probe:
    """One mechanism under the microscope: runs its real phone code on coins of our choice."""

    mechanism: Mechanism
    public: bytes = PUBLIC
    hints: set[int] = field(default_factory=set)

    def body(self, item: int, block: bytes) -> bytes:
        """The report's body for these coins; complains if the phone takes another number of coins than it says."""
        taken: list[int] = []

        def source(count: int) -> bytes:
            start = sum(taken)
            taken.append(count)
            return block[start : start + count].ljust(count, b"\0")

        report = self.mechanism.privatise(item, self.public, source)
        if sum(taken) != self.mechanism.coin_bytes:
            raise Broken(f"takes {sum(taken)} coins where it says {self.mechanism.coin_bytes}")
        if report[:HEADER_BYTES] != bytes((VERSION, self.mechanism.kind)):
            raise Broken("writes something of its own into the envelope")
        if len(report) != HEADER_BYTES + self.mechanism.body_bytes:
            raise Broken(f"sends {len(report) - HEADER_BYTES} bytes where it says {self.mechanism.body_bytes}")
        return report[HEADER_BYTES:]

    def law(self, item: int, draw: Draw) -> Law:
        """The exact law of one draw for one item."""
        law: Law = {}
        base = bytearray(seeded(b"audit")(self.mechanism.coin_bytes))
        for index in range(1 << draw.index_bits):
            base[draw.index_at : draw.index_at + draw.index_bytes] = index.to_bytes(draw.index_bytes, "big")

            def outcome(word: int) -> bytes:
                base[draw.word_at : draw.word_at + WORD_BYTES] = word.to_bytes(WORD_BYTES, "big")
                return self.body(item, bytes(base))[draw.out]

            for value, weight in steps(outcome, self.hints):
                law[value] = law.get(value, 0) + weight
        return law

    def check_independence(self, item: int, rounds: int = 3) -> None:
        """Each draw's coins decide its own bytes and no others."""
        draws, coins = self.mechanism.draws(), seeded(b"independence")
        covered = sorted(place for draw in draws for place in range(draw.out.start, draw.out.stop))
        if covered != list(range(self.mechanism.body_bytes)):
            raise Broken("has bytes that no draw, or more than one, accounts for")
        owned = sorted(place for draw in draws for place in coins_of(draw))
        if owned != list(range(self.mechanism.coin_bytes)):
            raise Broken("takes coins that no draw, or more than one, accounts for")
        for _ in range(rounds):
            block = bytearray(coins(self.mechanism.coin_bytes))
            before = self.body(item, bytes(block))
            for number, draw in enumerate(draws):
                changed = bytearray(block)
                changed[draw.word_at : draw.word_at + WORD_BYTES] = coins(WORD_BYTES)
                if draw.index_bytes:
                    changed[draw.index_at : draw.index_at + draw.index_bytes] = coins(draw.index_bytes)
                after = self.body(item, bytes(changed))
                rest = [i for i in range(len(before)) if not draw.out.start <= i < draw.out.stop]
                if any(before[i] != after[i] for i in rest):
                    raise Broken(f"lets the coins of draw {number} change other bytes of the report")

    def check_positions(self, item: int, draw: Draw) -> None:
        """The bits of a position coin that choose no position choose nothing else either."""
        unused = 8 * draw.index_bytes - draw.index_bits
        if unused <= 0:
            return
        base = bytearray(seeded(b"positions")(self.mechanism.coin_bytes))
        spots = seeded(b"upper")
        for index in range(1 << draw.index_bits):
            base[draw.word_at : draw.word_at + WORD_BYTES] = spots(WORD_BYTES)
            seen = set()
            for upper in range(1 << min(unused, 3)):
                whole = upper << (8 * draw.index_bytes - min(unused, 3)) | index
                base[draw.index_at : draw.index_at + draw.index_bytes] = whole.to_bytes(draw.index_bytes, "big")
                seen.add(self.body(item, bytes(base))[draw.out])
            if len(seen) > 1:
                raise Broken("lets unused bits of a position coin change its symbol")


def coins_of(draw: Draw) -> list[int]:
    """The coin bytes that a draw reads."""
    index = range(draw.index_at, draw.index_at + draw.index_bytes)
    return [*index, *range(draw.word_at, draw.word_at + WORD_BYTES)]


class Broken(Exception):
    """The code under audit does not even have the shape of a randomiser; the audit reports this as a finding."""


def steps(outcome: Callable[[int], bytes], hints: set[int]) -> list[tuple[bytes, int]]:
    """The pieces of a step function on 0 … 2⁶⁴−1, as (value, length), found by bisection.

    ``hints`` are steps seen before: most laws share them, and a hint that is right costs two looks instead of 64. A
    hint that is wrong costs two looks and does no harm.
    """
    seen = {0: outcome(0), ONE - 1: outcome(ONE - 1)}
    for hint in hints:
        for word in (hint - 1, hint):
            seen[word] = outcome(word)
    pieces: list[tuple[bytes, int]] = []
    points = sorted(seen)
    start = 0
    stack = list(pairwise(points))[::-1]
    while stack:
        low, high = stack.pop()
        if seen[low] == seen[high]:
            continue
        if high - low == 1:
            if len(pieces) == MOST_PIECES:
                raise Broken(f"has a draw with more than {MOST_PIECES} steps: outcomes do not lie in intervals")
            hints.add(high)
            pieces.append((seen[low], high - start))
            start = high
        else:
            middle = (low + high) // 2
            seen[middle] = outcome(middle)
            stack += [(middle, high), (low, middle)]
    pieces.append((seen[ONE - 1], ONE - start))
    _spot_check(outcome, pieces)
    return pieces


_SPOTS = words(seeded(b"spots")(5 * WORD_BYTES))


def _spot_check(outcome: Callable[[int], bytes], pieces: list[tuple[bytes, int]]) -> None:
    """Words picked beforehand must fall where the pieces say: bisection alone would believe any function."""
    for spot in _SPOTS:
        rest = spot
        for value, length in pieces:
            if rest < length:
                if outcome(spot) != value:
                    raise Broken("has outcomes that do not lie in intervals")
                break
            rest -= length


def worst_ratio(probe: Probe, items: Sequence[int], draws: Iterable[Draw]) -> Fraction | None:
    """Max over ordered pairs of items of the product over draws of max_z P(z|v)/P(z|v'); None if unbounded."""
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
                    return None
                product *= max(Fraction(weight, theirs[value]) for value, weight in mine.items())
            worst = max(worst, product)
    return worst


def probe_items(mechanism: Mechanism) -> list[int]:
    """Items that meet in every pattern of shared and different channels; elsewhere a spread of items."""
    coins = seeded(b"items")
    candidates = [int.from_bytes(coins(5), "big") & ((1 << mechanism.item_bits) - 1) for _ in range(400)]
    hashes, channels = getattr(mechanism, "hashes", None), getattr(mechanism, "channels", 0)
    if hashes is None:
        return [0, (1 << mechanism.item_bits) - 1, *candidates[:8]]
    bits, first = channels.bit_length() - 1, candidates[0]
    patterns: dict[tuple[bool, ...], int] = {}
    for item in candidates[1:]:
        patterns.setdefault(tuple(h.bits(item, bits) == h.bits(first, bits) for h in hashes), item)
    return [first, *patterns.values()]


def examine(mechanism: Mechanism, *, epsilon: float, paper: float | None = None, name: str = "") -> Finding:
    """The exact ε of a whole report, from the running code: each draw at its worst, over several public seeds."""
    probe, items = Probe(mechanism), probe_items(mechanism)
    label, claimed = name or mechanism.name, mechanism.cost
    try:
        for item in items:
            probe.check_independence(item)
        for draw in mechanism.draws():
            probe.check_positions(items[0], draw)
        # Draws with positions do not see the public seed, the others do: each part at its worst, over several seeds.
        placed = [draw for draw in mechanism.draws() if draw.index_bits]
        hashed = [draw for draw in mechanism.draws() if not draw.index_bits]
        shared: set[int] = set()  # by the seeds, and by them alone: a position's draw has other steps
        parts = [worst_ratio(Probe(mechanism, seed, shared), items, hashed) for seed in PUBLICS]
        ratio = worst_ratio(probe, items, placed)
        if ratio is not None:
            ratio = None if None in parts else ratio * max(part for part in parts if part is not None)
    except Broken as reason:
        return Finding(label, epsilon, float(claimed), float("inf"), ok=False, paper=paper, why=str(reason))
    return _finding(label, epsilon, claimed, ratio, paper)


def examine_round(mechanism: Mechanism, claimed: Fraction, *, epsilon: float, paper: float, name: str) -> Finding:
    """Audit one round of a succinct histogram by itself: K channels, two of which a changed number touches."""
    channels: int = getattr(mechanism, "channels", 0)
    ratio = worst_ratio(Probe(mechanism), probe_items(mechanism), mechanism.draws()[:channels])
    return _finding(name, epsilon, claimed, ratio, paper)


def _finding(name: str, epsilon: float, claimed: Fraction, ratio: Fraction | None, paper: float | None) -> Finding:
    if ratio is None:
        why = "an outcome of one number is impossible for another"
        return Finding(name, epsilon, float(claimed), float("inf"), ok=False, paper=paper, why=why)
    ok = ratio <= exp_below(claimed)
    why = "" if ok else "costs more than it claims"
    return Finding(name, epsilon, float(claimed), log(ratio), ok=ok, paper=paper, why=why)
