"""What a histogram will find, computed before any report: channels, the tuned odds, the chance of a find.

>>> round(fill_probability(31, 143), 3), round(fill_probability(24, 111), 3)
(0.746, 0.804)
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hushcall import checks
from hushcall.mechanisms.decision import law_of
from hushcall.mechanisms.randomisers import ChannelRandomiser
from hushcall.mechanisms.succinct_histogram.client import SuccinctHistogram
from hushcall.mechanisms.succinct_histogram.codes import RM_3_5, ExtendedHamming
from hushcall.protocol.exact import ceil_divide, epsilon_value, exp_below
from hushcall.protocol.randomness import ONE

PAPER_BINS = 31
"""The l of U that gives the paper's list of τ. The paper names none, and its code has 32 bits.

That the code repairs a bit does not explain it: 143 reports fill at least 31 of 32 bins with probability 0.958.
"""

COLLISION_RISK = 0.05
_CONTEXT = Context(prec=80)


def fill_probability(bins: int, balls: int) -> float:
    """U_{l,n} = Σ_j (−1)^j C(l, j) (1 − j/l)^n: the probability that n balls thrown at l bins fill every bin.

    That is the chance that n clients with the same number between them show every bit of it, without noise. The sum
    cancels up to l·log₁₀2 ≈ 20 digits and U can be as small as 10⁻²⁷ (l = 64), so it is computed with eighty digits.
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


def channels_for(users: int, tau: int, rounds: int = 2) -> int:
    """K: the smallest power of two at which heavy hitters hardly ever hide each other.

    A bucket of n reports has at most h = ⌊n/τ⌋ heavy hitters, and a pair shares a channel in all T rounds with
    probability K^−T. K keeps K^−T · h(h−1)/2 below 5 %.

    >>> channels_for(300, 143), channels_for(1000, 143), channels_for(20_000, 143)
    (8, 32, 512)
    """
    checks.whole("users", users, 0)
    checks.whole("tau", tau, 1)
    checks.whole("T", rounds, 1)
    hitters = users // tau
    pairs = hitters * (hitters - 1) // 2
    channels = 1
    while pairs and pairs >= COLLISION_RISK * channels**rounds:
        channels *= 2
    return channels


def best_keep(epsilon: float | Fraction, users: float, tau: float) -> int:
    """The tuned randomiser's p, out of 2⁶⁴, with the least variance for a number of τ holders among ``users``.

    ``epsilon`` is the exact cost of a round. The variance n·2θ/(p−q)² + τ[(p+q)/(p−q)² − 1 − 2θ/(p−q)²] has one minimum
    between 0 and R/(R+1). A ternary search in floats finds it: any result is equally private.
    """
    exact = epsilon_value("epsilon", epsilon)
    checks.positive("users", users)
    ratio = float(exp_below(exact))

    def variance(p: float) -> float:
        q = p / ratio
        theta = p / (ratio * (1 - p - q) + 2 * p)
        noise = 2 * theta / (p - q) ** 2
        return users * noise + tau * ((p + q) / (p - q) ** 2 - 1 - noise)

    low, high = 1e-9, ratio / (ratio + 1)
    for _ in range(200):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if variance(left) < variance(right) else (left, high)
    # The top of the range would leave no room once flip is rounded up.
    highest = ONE - ceil_divide(ONE, exp_below(exact) + 1) - 2
    return min(int(Fraction(low) * ONE), highest)


def bit_sums(randomiser: ChannelRandomiser, users: int, holders: int, length: int) -> NDArray[np.float64]:
    """The exact law of one position's sum for a codeword bit of +1: probabilities of −n … n."""
    p, q, theta = (value / length for value in randomiser.probabilities)
    size = 2 * users + 1
    turn = np.exp(2j * np.pi * np.arange(size) / size)
    holder = 1 - p - q + p * turn + q / turn
    empty = 1 - 2 * theta + theta * (turn + 1 / turn)
    law = np.fft.fft(holder**holders * empty ** (users - holders)).real / size
    return np.asarray(np.maximum(np.roll(law, users), 0.0))


def reconstruction_probability(
    randomiser: ChannelRandomiser,
    users: int,
    holders: int,
    code: ExtendedHamming = RM_3_5,
    item_bits: int = 24,
) -> float:
    """The chance that hard decoding of one channel spells out a number with that many holders.

    At most one of the bits that the decoder reads may be wrong. A sum of 0 counts as a plus, so half of the bits
    survive a tie and half do not. Bits are treated as independent, which a test compares with simulation.
    """
    law = bit_sums(randomiser, users, holders, code.length)
    tie, plus = float(law[users]), float(law[users + 1 :].sum())
    half = (code.length - code.message_bits + item_bits) // 2
    right_one, right_zero = min(plus + tie, 1.0), min(plus, 1.0)
    all_right = right_one**half * right_zero**half
    one_wrong = half * (1 - right_one) * right_one ** (half - 1) * right_zero**half
    one_wrong += half * (1 - right_zero) * right_zero ** (half - 1) * right_one**half
    return min(all_right + one_wrong, 1.0)


def found_probability(mechanism: SuccinctHistogram, users: int, holders: int, tau: float, tolerance: int = 0) -> float:
    """The chance that the paper's protocol lists a number: spelled out in one of T rounds, and f̂ above τ."""
    once = reconstruction_probability(mechanism.randomiser, users, holders, mechanism.code, mechanism.item_bits)
    spelled = 1 - (1 - once) ** mechanism.rounds
    law = law_of(mechanism.oracle, users)
    return spelled * law.power(holders, tolerance + law.without(tolerance).needed(tau))
