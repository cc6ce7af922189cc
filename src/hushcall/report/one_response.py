"""What local hashing and the subspace mechanism share: a hash below g comes in, one randomised response leaves."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property

from hushcall.privacy.coins import WORD_BYTES
from hushcall.protocol.wire import value_bytes
from hushcall.report.mechanism import Draw
from hushcall.report.randomisers import RandomisedResponse


def least_bits(epsilon: Fraction | float) -> int:
    """The fewest bits that a report of this ε may have: ε itself up to 4, three quarters of it above, rounded down.

    Owners agree to no less, so servers use no less, even where fewer would find smaller counts (in the smallest buckets
    that run). At ε = 4 the truth is then told with at most 79 %, where b = 1 would tell it with 98 %.

    >>> [least_bits(epsilon) for epsilon in (0.5, 2, 4, 6, 8, 16)]
    [1, 2, 4, 4, 6, 12]
    """
    exact = Fraction(epsilon)
    return max(1, math.floor(min(exact, max(Fraction(4), Fraction(3, 4) * exact))))


class OneResponse:
    """A report that is one randomised response over ``size`` values, decided by one word of coins.

    Its ε is that of the response, whatever the hash was: the guarantee does not depend on the public seed.
    """

    epsilon: float

    @property
    def size(self) -> int:
        """How many values there are: g of local hashing, 2^b of the subspace mechanism."""
        raise NotImplementedError

    @property
    def cost(self) -> Fraction:
        """ε, exactly: the response is the only thing that depends on the item."""
        return Fraction(self.epsilon)

    @property
    def coin_bytes(self) -> int:
        """One word of coins, whatever the item."""
        return WORD_BYTES

    @property
    def body_bytes(self) -> int:
        """As many bytes as a value below ``size`` takes."""
        return value_bytes(self.size)

    @cached_property
    def response(self) -> RandomisedResponse:
        """The odds of the truth and of any other value."""
        return RandomisedResponse.of(self.epsilon, self.size)

    def draws(self) -> tuple[Draw, ...]:
        """The whole report is one draw."""
        return (Draw(word_at=0, out=slice(0, self.body_bytes)),)
