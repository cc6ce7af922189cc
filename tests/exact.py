"""The upper bound that belongs to ``protocol.exact.exp_below``."""

from fractions import Fraction

from hushcall.protocol.exact import exp_below


def exp_above(exponent: Fraction) -> Fraction:
    """A rational just above e^exponent."""
    return 1 / exp_below(-exponent)
