"""What several reports cost together: a local ε₀, crowds and a number of reports come in, one ε at one δ leaves.

Without a crowd nothing beats the sum. In crowds of n the clone bound says more than an ε and a δ: what a round shows
can be computed from one draw of its P or its Q (:mod:`shuffle`), so k rounds, even with inputs chosen by what the
earlier ones showed, are no easier to tell apart than k independent draws. Their privacy loss L = ln P/Q adds up, and

    ε = ln E[e^{(α−1)L}]·k/(α − 1) + ln((α − 1)/α) − ln(δ·α)/(α − 1)      for every α > 1

(Mironov 2017; the last step by Canonne, Kamath and Steinke 2020, Proposition 12). Losses are rounded up.

>>> round(shuffled_over(6.0, 1_000_000, 1), 2), round(shuffled_over(6.0, 1_000_000, 30), 1)
(0.15, 1.0)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from hushcall import checks
from hushcall.privacy.shuffle import DELTA, binomial, shuffled_epsilon

_CUT = 1e-3  # of δ: what may lie outside of the losses that are summed, charged in full
_BLOCKS = 32
_CELLS = 400


@lru_cache(maxsize=1024)
def shuffled_over(epsilon_0: float, crowd: int, reports: int, delta: float = DELTA) -> float:
    """ε of so many reports of one phone, each in a crowd of that size, at one δ for all of them; at most reports·ε₀."""
    checks.whole("reports", reports, 1)
    one = shuffled_epsilon(epsilon_0, crowd, delta / reports)
    if reports == 1:
        return one
    law = _losses(epsilon_0, crowd, one / _CELLS, _CUT * delta / reports)
    best = _least_epsilon(law, reports, delta * (1 - _CUT))
    return min(best, reports * one)


def _least_epsilon(law: Mapping[float, float], reports: int, delta: float) -> float:
    """The formula above at the best α, which a search by thirds in ln(α − 1) finds: the bound has one valley."""

    def bound(log_order: float) -> float:
        order = math.exp(log_order)  # α − 1
        top = order * max(law)
        moment = top + math.log(math.fsum(p * math.exp(order * loss - top) for loss, p in law.items()))
        return reports * moment / order + math.log(order / (order + 1)) - math.log(delta * (order + 1)) / order

    low, high = math.log(1e-2), math.log(1e5)
    while high - low > 1e-3:
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if bound(left) < bound(right) else (left, high)
    return max(0.0, bound(low))


def _losses(epsilon_0: float, crowd: int, cell: float, cut: float) -> dict[float, float]:
    """The law of L under P, rounded up to multiples of ``cell``.

    Numbers of clones are taken in blocks and charged as the smallest of their block: a clone less is never safer, since
    whoever has the fewer can toss the missing coin.
    """
    first, weights = binomial(crowd - 1, math.exp(-epsilon_0), cut)
    size = -(-len(weights) // _BLOCKS)
    law: dict[float, float] = {}
    for start in range(0, len(weights), size):
        mass = math.fsum(weights[start : start + size])
        for loss, p in _losses_given(epsilon_0, first + start, cut):
            rounded = min(epsilon_0, math.ceil(loss / cell) * cell)
            law[rounded] = law.get(rounded, 0.0) + mass * p
    return law


def _losses_given(epsilon_0: float, clones: int, cut: float) -> list[tuple[float, float]]:
    """(L, its probability under P) for so many clones: the first component is a = A + Δ."""
    w = 1 / (1 + math.exp(-epsilon_0))
    start, weights = binomial(clones, 0.5, cut)
    at = [0.0, *weights, 0.0]  # P(A = start − 1), P(A = start), …
    found = []
    for i in range(len(at) - 1):
        a, before, here = start + i, at[i], at[i + 1]
        odds = a / (clones + 1 - a) if clones + 1 > a else math.inf
        loss = epsilon_0 if math.isinf(odds) else math.log((w * odds + 1 - w) / ((1 - w) * odds + w))
        found.append((loss, w * before + (1 - w) * here))
    return found
