"""Would a test of whole blocks find a rented one that its single numbers do not show? A case comes in, bounds leave.

    python -m hushcall.lab.study.rented_blocks

A bucket has n reports of b bits; 150 of them are about 30 numbers of one hundred, 5 about each. The test adds up the
support of the block, R = Σ C(x) over its m = 100 numbers. Under the null C(x) is Binomial(n, q) with q = 2⁻ᵇ, and A·x
is pairwise independent, so R has mean n·m·q and variance n·m·q·(1 − q). Planted, it exceeds its mean by 150·(p − q).
The block is found where a bound on the null's tail falls below the level, shared by all hundreds of one area code. That
is the kindest setting: one bucket, one window, all of the level, no tolerance. Five tails are compared:

- ``cantelli``: from mean and variance alone, which is all that pairwise independence gives;
- ``bennett``: the reports are independent of each other too, and none supports more than m numbers;
- ``linear``: from how a random matrix maps the block. It lies in one or two cubes of 128 numbers, u ⊕ W. The matrix has
  rank r on W, so a report supports 2^(7 − r) numbers of a cube or none, and each with probability q; the cubes are
  independent given r. Hence E exp(λS) ≤ Σ P(r)·Π (1 + mq/M·(exp(λM) − 1)) over the cubes, with m of the block's numbers
  in a cube and M = min(m, 2^(7 − r)), since exp is convex; the tail follows by Chernoff's bound. It is valid for every
  report from outside the cubes;
- ``service``: that bound with what a service asks of everything that it lists;
- ``normal``: the normal law. It is no bound, and is shown because none that holds can be much below it.

``docs/results.md`` has what came out, and why the service has no such test.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from hushcall.numbers import NANP
from hushcall.profiles import TOLERANCE, WINDOWS

BLOCK, NUMBERS, PHONES = 100, 30, 5
LEVEL = 1e-3
CUBE = 7
"""The dimension of the cubes: 128 numbers, the fewest that a hundred can lie in."""
MOST = 1 << 20
AREAS = 100
"""Area codes that are decided together."""

Tail = Callable[["Case", float], float]


@dataclass(frozen=True)
class Case:
    """A bucket: n reports, of ``bits`` bits, at ε."""

    epsilon: float
    bits: int
    reports: int

    @property
    def q(self) -> float:
        """How likely a report supports a number that it is not about."""
        return math.ldexp(1.0, -self.bits)

    @property
    def p(self) -> float:
        """How likely it supports its own."""
        return 1 / (1 + math.expm1(self.bits * math.log(2)) / math.exp(self.epsilon))

    @property
    def excess(self) -> float:
        """By how much a rented block exceeds the null, on average."""
        return NUMBERS * PHONES * (self.p - self.q)

    @property
    def variance(self) -> float:
        """Of R, under the null."""
        return self.reports * BLOCK * self.q * (1 - self.q)


def cantelli(case: Case, excess: float) -> float:
    """P(R − mean ≥ t) ≤ v / (v + t²)."""
    return case.variance / (case.variance + excess**2)


def bennett(case: Case, excess: float) -> float:
    """At most exp(−(v/M²)·h(M·t/v)) with h(u) = (1 + u)·ln(1 + u) − u, where no report adds more than M."""
    most = BLOCK * (1 - case.q)
    ratio = most * excess / case.variance
    return math.exp(-case.variance / most**2 * ((1 + ratio) * math.log1p(ratio) - ratio))


def normal(case: Case, excess: float) -> float:
    """The normal law's tail: no bound."""
    return math.erfc(excess / math.sqrt(2 * case.variance)) / 2


def linear(case: Case, excess: float) -> float:
    """Chernoff's bound, for the worst way a hundred can lie to the powers of two."""
    reach = case.reports * BLOCK * case.q + excess
    slopes = [step / 25 for step in range(1, 76)]
    worst = max(
        min(case.reports * log_moment(inside, case.bits, slope) - slope * reach for slope in slopes)
        for inside in {tuple(sorted(parts(start))) for start in range(0, 2**CUBE, 4)}  # 100·k mod 128
    )
    return math.exp(min(worst, 0.0))


def service(case: Case, excess: float) -> float:
    """``linear`` under a service's rule.

    f liars are set aside, each of whom supports one number of the block at least; and blocks have half of a window's
    share of the level, for all area codes together.
    """
    shares = len(WINDOWS) * 2 * AREAS
    return shares * linear(case, excess - TOLERANCE) if excess > TOLERANCE else 1.0


@cache
def log_moment(inside: tuple[int, ...], bits: int, slope: float) -> float:
    """At least ln E exp(slope·S), where S is how many numbers of the block, ``inside`` cubes, one report supports."""
    law = ranks(bits, CUBE)
    return math.log(
        sum(
            chance * math.prod(_moment(m, bits, min(m, 2 ** (CUBE - rank)), slope) for m in inside)
            for rank, chance in enumerate(law)
        )
    )


def _moment(inside: int, bits: int, most: int, slope: float) -> float:
    return 1 + math.ldexp(inside, -bits) / most * math.expm1(slope * most)


def parts(start: int) -> tuple[int, ...]:
    """How many numbers of a block lie in each cube of 128.

    >>> parts(0), parts(100)
    ((100,), (28, 72))
    """
    first = min(BLOCK, 2**CUBE - start)
    return (first, BLOCK - first) if first < BLOCK else (BLOCK,)


@cache
def ranks(rows: int, columns: int) -> tuple[float, ...]:
    """The law of the rank of a random matrix over GF(2).

    >>> ranks(1, 1), sum(ranks(5, 7))
    ((0.5, 0.5), 1.0)
    """
    law = []
    for rank in range(min(rows, columns) + 1):
        matrices = math.prod((2**rows - 2**i) * (2**columns - 2**i) for i in range(rank))
        law.append(matrices / math.prod(2**rank - 2**i for i in range(rank)) / 2 ** (rows * columns))
    return tuple(law)


def largest_bucket(epsilon: float, tail: Tail, blocks: int = NANP.valid_suffixes // BLOCK) -> tuple[int, int]:
    """The most reports among which a rented block is found half of the time, with the best b, and that b; 0: never."""
    found = ((_most(epsilon, bits, tail, LEVEL / blocks), bits) for bits in range(1, 17))
    most, bits = max(found)
    return (most, bits) if most >= NUMBERS * PHONES else (0, 0)


def _most(epsilon: float, bits: int, tail: Tail, level: float) -> int:
    low, high = 0, MOST
    while low < high:
        middle = (low + high + 1) // 2
        case = Case(epsilon, bits, middle)
        if tail(case, case.excess) <= level:
            low = middle
        else:
            high = middle - 1
    return low


TAILS: dict[str, Tail] = {
    "cantelli": cantelli,
    "bennett": bennett,
    "linear": linear,
    "service": service,
    "normal": normal,
}


def table() -> str:
    """For each ε and tail: in how large a bucket the rented block is found."""
    lines = ["| ε | " + " | ".join(TAILS) + " |", "|---|" + "---|" * len(TAILS)]
    for epsilon in (2.0, 4.0, 6.0, 8.0):
        found = [largest_bucket(epsilon, tail) for tail in TAILS.values()]
        cells = [f"{most:,} (b = {bits})" if most else "never" for most, bits in found]
        lines.append(f"| {epsilon:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
