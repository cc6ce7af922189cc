"""A graphics card's double, for tests on machines without one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcall.decoding.gpu_backend import Shape
from hushcall.mechanisms.kernels import walsh


class CardOfNumpy:
    """What ``gpu_backend.Spectrum`` does, by the CPU's kernels."""

    def __init__(self, bits: int) -> None:
        self.bits, self.cells = bits, np.empty(1 << bits, np.int32)

    def clear(self) -> None:
        self.cells[:] = 0

    def free(self) -> None:
        self.cells = np.zeros(0, np.int32)

    def spread(self, rows: Any, values: Any, first: int = 0, weight: int = 1) -> None:
        scale = rows.shape[1] + weight.bit_length() - 1
        mine = self.cells[first : first + (1 << self._item_bits(rows))]
        walsh.accumulate(mine, rows.astype(np.uint32), values, scale)

    def _item_bits(self, rows: Any) -> int:
        return 26 if int(rows.max()) >> 24 else 24

    def read(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.cells[places].astype(np.int64)

    def transform(self, passes: tuple[Shape, ...]) -> None:
        for block in self.cells.reshape(-1, 1 << sum(shape.levels for shape in passes)):
            walsh.transform(block)

    def at_least(
        self, thresholds: NDArray[np.int64], start: int, stop: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        size = 1 << (self.bits - (len(thresholds) - 1).bit_length())
        found = [
            place * size + walsh.at_least(self.cells[place * size : (place + 1) * size], int(limit), start, stop)
            for place, limit in enumerate(thresholds)
        ]
        places = np.concatenate(found)
        return places, self.cells[places].astype(np.int64)
