"""What local hashing and the subspace mechanism share: a hash below g comes in, one randomised response leaves."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

from hushcall.privacy.coins import WORD_BYTES
from hushcall.protocol.wire import value_bytes
from hushcall.report.mechanism import Draw
from hushcall.report.randomisers import RandomisedResponse


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
