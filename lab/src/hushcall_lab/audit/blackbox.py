"""A lower bound on ε from samples of the real client code. Unlike the exact audit it assumes no intervals.

Per draw, half of the samples of two items choose the set of outcomes that best separates them, the other half bound the
two probabilities of that set (Clopper and Pearson 1934). The draws are independent, so the bounds on their log-ratios
add up. Bonferroni over draws and sides keeps the false-alarm rate of a report at :data:`LEVEL`.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import betaincinv

from hushcall import checks
from hushcall.mechanisms.mechanism import Mechanism
from hushcall.protocol.randomness import ByteSource
from hushcall.protocol.wire import HEADER_BYTES
from hushcall_lab.audit.enumeration import PUBLIC, probe_items

LEVEL, PILOT_SAMPLES = 1e-3, 300


@dataclass(frozen=True)
class LowerBound:
    randomiser: str
    claimed: float
    lower: float
    samples: int
    confidence: float

    @property
    def consistent(self) -> bool:
        return self.lower <= self.claimed


def lower_bound(mechanism: Mechanism, rand: ByteSource, samples: int = 20_000) -> LowerBound:
    checks.whole("samples", samples, 100)
    first, second = _far_apart(mechanism, rand)
    outputs = [[_outcomes(mechanism, item, rand) for _ in range(samples)] for item in (first, second)]
    draws = mechanism.draws()
    share = LEVEL / (2 * len(draws))
    columns = (list(zip(*side, strict=True)) for side in outputs)
    total = sum(_draw_bound(mine, theirs, share) for mine, theirs in zip(*columns, strict=True))
    return LowerBound(mechanism.name, float(mechanism.cost), total, samples, 1 - LEVEL)


def _far_apart(mechanism: Mechanism, rand: ByteSource) -> tuple[int, int]:
    """The first probe item, and the one whose reports look least like its own in a small sample."""
    first, *candidates = probe_items(mechanism)

    def sample(item: int) -> list[Counter[bytes]]:
        rows = (_outcomes(mechanism, item, rand) for _ in range(PILOT_SAMPLES))
        return [Counter(column) for column in zip(*rows, strict=True)]

    mine = sample(first)

    def distance(item: int) -> int:
        return sum((here - there).total() for here, there in zip(mine, sample(item), strict=True))

    return first, max(candidates, key=distance)


def _outcomes(mechanism: Mechanism, item: int, rand: ByteSource) -> list[bytes]:
    report = mechanism.privatise(item, PUBLIC, rand)
    header, body = report[:HEADER_BYTES], report[HEADER_BYTES:]
    return [header + body[draw.out] for draw in mechanism.draws()]


def _draw_bound(mine: Sequence[bytes], theirs: Sequence[bytes], share: float) -> float:
    half = len(mine) // 2
    train_mine, train_theirs = Counter(mine[:half]), Counter(theirs[:half])
    ranked = sorted(
        train_mine.keys() | train_theirs.keys(),
        key=lambda z: (train_mine[z] + 0.5) / (train_theirs[z] + 0.5),
        reverse=True,
    )
    best, chosen, here, there = 0.0, 0, 0, 0
    for size, outcome in enumerate(ranked, 1):
        here, there = here + train_mine[outcome], there + train_theirs[outcome]
        bound = _log_ratio(here, there, half, share)
        if bound > best:
            best, chosen = bound, size
    event = set(ranked[:chosen])
    hits = [sum(z in event for z in side[half:]) for side in (mine, theirs)]
    return max(_log_ratio(hits[0], hits[1], len(mine) - half, share), 0.0) if chosen else 0.0


def _log_ratio(here: int, there: int, trials: int, share: float) -> float:
    """Ln of (lower limit of the first probability / upper limit of the second)."""
    if here == 0:
        return -math.inf
    low = float(betaincinv(here, trials - here + 1, share))
    high = 1.0 if there == trials else float(betaincinv(there + 1, trials - there, 1 - share))
    return math.log(low / high)
