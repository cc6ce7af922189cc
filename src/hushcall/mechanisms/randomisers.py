"""The randomisers of the succinct histogram's channels, and what a round of channels costs.

A channel randomiser sends the sign of one codeword bit, its opposite, or zero. Basic, extended and tuned are three
choices of its weights out of 2⁶⁴, rounded so that the true ε is at or below the one asked for.

A changed number changes two channels of a round, the one it leaves and the one it enters. The paper bounds each by ε
and charges 2ε. The exact loss is

    ln max(α·β, p/q),   α = max_z P(z|x)/P(z|0),   β = max_z P(z|0)/P(z|x).

For the extended randomiser α·β = e^2ε, as charged. For the basic one α·β = e^ε: half of what it is charged.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.protocol.exact import ceil_divide, epsilon_value, exp_below
from hushcall.protocol.randomness import ONE


@dataclass(frozen=True, slots=True)
class ChannelRandomiser:
    """A client's answer on one channel: the sign of one codeword bit, its opposite, or zero.

    ========================  =====================  =====================  ===========
    the channel                send the sign          send the opposite      send zero
    ========================  =====================  =====================  ===========
    holds the item             p = keep / 2⁶⁴         q = flip / 2⁶⁴         the rest
    is empty (x = 0)           θ = noise / 2⁶⁴ (+)    θ (−)                  the rest
    ========================  =====================  =====================  ===========

    ``scale`` is c = 1/(p − q). A symbol stands for ±c√m, so its expectation is the codeword bit (Ucci et al.).
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
        return ONE / (self.keep - self.flip)

    @property
    def probabilities(self) -> tuple[float, float, float]:
        """(p, q, θ) as floats, for formulas about accuracy. Privacy is computed from the weights."""
        return self.keep / ONE, self.flip / ONE, self.noise / ONE

    def draw(self, sign: int, word: int) -> int:
        """The symbol, −1, 0 or +1, for a codeword bit of that sign (0: empty channel) and a uniform word."""
        if sign:
            return sign if word < self.keep else -sign if word < self.keep + self.flip else 0
        return 1 if word < self.noise else -1 if word < 2 * self.noise else 0


def basic(epsilon: float | Fraction) -> ChannelRandomiser:
    """Bassily and Smith's (2015, Algorithm 1): p = e^ε/(e^ε+1), q = 1 − p, θ = ½. It never sends zero."""
    flip = ceil_divide(ONE, exp_below(epsilon_value("epsilon", epsilon)) + 1)
    return ChannelRandomiser("basic", ONE - flip, flip, ONE // 2)


def extended(epsilon: float | Fraction) -> ChannelRandomiser:
    """The paper's: p = e^ε/(e^ε+2), q = θ = 1/(e^ε+2). A round costs 2ε."""
    rare = ceil_divide(ONE, exp_below(epsilon_value("epsilon", epsilon)) + 2)
    return ChannelRandomiser("extended", ONE - 2 * rare, rare, rare)


def tuned(epsilon: float | Fraction, keep: int) -> ChannelRandomiser:
    """Ours. ``epsilon`` is the exact cost of a round, R = e^ε, whatever ``keep`` the server chooses.

    q = p/R and θ = p/(R(1−p−q) + 2p) are the least that (p/θ)·((1−2θ)/(1−p−q)) ≤ R allows.
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


class Accounting(Enum):
    PAPER = "paper"
    """2ε per round for every randomiser (Ucci et al., Theorem 1)."""
    EXACT = "exact"
    """The largest log-ratio that occurs. Deployments use it."""


_CHANNELS_CHARGED = {
    ("basic", Accounting.PAPER): 2,
    ("basic", Accounting.EXACT): 1,
    ("extended", Accounting.PAPER): 2,
    ("extended", Accounting.EXACT): 2,
}


def exact_round_ratio(keep: int, flip: int, noise: int, one: int) -> Fraction | None:
    """max(α·β, p/q) of a channel randomiser, from its weights out of ``one``. None if it is unbounded."""
    holder, empty = (keep, flip, one - keep - flip), (noise, noise, one - 2 * noise)
    pairs = [(x, z) for x, z in zip(holder, empty, strict=True) if x or z]
    if any(x == 0 or z == 0 for x, z in pairs):
        return None
    gain = max(Fraction(x, z) for x, z in pairs)
    loss = max(Fraction(z, x) for x, z in pairs)
    return max(gain * loss, Fraction(keep, flip))


def round_cost(kind: str, epsilon: Fraction, accounting: Accounting) -> Fraction:
    """ε of one round of K channels, each with the randomiser ``kind`` at ``epsilon``.

    >>> [str(round_cost("basic", Fraction(3), a)) for a in (Accounting.PAPER, Accounting.EXACT)]
    ['6', '3']
    """
    try:
        return _CHANNELS_CHARGED[kind, accounting] * epsilon
    except KeyError:
        raise InvalidParameter("randomiser", "be basic or extended", kind) from None


def channel_epsilon(kind: str, epsilon_hh: Fraction, rounds: int, accounting: Accounting) -> Fraction:
    """The ε per channel that makes ``rounds`` rounds cost ε_HH: the inverse of :func:`round_cost`."""
    checks.whole("T", rounds, 1)
    return epsilon_hh / (rounds * round_cost(kind, Fraction(1), accounting))
