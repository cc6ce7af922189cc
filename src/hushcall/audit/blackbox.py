"""The sceptic's audit: samples of the real phone code come in, a lower bound on ε leaves. It assumes no intervals.

For two items, N reports each. Per draw, half of the samples choose the set of outcomes that best tells the items apart,
the other half bound the two probabilities of that set (Clopper and Pearson 1934). The draws are independent, so the
bounds on their log-ratios add up; Bonferroni over draws and sides keeps the false-alarm rate of a whole report at
``level``.

Power (a test measures it): with N = 20 000, a phone that spends twice its budget is caught in every run;
the exact audit is what catches 5 %.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hushcall import checks
from hushcall.audit.enumeration import PUBLIC, probe_items
from hushcall.errors import MissingExtra
from hushcall.privacy.coins import ByteSource
from hushcall.protocol.wire import HEADER_BYTES
from hushcall.report.mechanism import Mechanism


@dataclass(frozen=True)
class LowerBound:
    """ε is at least ``lower``, at the stated confidence; ``consistent`` if that does not exceed the claim."""

    randomiser: str
    claimed: float
    lower: float
    samples: int
    confidence: float

    @property
    def consistent(self) -> bool:
        """Whether the samples leave the claim standing."""
        return self.lower <= self.claimed


def lower_bound(
    mechanism: Mechanism, coins: ByteSource, samples: int = 20_000, level: float = 1e-3, name: str = ""
) -> LowerBound:
    """A lower bound on ε that is wrong with probability at most ``level``."""
    checks.whole("samples", samples, 100)
    checks.probability("level", level)
    first, second = _far_apart(mechanism, coins)
    outputs = [[_outcomes(mechanism, item, coins) for _ in range(samples)] for item in (first, second)]
    draws = mechanism.draws()
    share = level / (2 * len(draws))
    total = 0.0
    for place in range(len(draws)):
        columns = [[outcome[place] for outcome in side] for side in outputs]
        total += _draw_bound(columns[0], columns[1], share)
    return LowerBound(name or mechanism.name, float(mechanism.cost), total, samples, 1 - level)


def _far_apart(mechanism: Mechanism, coins: ByteSource, pilot: int = 300) -> tuple[int, int]:
    """The first probe item, and the one whose reports look least like its own in a small sample."""
    first, *others = probe_items(mechanism)

    def sample(item: int) -> list[Counter[bytes]]:
        return [
            Counter(column) for column in zip(*(_outcomes(mechanism, item, coins) for _ in range(pilot)), strict=True)
        ]

    mine = sample(first)

    def distance(item: int) -> int:
        return sum((here - there).total() for here, there in zip(mine, sample(item), strict=True))

    return first, max(others, key=distance)


def _outcomes(mechanism: Mechanism, item: int, coins: ByteSource) -> list[bytes]:
    report = mechanism.privatise(item, PUBLIC, coins)
    header, body = report[:HEADER_BYTES], report[HEADER_BYTES:]
    return [header + body[draw.out] for draw in mechanism.draws()]


def _draw_bound(mine: list[bytes], theirs: list[bytes], share: float) -> float:
    """A lower bound on max_S ln P(S|v)/P(S|v'), at least 0."""
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
    rest = len(mine) - half
    hits = [sum(z in event for z in side[half:]) for side in (mine, theirs)]
    return max(_log_ratio(hits[0], hits[1], rest, share), 0.0) if chosen else 0.0


def quantiles() -> Callable[..., Any]:
    """Those of the beta distribution, from SciPy, which a phone has not."""
    try:
        from scipy.special import betaincinv
    except ImportError:
        raise MissingExtra("audit --blackbox", "server") from None
    return betaincinv


def _log_ratio(here: int, there: int, trials: int, share: float) -> float:
    """Ln of (lower limit of the first probability / upper limit of the second)."""
    if here == 0:
        return -math.inf
    betaincinv = quantiles()
    low = float(betaincinv(here, trials - here + 1, share))
    high = 1.0 if there == trials else float(betaincinv(there + 1, trials - there, 1 - share))
    return math.log(low / high)
