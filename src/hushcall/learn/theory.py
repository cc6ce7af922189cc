"""What to expect before any phone speaks: variances, the proposition, the tuned odds, the chance of a find."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hushcall import checks
from hushcall.learn.local_hashing import law_of
from hushcall.privacy.coins import ONE
from hushcall.privacy.exact import ceil_divide, epsilon_value, exp_below
from hushcall.report.codes import RM_3_5, ExtendedHamming
from hushcall.report.randomisers import ChannelRandomiser
from hushcall.report.succinct_histogram import SuccinctHistogram


def channel_variance(randomiser: ChannelRandomiser, users: float, holders: float) -> float:
    """Variance of n·f̂, the count that one channel's reports estimate (Ucci et al., the lemma on estimates, times n²).

    holders · (c²(p+q) − 1) + (users − holders) · 2c²θ; for the basic randomiser this is n·c² − holders.
    """
    p, q, theta = randomiser.probabilities
    c = randomiser.scale
    return holders * (c * c * (p + q) - 1) + (users - holders) * 2 * c * c * theta


def lower_variance_from(frequency: float, *, as_printed: bool = False) -> float:
    """The ε from which the extended randomiser beats the basic one, for an item of that frequency.

    t = e^ε must reach (a + √(9a² − 20a + 12)) / (2(1 − a)). The paper's proposition drops the 2: ``as_printed``.

    >>> round(lower_variance_from(0.0), 3), round(lower_variance_from(0.0, as_printed=True), 3)
    (0.549, 1.242)
    """
    a = frequency
    divisor = (1 if as_printed else 2) * (1 - a)
    return math.log((a + math.sqrt(9 * a * a - 20 * a + 12)) / divisor)


def best_keep(epsilon: float | Fraction, users: float, tau: float) -> int:
    """The tuned randomiser's p, out of 2⁶⁴, with the least variance for a number of τ holders among ``users``.

    ``epsilon`` is the exact cost of a round. The variance n·2θ/(p−q)² + τ[(p+q)/(p−q)² − 1 − 2θ/(p−q)²] has one minimum
    between 0 and R/(R+1), found by ternary search in floats: any result is equally private.
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
    most = ONE - ceil_divide(ONE, exp_below(exact) + 1) - 2
    return min(int(Fraction(low) * ONE), most)


def bit_sums(randomiser: ChannelRandomiser, users: int, holders: int, length: int) -> NDArray[np.float64]:
    """The exact law of one position's sum for a codeword bit of +1: probabilities of −n … n.

    A holder adds +1 with chance p/m and −1 with q/m; anyone else ±1 with θ/m each. The characteristic function of
    the sum is a product of powers, and a Fourier transform of length 2n+1 turns it into the law.
    """
    p, q, theta = (value / length for value in randomiser.probabilities)
    size = 2 * users + 1
    turn = np.exp(2j * np.pi * np.arange(size) / size)
    held = 1 - p - q + p * turn + q / turn
    empty = 1 - 2 * theta + theta * (turn + 1 / turn)
    law = np.fft.fft(held**holders * empty ** (users - holders)).real / size
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
    survive a tie and half do not. Bits are taken as independent, which a test compares with simulation.
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
