"""How many fakes it takes, by the formula alone: a bucket and its terms come in, chances and counts leave.

Nothing here asks the server's decision code: it is the other side of the comparison in :mod:`~.poisoning`. With f the
tolerance, n all reports, k of them from fakes and h from honest holders, a number is listed if

    C ≥ f + max(t, t_τ),    t = min{t : P(Bin(n − f, q) ≥ t) ≤ level/hypotheses},
                            t_τ = ⌊(n − f)·q + τ·(p − q)⌋ + 1,

where C = k + Bin(h, p) + Bin(n − k − h, q) for fakes that support it for sure, and C = Bin(h, p) + Bin(n − k − h, q)
for fakes that never do; q = 2^−b, p = e^ε/(e^ε + 2^b − 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Terms:
    """What decides in one bucket. ``level`` is that of one window."""

    epsilon: float
    bits: int
    tau: float
    level: float
    hypotheses: int
    tolerance: int

    @property
    def q(self) -> float:
        """How often an honest report supports a number that it is not about."""
        return float(2.0**-self.bits)

    @property
    def p(self) -> float:
        """How often it supports the one that it is about."""
        return 1 / (1 + ((1 << self.bits) - 1) * math.exp(-self.epsilon))

    def least(self, reports: int) -> int:
        """The smallest C that is listed."""
        left = max(reports - self.tolerance, 0)
        share = self.level / self.hypotheses
        significant = int(np.count_nonzero(stats.binom.sf(np.arange(-1, left + 1), left, self.q) > share))
        return self.tolerance + max(significant, math.floor(left * self.q + self.tau * (self.p - self.q)) + 1)

    def chance(self, honest: int, supporting: int = 0, silent: int = 0, holders: int = 0) -> float:
        """P(listed) with so many honest reports (``holders`` of them about the number) and fakes of both kinds."""
        missing = self.least(honest + supporting + silent) - supporting
        mine = np.arange(holders + 1)
        others = stats.binom.sf(missing - 1 - mine, honest - holders, self.q)
        return float(stats.binom.pmf(mine, holders, self.p) @ others)


def first(holds: Callable[[int], bool], guess: int, most: int) -> int:
    """The smallest k of 0 … most from which a condition holds that stays true once it is; ``most`` if none before.

    Looks near ``guess`` first, in steps that double, and halves what is left once they lead outside of it.
    """
    low, high, step = -1, most, 1  # it does not hold at low, and is taken to hold at high
    here = min(max(guess, 0), most - 1)
    while high - low > 1:
        if holds(here):
            high, here = here, here - step
        else:
            low, here = here, here + step
        step *= 2
        if not low < here < high:
            here = (low + high) // 2
    return high
