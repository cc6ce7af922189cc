"""The phone's half of optimal local hashing (OLH): a number comes in, a few bits of a randomised hash leave.

Guarantee: ε-LDP for every public seed. The phone hashes its item to g = round(e^ε) + 1 values with a hash that
the report's public seed selects, and sends the hash through randomised response (Wang et al. 2017, section 4.4).
"""

from __future__ import annotations

from dataclasses import dataclass

from hushcall import checks
from hushcall.privacy.coins import ByteSource, read
from hushcall.privacy.exact import epsilon_value, exp_below
from hushcall.protocol.seeds import SEED_BYTES
from hushcall.protocol.wire import Kind, pack_value, seal, unpack_value, unseal
from hushcall.report.hashing import MultiplyShift
from hushcall.report.mechanism import check_item
from hushcall.report.one_response import OneResponse


@dataclass(frozen=True)
class LocalHashing(OneResponse):
    """OLH with budget ``epsilon``. ``size`` is g; by default the one with the least variance.

    >>> LocalHashing(3.0).size
    21
    """

    epsilon: float
    size: int = 0
    item_bits: int = 24
    name = "olh"
    kind = Kind.LOCAL_HASHING

    def __post_init__(self) -> None:
        exact = epsilon_value("epsilon", self.epsilon)
        object.__setattr__(self, "epsilon", float(self.epsilon))  # equal parameters must print alike
        checks.whole("item_bits", self.item_bits, 1, 34)
        if self.size == 0:
            # round(e^ε) + 1; ε above 20 would want a g that no longer is a compression.
            object.__setattr__(self, "size", min(round(exp_below(exact)) + 1, 1 << 24))
        checks.whole("size", self.size, 2, 1 << 24)

    def respond(self, item: int, public: bytes, word: int) -> bytes:
        """The body: the randomised hash of ``item`` under the report's own hash function."""
        checks.length("public", public, SEED_BYTES)
        hashed = MultiplyShift.from_seed(public).below(item, self.size)
        return pack_value(self.response.draw(hashed, word), self.size)

    def privatise(self, item: int, public: bytes, coins: ByteSource) -> bytes:
        """The item's hash, kept with odds e^ε : 1 against each other value."""
        check_item(item, self.item_bits)
        word = int.from_bytes(read(coins, self.coin_bytes), "big")
        return seal(self.kind, self.respond(item, public, word))

    def parse(self, report: bytes) -> int:
        """The value that a report holds, or the error that says what is wrong with it."""
        return unpack_value("hash value", unseal(self.kind, self.body_bytes, report), self.size)
