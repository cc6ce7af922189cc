"""A set of numbers comes in, one of them or a dummy leaves: for estimating totals. No phone runs this yet; tests do.

Pad-and-sample (LDPMiner: Qin, Yang, Yu, Khalil, Xiao and Ren 2016): pad the set with dummies to
a public length ℓ, choose one place uniformly, and report what stands there. A number that a phone holds is
chosen with probability 1/ℓ, so counts among the reports, times ℓ, are counts among the phones' sets. Sets
larger than ℓ have each number chosen with probability 1/size instead: those counts come out low, and ℓ is
chosen so that few sets are larger.

Guarantee: none needed. The choice is made before the report is randomised, so whatever a phone's whole set is
replaced by, one report costs the ε of its mechanism.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.privacy.coins import WORD_BYTES, ByteSource, read, uniform, words


@dataclass(frozen=True, slots=True)
class PadAndSample:
    """ℓ and the dummies: items outside the domain, which nobody holds and the server never lists.

    >>> from hushcall.privacy.coins import seeded
    >>> padding = PadAndSample(4, range(10_000_000, 1 << 24))
    >>> coins = seeded(b"example")
    >>> [padding.choose({2_000_000, 5_550_143}, coins) for _ in range(4)]
    [5550143, 2000000, 5550143, 16070359]
    """

    length: int
    dummies: range

    def __post_init__(self) -> None:
        checks.whole("length", self.length, 1, 1 << 16)
        if len(self.dummies) == 0:
            raise InvalidParameter("dummies", "hold at least one item", self.dummies)

    @property
    def coin_bytes(self) -> int:
        """Two words, whatever the set: which place, and which dummy if it is an empty one."""
        return 2 * WORD_BYTES

    def choose(self, held: Collection[int], coins: ByteSource) -> int:
        """The item to report; how the set is ordered, or repeats itself, makes no difference."""
        items = sorted(set(held))
        place, dummy = words(read(coins, self.coin_bytes))
        if any(item in self.dummies for item in items):
            raise InvalidParameter("held", "contain no dummy", self.dummies)
        padded = [*items, *[self.dummies[uniform(dummy, len(self.dummies))]] * (self.length - len(items))]
        return padded[uniform(place, len(padded))]

    def scale(self, estimate: float) -> float:
        """A count among reports as a count among sets: times ℓ."""
        return estimate * self.length
