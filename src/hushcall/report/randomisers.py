"""The odds: every coin that a phone tosses, as whole numbers out of 2⁶⁴.

Weights are rounded so that the true ε is at or below the one asked for, never above. ``privacy.audit`` finds
them again by probing the running code, and compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.privacy.coins import ONE
from hushcall.privacy.exact import ceil_divide, epsilon_value, exp_below


@dataclass(frozen=True, slots=True)
class ChannelRandomiser:
    """What a phone sends on one channel: the sign of one codeword bit, its opposite, or zero.

    ========================  =====================  =====================  ===========
    the channel                send the sign          send the opposite      send zero
    ========================  =====================  =====================  ===========
    holds the phone's number   p = keep / 2⁶⁴         q = flip / 2⁶⁴         the rest
    is empty (x = 0)           θ = noise / 2⁶⁴ (+)    θ (−)                  the rest
    ========================  =====================  =====================  ===========

    ``scale`` is c = 1/(p − q): a symbol stands for ±c√m, which makes its expectation the codeword bit itself
    (Ucci et al., the lemma on the extended randomiser). Basic, extended and tuned are three choices of the weights.
    """

    kind: str
    keep: int
    flip: int
    noise: int

    def __post_init__(self) -> None:
        checks.whole("keep", self.keep, 1, ONE)
        checks.whole("flip", self.flip, 1, min(self.keep - 1, ONE - self.keep))
        checks.whole("noise", self.noise, 1, ONE // 2)

    @property
    def scale(self) -> float:
        """C = 1/(p − q)."""
        return ONE / (self.keep - self.flip)

    @property
    def probabilities(self) -> tuple[float, float, float]:
        """(p, q, θ) as floats, for formulas about accuracy; privacy is computed from the weights."""
        return self.keep / ONE, self.flip / ONE, self.noise / ONE

    def draw(self, sign: int, word: int) -> int:
        """The symbol, −1, 0 or +1, for a codeword bit of that sign (0: empty channel) and a uniform word."""
        if sign:
            return sign if word < self.keep else -sign if word < self.keep + self.flip else 0
        return 1 if word < self.noise else -1 if word < 2 * self.noise else 0


def basic(epsilon: float | Fraction) -> ChannelRandomiser:
    """Bassily and Smith's (2015, Algorithm 1): p = e^ε/(e^ε+1), q = 1 − p, θ = ½; never zero.

    ε per channel under the paper's accounting. The exact cost of a *round* is also ε, not 2ε: of the two channels
    that a changed number touches, one gains at most 2e^ε/(e^ε+1) and the other (e^ε+1)/2.
    """
    flip = ceil_divide(ONE, exp_below(epsilon_value("epsilon", epsilon)) + 1)
    return ChannelRandomiser("basic", ONE - flip, flip, ONE // 2)


def extended(epsilon: float | Fraction) -> ChannelRandomiser:
    """The paper's (its extended randomiser): p = e^ε/(e^ε+2), q = θ = 1/(e^ε+2). A round costs 2ε."""
    rare = ceil_divide(ONE, exp_below(epsilon_value("epsilon", epsilon)) + 2)
    return ChannelRandomiser("extended", ONE - 2 * rare, rare, rare)


def tuned(epsilon: float | Fraction, keep: int) -> ChannelRandomiser:
    """Ours: ``epsilon`` is the exact cost of a whole round, R = e^ε; ``keep`` is the server's to choose.

    q = p/R and θ = p/(R(1−p−q) + 2p) are the least that the exact constraint allows:
    (p/θ)·((1−2θ)/(1−p−q)) ≤ R. Whatever ``keep`` a server sends, the cost stays at most ε.
    """
    checks.whole("keep", keep, 1, ONE)
    ratio = exp_below(epsilon_value("epsilon", epsilon))
    flip = ceil_divide(keep, ratio)
    zero = ONE - keep - flip
    if zero < 0:
        raise InvalidParameter("keep", "leave room for flip: keep·(1 + e^−ε) ≤ 2⁶⁴", keep)
    noise = ceil_divide(keep * ONE, ratio * zero + 2 * keep)
    # Where zero has next to no room, rounding θ up makes an empty channel's zero too rare: (zero/empty)·(θ/q) ≤ R
    # fails.
    if zero * noise > ratio * flip * (ONE - 2 * noise):
        raise InvalidParameter("keep", "leave more room for zero", keep)
    return ChannelRandomiser("tuned", keep, flip, noise)


@dataclass(frozen=True, slots=True)
class RandomisedResponse:
    """One of ``size`` values: the truth with e^ε times the odds of any other (Warner 1965, generalised).

    ``other`` is the weight of each other value, ⌈2⁶⁴/(e^ε + g − 1)⌉; the truth gets what is left. One word decides,
    and the other values are exactly equally likely.

    >>> RandomisedResponse.of(3.0, 21).draw(7, 0)
    7
    """

    size: int
    other: int

    def __post_init__(self) -> None:
        checks.whole("size", self.size, 2, 1 << 31)
        checks.whole("other", self.other, 1, ONE // self.size)

    @classmethod
    def of(cls, epsilon: float | Fraction, size: int) -> RandomisedResponse:
        """The response that costs at most ``epsilon``."""
        checks.whole("size", size, 2, 1 << 31)
        return cls(size, ceil_divide(ONE, exp_below(epsilon_value("epsilon", epsilon)) + size - 1))

    @property
    def keep(self) -> int:
        """The weight of the truth."""
        return ONE - (self.size - 1) * self.other

    def draw(self, value: int, word: int) -> int:
        """``value`` or, from the rest of the range, one of the others."""
        if word < self.keep:
            return value
        index = (word - self.keep) // self.other
        return index + (index >= value)
