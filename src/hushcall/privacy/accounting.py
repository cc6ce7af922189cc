"""What a report costs: the paper's accounting and the exact one, side by side.

Changing a phone's number changes two channels of a round, the one it leaves and the one it enters (or a single
one, where both hash to it). The paper bounds each channel by ε and charges 2ε. The exact loss is

    ln max(α·β, p/q),   α = max_z P(z|x)/P(z|0),   β = max_z P(z|0)/P(z|x),

because one output must be likely for both channels at once. For the extended randomiser α·β = e^2ε: the paper's charge
is exact. For the basic one α·β = [2e^ε/(e^ε+1)]·[(e^ε+1)/2] = e^ε: a round costs ε, half of what it is charged.
"""

from __future__ import annotations

from enum import Enum
from fractions import Fraction

from hushcall import checks
from hushcall.errors import InvalidParameter


class Accounting(Enum):
    """How the cost of a round is reckoned."""

    PAPER = "paper"
    """2ε per round for every randomiser (Ucci et al., Theorem 1)."""
    EXACT = "exact"
    """The largest log-ratio that really occurs. What a deployment uses."""


_CHANNELS_CHARGED = {
    ("basic", Accounting.PAPER): 2,
    ("basic", Accounting.EXACT): 1,
    ("extended", Accounting.PAPER): 2,
    ("extended", Accounting.EXACT): 2,
}


def exact_round_ratio(keep: int, flip: int, noise: int, one: int) -> Fraction | None:
    """max(α·β, p/q) of a channel randomiser, from its weights out of ``one``; None where it is unbounded."""
    held, empty = (keep, flip, one - keep - flip), (noise, noise, one - 2 * noise)
    pairs = [(x, z) for x, z in zip(held, empty, strict=True) if x or z]
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


def paper_charge(epsilon_hh: float, epsilon_olh: float) -> float:
    """ε = ε_HH + ε_OLH: what the paper charges for a report of the modified protocol, whatever the randomiser."""
    return epsilon_hh + epsilon_olh


def over_rounds(epsilon: float, reports: int) -> float:
    """Per-user cost of a number of reports: basic composition, no better in the local model without more trust."""
    checks.positive("epsilon", epsilon)
    checks.whole("reports", reports, 0)
    return epsilon * reports
