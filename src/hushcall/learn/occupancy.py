"""What a histogram needs before it shows anything: how many phones show every bit, how many channels keep them apart.

U_{l,n} is the probability that n balls thrown at l bins fill every bin (Ucci et al., the distribution of non-empty
cells with b = l): the chance that n phones holding the same number between them show every bit of it, noise left aside.

>>> round(fill_probability(31, 143), 3), round(fill_probability(24, 111), 3)
(0.746, 0.804)
"""

from __future__ import annotations

import math
from decimal import Context, Decimal

from hushcall import checks

REPAIRED_BITS = 31
"""Of the code's 32 bits one may be missing, because the code repairs it: l = 31 gives the paper's list of τ."""

_CONTEXT = Context(prec=80)


def fill_probability(bins: int, balls: int) -> float:
    """U_{l,n} = Σ_j (−1)^j C(l, j) (1 − j/l)^n, right to the last bit of a float.

    The sum cancels up to l·log₁₀2 ≈ 20 digits and U itself can be as small as l!/lˡ ≈ 10⁻²⁷ (l = 64): eighty
    digits leave more than thirty. 10⁵ balls take well under a millisecond.
    """
    checks.whole("bins", bins, 1, 64)
    checks.whole("balls", balls, 0)
    if balls < bins:
        return 0.0
    total = Decimal(0)
    for empty in range(bins):
        share = _CONTEXT.divide(Decimal(bins - empty), Decimal(bins))
        term = _CONTEXT.multiply(Decimal(math.comb(bins, empty)), _CONTEXT.power(share, balls))
        total = _CONTEXT.subtract(total, term) if empty % 2 else _CONTEXT.add(total, term)
    return float(total)


def filled_bins(bins: int, balls: int) -> list[float]:
    """U_{l,n}(b) for b = 0 … l: how likely it is that exactly b bins are filled."""
    return [
        math.comb(bins, filled) * (filled / bins) ** balls * fill_probability(filled, balls) if filled else 0.0
        for filled in range(bins + 1)
    ]


def smallest_count(bins: int, probability: float) -> int:
    """The smallest n with U_{l,n} ≥ probability."""
    checks.probability("probability", probability)
    low, high = bins, 2 * bins
    while fill_probability(bins, high) < probability:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if fill_probability(bins, middle) < probability else (low, middle)
    return low


def nearest_count(bins: int, probability: float) -> int:
    """The n whose U_{l,n} lies nearest to probability: how the paper's list of τ was rounded.

    >>> [nearest_count(REPAIRED_BITS, p / 100) for p in (75, 80, 85, 90, 95)]
    [143, 151, 161, 174, 195]
    """
    above = smallest_count(bins, probability)
    below = max(above - 1, 0)
    gap = fill_probability(bins, above) - probability
    return below if probability - fill_probability(bins, below) < gap else above


def eta(epsilon: float, beta: float, rounds: int, domain: int, users: int) -> float:
    """η = (2T+1)/ε · √(ln d · ln(1/β) / n): the original protocol's threshold, as a frequency."""
    checks.positive("epsilon", epsilon)
    checks.probability("beta", beta)
    checks.whole("T", rounds, 1)
    checks.whole("domain", domain, 2)
    checks.whole("users", users, 1)
    return (2 * rounds + 1) / epsilon * math.sqrt(math.log(domain) * math.log(1 / beta) / users)


def channels_for(users: int, tau: int, rounds: int = 2, risk: float = 0.05) -> int:
    """K for a bucket: the smallest power of two at which heavy hitters hardly ever hide each other.

    A bucket of n reports has at most h = ⌊n/τ⌋ numbers with τ reports. A given pair shares a channel in all T rounds
    with probability K^−T; K is the smallest power of two with K^−T · h(h−1)/2 < risk.

    >>> channels_for(300, 143), channels_for(1000, 143), channels_for(20_000, 143)
    (8, 32, 512)
    """
    checks.whole("users", users, 0)
    checks.whole("tau", tau, 1)
    checks.whole("T", rounds, 1)
    checks.probability("risk", risk)
    most = users // tau
    pairs = most * (most - 1) // 2
    channels = 1
    while pairs and pairs >= risk * channels**rounds:
        channels *= 2
    return channels
