"""The ε of reports in an anonymity set of n.

The clone bound: Feldman, McMillan, Talwar, "Hiding Among the Clones" (FOCS 2021), Theorem 3.1. With C ~ Bin(n − 1,
e^−ε₀), A ~ Bin(C, 1/2), Δ ~ Bernoulli(e^ε₀/(e^ε₀ + 1)), the shuffled reports of neighbouring inputs are
(ε, δ)-indistinguishable whenever

    P = (A + Δ, C − A + 1 − Δ)   and   Q = (A + 1 − Δ, C − A + Δ)

are. It holds for every ε₀-DP randomiser, and each report may use another (public seeds may differ). **Conditions**: n
counts reports of honest clients. An observer sees them without who sent which, when, or from where. A client sends one
report a round. What is cut off or rounded is charged, never dropped.

Over several rounds the bound says more than an ε and a δ. What a round shows can be computed from one draw of its P or
its Q, so k rounds, even with inputs chosen by what the earlier ones showed, are no easier to tell apart than k
independent draws. Their privacy loss L = ln P/Q adds up, and

    ε = ln E[e^{(α−1)L}]·k/(α − 1) + ln((α − 1)/α) − ln(δ·α)/(α − 1)      for every α > 1

(Mironov 2017; the last step by Canonne, Kamath and Steinke 2020, Proposition 12). Losses are rounded up.

>>> round(shuffled_epsilon(6.0, 1_000_000), 3), round(shuffled_epsilon(6.0, 2), 3)
(0.149, 6.0)
>>> round(shuffled_over(6.0, 1_000_000, 1), 2), round(shuffled_over(6.0, 1_000_000, 30), 1)
(0.15, 1.0)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache

from hushcall import checks

DELTA = 1e-6
"""The chance, for one report, that the bound says nothing: what all figures of hushcall are given at."""
_CUT = 1e-4  # of δ: how much of C may lie outside of what is summed, on either side
_SLACK = 1 + 1e-9  # a sum of 10⁵ products, each from 10⁵ ratios, is off by 10⁻¹¹ at most
_PRECISION = 1e-4
_LEAST = 1e-9
_CUT_OF_LOSSES = 1e-3  # of δ: what may lie outside of the losses that are summed, charged in full
_BLOCKS = 32
_CELLS = 400


@lru_cache(maxsize=1024)
def shuffled_epsilon(epsilon_0: float, set_size: int, delta: float = DELTA) -> float:
    """The ε that the clone bound gives at δ, from above and to 10⁻⁴ of itself; never above ε₀."""
    checks.positive("epsilon", epsilon_0)
    checks.whole("anonymity set", set_size, 1)
    checks.probability("delta", delta)
    low, high = 0.0, epsilon_0
    while high - low > _PRECISION * high and high > _LEAST:
        middle = (low + high) / 2 if low else high / 4
        if clone_delta(epsilon_0, middle, set_size, delta) <= delta:
            high = middle
        else:
            low = middle
    return high


def clone_delta(epsilon_0: float, epsilon: float, set_size: int, scale: float = DELTA) -> float:
    """δ of the clone bound at ε, from above; ``scale`` says how small a δ matters.

    It is Σ max(0, P − e^ε·Q). Given C = c and w = e^ε₀/(e^ε₀ + 1), the ratio P/Q rises with the first component, and
    exceeds e^ε beyond k = ⌊(c + 1)·down/(up + down)⌋, with up = w − e^ε(1 − w) and down = e^ε·w − (1 − w). So

        δ = Σ_c P(C = c) · [up · P(Bin(c, ½) ≥ k) − down · P(Bin(c, ½) > k)].
    """
    w = 1 / (1 + math.exp(-epsilon_0))
    up, down = w - math.exp(epsilon) * (1 - w), math.exp(epsilon) * w - (1 - w)
    if up <= 0:  # ε ≥ ε₀
        return 0.0
    clones, cut = math.exp(-epsilon_0), _CUT * scale
    first, weights = binomial(set_size - 1, clones, cut)
    tails = _coin_tails(first, len(weights), down / (up + down), cut)
    total = math.fsum(p * max(0.0, up * at - down * above) for p, (at, above) in zip(weights, tails, strict=True))
    return total * _SLACK + 2 * cut


def binomial(count: int, chance: float, cut: float) -> tuple[int, list[float]]:
    """(first, P(first), P(first + 1), …) of Bin(count, chance) but for ``cut`` on either side, which the rest gets."""
    mode = min(count, int((count + 1) * chance))
    odds = chance / (1 - chance)
    above = _ratios((odds * (count - k) / (k + 1) for k in range(mode, count)), cut)
    below = _ratios((k / (odds * (count - k + 1)) for k in range(mode, 0, -1)), cut)
    weights = [*reversed(below), 1.0, *above]
    total = math.fsum(weights)
    return mode - len(below), [weight / total for weight in weights]


def _ratios(steps: Iterator[float], cut: float) -> list[float]:
    # Steps shrink from one to the next, so what follows a weight is below weight · step/(1 − step).
    weights, weight = [], 1.0
    for step in steps:
        weight *= step
        if step < 1 and weight < cut * (1 - step):
            break
        weights.append(weight)
    return weights


def _coin_tails(first: int, count: int, share: float, cut: float) -> Iterator[tuple[float, float]]:
    """For c = first, first + 1, …: P(Bin(c, ½) ≥ k) and P(Bin(c, ½) > k), where k = ⌊(c + 1)·share⌋.

    Each from the one before: with one more, P(≥ k) grows by ½·P(= k − 1); with k more, it falls by P(= k).
    """
    start, weights = binomial(first, 0.5, cut * cut)
    k = int((first + 1) * share)
    here = weights[k - start] if start <= k < start + len(weights) else 0.0
    at_least = math.fsum(weights[max(0, k - start) :])
    for c in range(first, first + count):
        yield at_least, at_least - here
        at_least += here * k / (c + 1 - k) / 2
        here *= (c + 1) / (2 * (c + 1 - k))
        if int((c + 2) * share) > k:
            at_least -= here
            here *= (c + 1 - k) / (k + 1)
            k += 1


@lru_cache(maxsize=1024)
def shuffled_over(epsilon_0: float, set_size: int, reports: int, delta: float = DELTA) -> float:
    """ε of so many reports of one client, each in an anonymity set of that size, at one δ. At most reports·ε₀."""
    checks.whole("reports", reports, 1)
    single = shuffled_epsilon(epsilon_0, set_size, delta / reports)
    if reports == 1:
        return single
    law = _losses(epsilon_0, set_size, single / _CELLS, _CUT_OF_LOSSES * delta / reports)
    best = _least_epsilon(law, reports, delta * (1 - _CUT_OF_LOSSES))
    return min(best, reports * single)


def _least_epsilon(law: Mapping[float, float], reports: int, delta: float) -> float:
    """The formula above at the best α. A search by thirds in ln(α − 1) finds it: the bound has one valley."""

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


def _losses(epsilon_0: float, set_size: int, cell: float, cut: float) -> dict[float, float]:
    """The law of L under P, rounded up to multiples of ``cell``."""
    first, weights = binomial(set_size - 1, math.exp(-epsilon_0), cut)
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
    losses = []
    for i in range(len(at) - 1):
        a, before, here = start + i, at[i], at[i + 1]
        odds = a / (clones + 1 - a) if clones + 1 > a else math.inf
        loss = epsilon_0 if math.isinf(odds) else math.log((w * odds + 1 - w) / ((1 - w) * odds + w))
        losses.append((loss, w * before + (1 - w) * here))
    return losses
