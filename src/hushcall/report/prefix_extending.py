"""The phone's half of the prefix extending method (PEM), a rival: a number comes in, a prefix's noisy hash leaves.

Phones are split into groups. Group i reports the first ℓᵢ bits of its item by optimal local hashing; the
server extends the best prefixes from one group to the next (Wang, Li and Jha 2019, "Locally differentially
private heavy hitter identification"; arXiv 2017). The paper's own advice is followed: spend the whole ε on
one report instead of splitting it, and use as few groups, with steps as long, as the server's computing
permits.

Guarantee: ε-LDP for every public seed, which is all that decides the group: it is :class:`LocalHashing` of a
prefix.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from hushcall import checks
from hushcall.privacy.coins import ByteSource, read
from hushcall.protocol.wire import Kind, seal, unpack_value, unseal
from hushcall.report.local_hashing import LocalHashing
from hushcall.report.mechanism import Draw, check_item
from hushcall.report.splitting import PrefixSplit, share

GROUP_PIECE = 4
"""Which piece of the public seed decides the group; the four before select the hash function."""
MOST_START = 20
MOST_STEP = 12


@dataclass(frozen=True)
class PrefixExtending(PrefixSplit):
    """PEM with budget ``epsilon``; prefixes grow from ``start`` bits by at most ``step``. ``size`` is g, as in OLH.

    Where ``start`` covers all bits there is one group, and PEM is OLH over the whole domain: the best it can
    be.

    >>> PrefixExtending(4.0).lengths, PrefixExtending(4.0, start=8, step=4, item_bits=16).lengths
    ((16, 24), (8, 12, 16))
    """

    epsilon: float
    start: int = 16
    step: int = 8
    item_bits: int = 24
    size: int = 0
    name = "pem"
    kind = Kind.PREFIX_EXTENDING
    needs = "is told how many numbers to look for (k)"

    def __post_init__(self) -> None:
        checks.whole("start", self.start, 1, MOST_START)
        checks.whole("step", self.step, 1, MOST_STEP)
        # The oracle checks ε, item_bits and g, and knows the best g.
        object.__setattr__(self, "size", self.oracle.size)

    @property
    def cost(self) -> Fraction:
        """ε, exactly: one randomised response."""
        return self.oracle.cost

    @cached_property
    def oracle(self) -> LocalHashing:
        """The frequency oracle that every group uses."""
        return LocalHashing(self.epsilon, self.size, self.item_bits)

    @property
    def coin_bytes(self) -> int:
        """One word of eight bytes, whatever the item."""
        return self.oracle.coin_bytes

    @property
    def body_bytes(self) -> int:
        """One value below g, in as many bytes as g − 1 takes."""
        return self.oracle.body_bytes

    def draws(self) -> tuple[Draw, ...]:
        """The whole report is one draw."""
        return self.oracle.draws()

    def group(self, public: bytes) -> int:
        """The group of a report with that public seed."""
        return share(public, GROUP_PIECE, self.groups)

    def privatise(self, item: int, public: bytes, coins: ByteSource) -> bytes:
        """The hash of the item's prefix, of the length that the public seed's group has."""
        check_item(item, self.item_bits)
        word = int.from_bytes(read(coins, self.coin_bytes), "big")
        return seal(self.kind, self.oracle.respond(self.prefix(item, self.group(public)), public, word))

    def parse(self, report: bytes) -> int:
        """The value that a report holds, strictly."""
        return unpack_value("hash value", unseal(self.kind, self.body_bytes, report), self.size)
