"""What a crowd buys: the ε of one report among n that nobody can tell apart. Local ε₀ and n come in, (ε, δ) leaves.

The clone bound: Feldman, McMillan, Talwar, "Hiding Among the Clones" (FOCS 2021), Theorem 3.1, evaluated as it stands
instead of through its closed form. With C ~ Bin(n − 1, e^−ε₀), A ~ Bin(C, 1/2), Δ ~ Bernoulli(e^ε₀/(e^ε₀ + 1)), the
shuffled reports of neighbouring inputs are (ε, δ)-indistinguishable whenever

    P = (A + Δ, C − A + 1 − Δ)   and   Q = (A + 1 − Δ, C − A + Δ)

are. It holds for every ε₀-DP randomiser; each report may use another, chosen by what came before (public seeds may
differ). **Conditions**: n counts reports of honest phones in one crowd; the one who looks sees them without who sent
which, when, or from where; a phone sends one report a round. What is cut off or rounded is charged, never dropped.

>>> round(shuffled_epsilon(6.0, 1_000_000), 3), round(shuffled_epsilon(6.0, 2), 3)
(0.149, 6.0)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

from hushcall import checks

DELTA = 1e-6
"""The chance, for one report, that the bound says nothing: what all figures of hushcall are given at."""
_CUT = 1e-4  # of δ: how much of C may lie outside of what is summed, on either side
_SLACK = 1 + 1e-9  # a sum of 10⁵ products, each from 10⁵ ratios, is off by 10⁻¹¹ at most
_PRECISION = 1e-4
_LEAST = 1e-9


@lru_cache(maxsize=1024)
def shuffled_epsilon(epsilon_0: float, crowd: int, delta: float = DELTA) -> float:
    """The ε that the clone bound gives at δ, from above and to 10⁻⁴ of itself; never above ε₀."""
    checks.positive("epsilon", epsilon_0)
    checks.whole("crowd", crowd, 1)
    checks.probability("delta", delta)
    low, high = 0.0, epsilon_0
    while high - low > _PRECISION * high and high > _LEAST:
        middle = (low + high) / 2 if low else high / 4
        if clone_delta(epsilon_0, middle, crowd, delta) <= delta:
            high = middle
        else:
            low = middle
    return high


def clone_delta(epsilon_0: float, epsilon: float, crowd: int, scale: float = DELTA) -> float:
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
    first, weights = binomial(crowd - 1, clones, cut)
    tails = _coin_tails(first, len(weights), down / (up + down), cut)
    total = math.fsum(p * max(0.0, up * at - down * above) for p, (at, above) in zip(weights, tails, strict=True))
    return total * _SLACK + 2 * cut


def binomial(count: int, chance: float, cut: float) -> tuple[int, list[float]]:
    """(first, P(first), P(first + 1), …) of Bin(count, chance) but for ``cut`` on either side.

    Made by ratios from the most likely value and then divided by their sum: what was cut is given to the rest.
    """
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

    Each from the one before: with a coin more, P(≥ k) grows by ½·P(= k − 1); with k more, it falls by P(= k).
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
