"""A mechanism that is not in the library: direct encoding. One row and two classes are all that it takes.

A phone sends its suffix as it is, or any other one, by randomised response over all of them; a server counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcall.mechanisms import tallies
from hushcall.mechanisms.aggregator import Aggregator, Progress, Reported, quiet
from hushcall.mechanisms.decision import HeavyHitter, Support, judge, more_than_tau
from hushcall.mechanisms.mechanism import Draw, RandomisedResponse, check_item
from hushcall.mechanisms.profiles import Profile
from hushcall.mechanisms.registry import MechanismSpec
from hushcall.protocol.items import SUFFIX
from hushcall.protocol.numbers import NumberingPlan
from hushcall.protocol.randomness import ONE, WORD_BYTES, ByteSource, read
from hushcall.protocol.wire import Kind, pack_value, seal, unpack_value, unseal, value_bytes
from hushcall_lab.audit.examples import Example


@dataclass(frozen=True)
class Direct:
    """The phone's half."""

    epsilon: float
    item_bits: int = 24
    name = "toy"
    kind = Kind.LOCAL_HASHING  # no mechanism of the library sends it by itself

    @property
    def cost(self) -> Fraction:
        return Fraction(self.epsilon)

    @property
    def rand_size(self) -> int:
        return WORD_BYTES

    @property
    def body_bytes(self) -> int:
        return value_bytes(1 << self.item_bits)

    @cached_property
    def response(self) -> RandomisedResponse:
        return RandomisedResponse.of(self.epsilon, 1 << self.item_bits)

    def draws(self) -> tuple[Draw, ...]:
        return (Draw(word_at=0, out=slice(0, self.body_bytes)),)

    def privatise(self, item: int, public: bytes, rand: ByteSource) -> bytes:
        check_item(item, self.item_bits)
        word = int.from_bytes(read(rand, WORD_BYTES), "big")
        return seal(self.kind, pack_value(self.response.draw(item, word), 1 << self.item_bits))

    def parse(self, report: bytes) -> int:
        return unpack_value("item", unseal(self.kind, self.body_bytes, report), 1 << self.item_bits)


@dataclass(frozen=True)
class DirectTally:
    """The items, sorted."""

    made_by: bytes
    items: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.items)

    def merge(self, other: DirectTally) -> DirectTally:
        return DirectTally(self.made_by, tuple(sorted(self.items + other.items)))

    def to_bytes(self) -> bytes:
        return tallies.pack(self.made_by, {"items": np.array(self.items, dtype=np.int64)})


@dataclass(frozen=True)
class DirectAggregator(Aggregator[DirectTally]):
    """The server's half."""

    mechanism: Direct
    domain: range
    setting = "direct"

    @cached_property
    def made_by(self) -> bytes:
        return tallies.fingerprint(self.mechanism)

    def law(self, reports: int) -> Support:
        return Support(reports, self.mechanism.response.keep / ONE, self.mechanism.response.other / ONE)

    def tally(self, reports: Iterable[Reported]) -> DirectTally:
        return DirectTally(self.made_by, tuple(sorted(self.mechanism.parse(report) for _, report in reports)))

    def from_bytes(self, data: bytes) -> DirectTally:
        items: list[int] = tallies.unpack(self.made_by, data)["items"].tolist()
        return DirectTally(self.made_by, tuple(items))

    def estimate(self, tally: DirectTally, items: Sequence[int]) -> NDArray[np.float64]:
        seen = Counter(tally.items)
        return np.asarray(self.law(tally.count).estimate(np.array([float(seen[item]) for item in items])))

    def find(self, tally: DirectTally, tau: float, progress: Progress = quiet) -> list[HeavyHitter]:
        seen = {item: count for item, count in Counter(tally.items).items() if item in self.domain}
        return judge(self.law(tally.count), list(seen), np.array(list(seen.values()), dtype=np.int64), tau)

    def chance(self, users: int, tau: float) -> Callable[[int], float]:
        law = self.law(users)
        return lambda holders: law.power(holders, law.needed(tau))


def open_bucket(
    profile: Profile, plan: NumberingPlan, users: int, seed: bytes, buckets: int
) -> DirectAggregator | None:
    mechanism = Direct(profile.epsilon, SUFFIX.bits(plan))
    return DirectAggregator(mechanism, SUFFIX.domain(plan)) if more_than_tau(users, profile.tau) else None


def resume(profile: Profile, plan: NumberingPlan, mechanism: Any, buckets: int) -> DirectAggregator:
    return DirectAggregator(mechanism, SUFFIX.domain(plan))


ROW = MechanismSpec(Direct.name, Direct, __name__, SUFFIX, tolerates=False)
EXAMPLE = Example("toy", Direct(2.0, 6), 2.0)
