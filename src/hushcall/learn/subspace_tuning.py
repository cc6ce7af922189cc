"""The server, before a round opens: users and budget come in, the b that finds the smallest numbers leaves.

OLH's g = e^ε + 1 minimises the variance of numbers that nobody holds. What matters here is the smallest count that is
*found* with 90 % power at the error level asked for: at large ε the holders' own noise c·p(1−p) counts too, and a
larger g pays.
"""

from __future__ import annotations

import math
from functools import lru_cache

from hushcall import checks
from hushcall.learn.decision import Support
from hushcall.learn.gate import POWER
from hushcall.privacy.coins import ONE
from hushcall.report.subspace import MOST_BITS, Subspace


def law_of(mechanism: Subspace, reports: int) -> Support:
    """Holders support their number with the odds of the truth, others with exactly 2^−b."""
    return Support(reports, mechanism.response.keep / ONE, 1 / mechanism.size)


def detectable(
    users: int,
    epsilon: float,
    bits: int,
    hypotheses: int,
    level: float = 1e-3,
    power: float = POWER,
    tolerance: int = 0,
) -> int:
    """The smallest number of holders found with that power; users + 1 if even all of them would not do."""
    law = law_of(Subspace(epsilon, bits), users)
    return law.detectable(tolerance + law.without(tolerance).threshold(level, hypotheses), power)


@lru_cache(maxsize=4096)
def best_bits(
    users: int, epsilon: float, hypotheses: int, level: float = 1e-3, power: float = POWER, tolerance: int = 0
) -> int:
    """The b with the smallest detectable count; among equals the smallest, since it is the cheapest to send.

    The count falls and then rises with b, so a walk downhill from log₂(e^ε) ends at the best. Exact tails throughout.
    """
    checks.whole("users", users, 1)
    checks.positive("epsilon", epsilon)

    def count(bits: int) -> int:
        return detectable(users, epsilon, bits, hypotheses, level, power, tolerance)

    best = min(max(math.ceil(epsilon / math.log(2)), 1), MOST_BITS)
    least = count(best)
    for step in (1, -1):
        # A plateau two wide must not stop the walk: counts are whole numbers and often tie.
        bits, stalled = best + step, 0
        while 1 <= bits <= MOST_BITS and stalled < 2:
            here = count(bits)
            if here < least or (here == least and bits < best):
                best, least, stalled = bits, here, 0
            else:
                stalled += 1
            bits += step
    return best


@lru_cache(maxsize=4096)
def bits_for_threshold(users: int, epsilon: float, hypotheses: int, level: float, tau: int, tolerance: int = 0) -> int:
    """The b for a round that lists numbers above τ.

    Where every number above τ is significant anyway, what decides is how well f̂ tells which side of τ a number is on:
    then the b with the least variance at τ, among those that still detect τ. Elsewhere :func:`best_bits`.
    """
    best = best_bits(users, epsilon, hypotheses, level, tolerance=tolerance)

    def finds(bits: int) -> bool:
        return detectable(users, epsilon, bits, hypotheses, level, tolerance=tolerance) <= tau

    if tau >= users or not finds(best):
        return best

    def variance(bits: int) -> float:
        return law_of(Subspace(epsilon, bits), users).variance(tau)

    for step in (1, -1):
        bits = best + step
        while 1 <= bits <= MOST_BITS and variance(bits) < variance(best) and finds(bits):
            best, bits = bits, bits + step
    return best


def bits_for(users: int, epsilon: float, hypotheses: int, level: float = 1e-3, tau: int = 0, tolerance: int = 0) -> int:
    """The b for the next size up of a table with steps of 10 %: what rounds use, and what is cached.

    b hardly changes over 10 % of users, and a round of 400 buckets then needs a few dozen calculations, not 400.
    """
    return bits_for_threshold(_table_size(users), epsilon, hypotheses, level, tau, tolerance)


def _table_size(users: int) -> int:
    """The next size up in steps of 10 %."""
    checks.whole("users", users, 1)
    return max(math.ceil(1.1 ** math.ceil(math.log(users) / math.log(1.1) - 1e-9)), users)
