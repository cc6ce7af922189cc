"""One Walsh spectrum on the card: matrices and values come in, places with their sums leave.

The spectrum of 2³³ cells (whole numbers, or 512 buckets of 2²⁴ side by side) is 34 GB, and a transform reads and
writes all of it three times: ten rows of levels a pass. Kernels are compiled on first use, for the card at hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcall.errors import InvalidParameter, MissingExtra

_SOURCE = Path(__file__).with_name("kernels.cu")
LANE_BITS = 5
LEAST_BITS = 8
THREADS = 256


def cupy() -> Any:
    """CuPy with a card to work on, or an error that says which of the two is missing."""
    try:
        import cupy as found
    except ImportError:
        raise MissingExtra("the gpu engine", "gpu") from None
    try:
        found.cuda.runtime.getDevice()
    except Exception as error:  # CuPy's own classes, which differ between its versions
        raise InvalidParameter("gpu", f"be there: no card answers ({error})", "none") from None
    return found


@dataclass(frozen=True)
class Shape:
    """How one pass is cut: 2^rows runs of 2^columns cells a block, 2^values cells a thread. Chosen by measurement."""

    rows: int
    columns: int = LANE_BITS
    values: int = 5
    lanes: bool = False

    @property
    def threads(self) -> int:
        """Threads of a block: each holds 2^values cells of a tile."""
        return 1 << (self.rows + self.columns - self.values)

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block."""
        return 4 << (self.rows + self.columns)

    @property
    def levels(self) -> int:
        """Levels of the transform that one pass takes, those across lanes among them."""
        return self.rows + (LANE_BITS if self.lanes else 0)


def plan(bits: int, most: int = 10, columns: int = LANE_BITS, values: int = 5) -> tuple[Shape, ...]:
    """The passes of a transform of 2^bits cells: as few as possible with ``most`` rows each, and as even.

    >>> [shape.levels for shape in plan(33)], [shape.levels for shape in plan(24)]
    ([15, 9, 9], [15, 9])
    """
    if bits < LEAST_BITS:
        raise InvalidParameter("bits", f"be at least {LEAST_BITS}", bits)
    rows = bits - LANE_BITS
    passes = -(-rows // most)
    sizes = [rows // passes + (place < rows % passes) for place in range(passes)]
    first = Shape(sizes[0], LANE_BITS, min(values, sizes[0]), lanes=True)
    return (first, *(Shape(size, columns, min(values, size)) for size in sizes[1:]))


class Spectrum:
    """2^bits cells on the card."""

    def __init__(self, bits: int) -> None:
        if not LEAST_BITS <= bits <= 40:
            raise InvalidParameter("bits", f"lie in {LEAST_BITS}..40", bits)
        self.bits, self.cp = bits, cupy()
        free = int(self.cp.cuda.runtime.memGetInfo()[0]) + int(self.cp.get_default_memory_pool().free_bytes())
        if free < 4 << bits:
            raise InvalidParameter("gpu memory", f"have {4 << bits:,} bytes free for 2^{bits} cells", f"{free:,}")
        self.cells = self.cp.empty(1 << bits, self.cp.int32)

    def clear(self) -> None:
        """All zero again, in place: the memory is used for every bucket."""
        self.cells.data.memset_async(0, self.cells.nbytes)

    def spread(self, rows: Any, values: Any, first: int = 0, weight: int = 1) -> None:
        """Add reports by their matrices (n, b), uint64, and values, uint32, into the cells from ``first`` on.

        With ``weight`` 2^(s − b), a transform gives 2^s·C(x): reports with different b share one spectrum.
        """
        rows, values = self.cp.ascontiguousarray(self.cp.asarray(rows)), self.cp.asarray(values)
        n, b = rows.shape
        if n:
            grid = min(-(-n // (THREADS // 32)), 1 << 16)
            arguments = (self.cells[first:], rows, values, np.int64(n), np.int32(b), np.int32(weight))
            _kernel("spread")((grid,), (THREADS,), arguments)

    def transform(self, passes: tuple[Shape, ...] | None = None) -> None:
        """Replace each block of 2^(levels of the passes) cells by its transform; all cells at once by default."""
        done = 0
        for shape in plan(self.bits) if passes is None else passes:
            self.run_pass(shape, done)
            done += shape.levels

    def run_pass(self, shape: Shape, done: int) -> None:
        """The levels of one pass, after ``done`` of them."""
        grid, stride = 1 << (self.bits - shape.rows - shape.columns), np.int32(max(done, LANE_BITS))
        _pass(shape)((grid,), (shape.threads,), (self.cells, stride), shared_mem=shape.shared)

    def touch(self) -> None:
        """Read and write every cell once, to no effect but the time it takes."""
        _kernel("touch")((1 << 11,), (THREADS,), (self.cells, np.int64(self.cells.size // 4)))

    def at_least(
        self, least: NDArray[np.int64], start: int, stop: int, room: int = 1 << 20
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(places, sums), ascending, of the cells in [start, stop) of each block that reach the block's threshold.

        Blocks are what the cells divide into: one threshold each, and blocks beyond the last one are not looked at.
        """
        block = self.bits - (len(least) - 1).bit_length()
        limits = self.cp.asarray(np.minimum(least, np.iinfo(np.int32).max).astype(np.int32))
        found = self.cp.zeros(1, self.cp.uint32)
        places, sums = self.cp.empty(room, self.cp.int64), self.cp.empty(room, self.cp.int32)
        ends = (np.int32(block), np.int32(start), np.int32(stop))
        arguments = (self.cells, limits, *ends, found, places, sums, np.uint32(room))
        _kernel("at_least")((max(min(-(-(stop - start) // THREADS // 8), 64), 1), len(least)), (THREADS,), arguments)
        count = int(found.get()[0])
        if count > room:
            raise InvalidParameter("threshold", f"leave at most {room:,} places", f"{count:,}")
        where, what = places[:count].get(), sums[:count].get()
        order = np.argsort(where)
        return where[order], what[order].astype(np.int64)


@lru_cache
def _kernel(name: str) -> Any:
    return cupy().RawKernel(_SOURCE.read_text(encoding="utf-8"), name, options=("-std=c++17",))


@lru_cache
def _pass(shape: Shape) -> Any:
    sizes = (f"-DROWS={shape.rows}", f"-DCOLUMNS={shape.columns}", f"-DVALUES={shape.values}")
    options = ("-std=c++17", *sizes, *(("-DLANES",) if shape.lanes else ()))
    found = cupy().RawKernel(_SOURCE.read_text(encoding="utf-8"), "transform", options=options)
    if shape.shared > 48 * 1024:
        found.max_dynamic_shared_size_bytes = shape.shared
    return found
