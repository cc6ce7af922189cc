"""Tallies that are named arrays of sums, and the part of an aggregator that follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcall.mechanisms import tallies
from hushcall.mechanisms.aggregator import Aggregator


@dataclass(frozen=True)
class SumTally:
    """Sums over reports. The array ``sizes`` counts the reports of each group. Without groups it is ``count``."""

    made_by: bytes
    arrays: dict[str, NDArray[Any]] = field(repr=False)

    @property
    def sizes(self) -> NDArray[np.int64]:
        return self.arrays["sizes"] if "sizes" in self.arrays else self.arrays["count"]

    @property
    def count(self) -> int:
        return int(self.sizes.sum())

    def size(self, group: int) -> int:
        return int(self.sizes[group])

    def merge(self, other: SumTally) -> SumTally:
        tallies.same_maker(self.made_by, other.made_by)
        return replace(self, arrays={name: array + other.arrays[name] for name, array in self.arrays.items()})

    def to_bytes(self) -> bytes:
        return tallies.pack(self.made_by, self.arrays)


class SumAggregator(Aggregator[SumTally]):
    """An aggregator of :class:`SumTally`, for a mechanism with equal parameters."""

    mechanism: Any

    @cached_property
    def made_by(self) -> bytes:
        return tallies.fingerprint(self.mechanism)

    def from_bytes(self, data: bytes) -> SumTally:
        arrays = tallies.unpack(self.made_by, data)
        empty = self.tally([]).arrays
        tallies.shaped(arrays, **{name: array.shape for name, array in empty.items()})
        return SumTally(self.made_by, {name: arrays[name].astype(array.dtype) for name, array in empty.items()})
