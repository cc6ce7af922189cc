"""The client side of the prefix extending method (PEM).

Group i reports the first ℓᵢ bits of its item by optimal local hashing, and the server extends the best prefixes from
one group to the next (Wang, Li and Jha 2019). As the paper advises, the whole ε is spent on one report, and groups are
few, with long steps.

Guarantee: ε-LDP for every public seed, which alone decides the group: it is :class:`LocalHashing` of a prefix.
"""

from dataclasses import dataclass
from functools import cached_property

from hushcall.mechanisms.local_hashing.client import LocalHashing
from hushcall.mechanisms.mechanism import OneResponse
from hushcall.protocol.wire import Kind
from hushcall_lab.rivals.splitting import PrefixSplit, share

GROUP_PIECE = 4
"""The piece of the public seed that decides the group. The four before select the hash function."""


@dataclass(frozen=True)
class PrefixExtending(PrefixSplit, OneResponse):
    """PEM with budget ``epsilon``. Prefixes grow from ``start`` bits by at most ``step``. ``size`` is g, as in OLH.

    Where ``start`` covers all bits there is one group, and PEM is OLH over the whole domain, its best case.

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

    def __post_init__(self) -> None:
        self.check_split()
        # The oracle checks ε, item_bits and g, and knows the best g.
        object.__setattr__(self, "size", self.oracle.size)

    @cached_property
    def oracle(self) -> LocalHashing:
        return LocalHashing(self.epsilon, self.size, self.item_bits)

    def group(self, public: bytes) -> int:
        return share(public, GROUP_PIECE, self.groups)

    def hashed(self, item: int, public: bytes) -> int:
        return self.oracle.hashed(self.prefix(item, self.group(public)), public)
