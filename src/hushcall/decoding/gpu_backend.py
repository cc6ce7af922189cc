"""Decoding on a graphics card. The card proposes candidates, and the CPU counts them again.

So a card that errs can miss a number and never list one. Processes of this machine read the reports, and decode what
has no Walsh spectrum, or would overflow one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from hushcall.decoding.task import DecodeTask, Findings, RoundTally
from hushcall.decoding.window import Decision, decisions, decode, find_among, find_in_windows
from hushcall.errors import InvalidParameter, MissingExtra
from hushcall.mechanisms.aggregator import PoolingAggregator
from hushcall.mechanisms.decision import HeavyHitter
from hushcall.mechanisms.tallies import SparseTally

if TYPE_CHECKING:
    from hushcall.decoding.backends import ProcessBackend

BLOCKS = 512
"""Buckets that share one array: with 24 bits each it has 2³³ cells, as the whole-number spectrum has."""
_TOO_MANY = 1 << 31
"""More than a cell can hold."""


@dataclass(frozen=True)
class _Waiting:
    """A bucket that was read, with the rounds that hold reports, newest first, and the decisions over them."""

    aggregator: PoolingAggregator[Any]
    parts: Sequence[DecodeTask]
    rounds: Sequence[RoundTally]
    decisions: Sequence[Decision]

    @property
    def scale(self) -> int:
        """The largest b: a cell of the transformed spectrum is 2^scale·C(x), whatever each round's b is."""
        return max((entry.pooling.mechanism.bits for entry in self.rounds), default=0)

    @property
    def fits(self) -> bool:
        """Whether the reports are still there to be spread, and their sums stay below 2³¹."""
        total = sum(entry.tally.count for entry in self.rounds) << self.scale
        return total < _TOO_MANY and all(isinstance(entry.tally, SparseTally) for entry in self.rounds)

    def threshold(self, length: int, *, hinted: bool = False) -> int:
        """What a cell has to reach for that window to list its number. No cell does where it decides nothing."""
        chosen = [decision for decision in self.decisions if decision.length == length]
        return min((decision.least(hinted=hinted) << self.scale for decision in chosen), default=_TOO_MANY)

    def inside(self, length: int) -> Iterator[RoundTally]:
        if any(decision.length == length for decision in self.decisions):
            yield from (entry for entry in self.rounds if entry.age_rounds < length)

    def findings(self, hitters: Sequence[HeavyHitter]) -> Iterator[Findings]:
        for task in self.parts:
            areas = self.aggregator.areas_of(task.part, task.parts)
            mine = (hitter for hitter in hitters if hitter.item >> self.aggregator.suffix_bits in areas)
            yield Findings.of(task, self.rounds, mine)


def prepared(parts: Sequence[DecodeTask]) -> list[Findings] | _Waiting:
    """Read a bucket for the card, or decode it here where a card is no use."""
    task, aggregator = parts[0], parts[0].bucket.aggregator.pooling
    if aggregator is None or task.numbers is not None:
        return [decode(part) for part in parts]
    tallies, scan = task.tallies(), (task.profile.windows, task.profile.tau)
    light = [replace(part, rounds=()) for part in parts]  # what was read need not travel twice
    waiting = _Waiting(aggregator, light, *decisions(tallies, *scan, task.hints))
    return waiting if waiting.fits else list(waiting.findings(find_in_windows(tallies, *scan, hints=task.hints)))


class GpuBackend:
    """One card. ``spectrum`` makes the array of a given size on it. ``readers`` feed it, by default this process."""

    width = 1  # it takes all area codes at once

    def __init__(
        self,
        spectrum: Callable[[int], Any] | None = None,
        blocks: int | None = None,
        readers: ProcessBackend | None = None,
    ) -> None:
        self._new_spectrum, self._arrays = spectrum or Spectrum, dict[int, Any]()
        self._readers, self.ahead = readers, blocks or BLOCKS
        self._new_spectrum(MIN_BITS).free()  # raises an error at once if there is no card

    def decode(self, tasks: Iterable[DecodeTask]) -> Iterator[Findings]:
        """Decode every task. Parts of a bucket that follow each other are decoded together."""
        waiting: dict[int, list[_Waiting]] = {}
        buckets = (list(parts) for _, parts in groupby(tasks, key=lambda task: task.key[:2]))
        try:
            for bucket in self._readers.each(prepared, buckets) if self._readers else map(prepared, buckets):
                if isinstance(bucket, list):
                    yield from bucket
                    continue
                bits = bucket.aggregator.mechanism.item_bits
                waiting.setdefault(bits, []).append(bucket)
                if len(waiting[bits]) == max(self.ahead >> max(bits - 24, 0), 1):
                    yield from self._decoded(bits, waiting.pop(bits))
            for bits, group in waiting.items():
                yield from self._decoded(bits, group)
        finally:
            self._free()

    def _decoded(self, bits: int, group: list[_Waiting]) -> Iterator[Findings]:
        """One transform for each length of a window, of all buckets at once. The CPU judges what they propose."""
        proposed: list[set[int]] = [set() for _ in group]
        for length in sorted({decision.length for bucket in group for decision in bucket.decisions}):
            for items, candidates in zip(proposed, self._reached(bits, group, length), strict=True):
                items.update(candidates)
        for bucket, items in zip(group, proposed, strict=True):
            profile, hints = bucket.parts[0].profile, bucket.parts[0].hints
            yield from bucket.findings(find_among(bucket.rounds, profile.windows, profile.tau, sorted(items), hints))

    def _reached(self, bits: int, group: list[_Waiting], length: int) -> Iterator[list[int]]:
        cells: Any = self._array(bits + (len(group) - 1).bit_length())
        aggregator = group[0].aggregator
        cells.clear()
        for place, bucket in enumerate(group):
            for entry in bucket.inside(length):
                weight = 1 << (bucket.scale - entry.pooling.mechanism.bits)
                tally = cast(SparseTally, entry.tally)  # as ``fits`` says
                cells.spread(tally.rows, tally.values, place << bits, weight)
        cells.transform(plan(bits))
        areas, domain = aggregator.areas, aggregator.domain
        thresholds = np.repeat([bucket.threshold(length) for bucket in group], areas)
        places, _ = cells.at_least(thresholds.astype(np.int64), domain.start, domain.stop)
        blocks = places >> bits if len(group) > 1 else np.zeros(len(places), np.int64)
        assert len(group) == 1 or areas == 1  # noqa: S101 - whole numbers fill an array by themselves
        for place, bucket in enumerate(group):
            hinted = np.array(bucket.parts[0].hints.ordered, np.int64)
            enough = cells.read(hinted + (place << bits)) >= bucket.threshold(length, hinted=True)
            yield [*(places[blocks == place] - (place << bits)).tolist(), *hinted[enough].tolist()]

    def _array(self, bits: int) -> Any:
        """The array of that size. Only the last one is kept, as two would not fit."""
        bits = max(bits, MIN_BITS)
        if bits not in self._arrays:
            self._free()
            self._arrays[bits] = self._new_spectrum(bits)
        return self._arrays[bits]

    def _free(self) -> None:
        for array in self._arrays.values():
            array.free()
        self._arrays.clear()

    def close(self) -> None:
        if self._readers is not None:
            self._readers.close()


_SOURCE = Path(__file__).with_name("kernels.cu")
LANE_BITS = 5
MIN_BITS = 8
THREADS = 256


def cupy() -> Any:
    """CuPy with a card to work on, or an error that says which of the two is missing."""
    try:
        import cupy as package
    except ImportError:
        raise MissingExtra("the gpu engine", "gpu") from None
    try:
        package.cuda.runtime.getDevice()
    except Exception as error:  # CuPy's own classes, which differ between its versions
        raise InvalidParameter("gpu", f"be there: no card answers ({error})", "none") from None
    return package


@dataclass(frozen=True)
class Shape:
    """How one pass is cut: 2^rows runs of 2^columns cells a block, 2^values cells a thread. Chosen by measurement."""

    rows: int
    columns: int = LANE_BITS
    values: int = 5
    lanes: bool = False

    @property
    def threads(self) -> int:
        return 1 << (self.rows + self.columns - self.values)

    @property
    def shared_bytes(self) -> int:
        return 4 << (self.rows + self.columns)

    @property
    def levels(self) -> int:
        return self.rows + (LANE_BITS if self.lanes else 0)


def plan(bits: int, max_rows: int = 10, columns: int = LANE_BITS, values: int = 5) -> tuple[Shape, ...]:
    """The passes of a transform of 2^bits cells: as few as possible, and as even.

    >>> [shape.levels for shape in plan(33)], [shape.levels for shape in plan(24)]
    ([15, 9, 9], [15, 9])
    """
    if bits < MIN_BITS:
        raise InvalidParameter("bits", f"be at least {MIN_BITS}", bits)
    rows = bits - LANE_BITS
    passes = -(-rows // max_rows)
    sizes = [rows // passes + (place < rows % passes) for place in range(passes)]
    first = Shape(sizes[0], LANE_BITS, min(values, sizes[0]), lanes=True)
    return (first, *(Shape(size, columns, min(values, size)) for size in sizes[1:]))


class Spectrum:
    """2^bits cells on the card. 2³³ take 34 GB, and a transform reads and writes all of them three times."""

    def __init__(self, bits: int) -> None:
        if not MIN_BITS <= bits <= 40:
            raise InvalidParameter("bits", f"lie in {MIN_BITS}..40", bits)
        self.bits, self.cp = bits, cupy()
        free = int(self.cp.cuda.runtime.memGetInfo()[0]) + int(self.cp.get_default_memory_pool().free_bytes())
        if free < 4 << bits:
            raise InvalidParameter("gpu memory", f"have {4 << bits:,} bytes free for 2^{bits} cells", f"{free:,}")
        self.cells = self.cp.empty(1 << bits, self.cp.int32)

    def free(self) -> None:
        self.cells = None
        self.cp.get_default_memory_pool().free_all_blocks()

    def clear(self) -> None:
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
            kernel("spread")((grid,), (THREADS,), arguments)

    def read(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(self.cells[self.cp.asarray(places)].get(), np.int64)

    def transform(self, passes: tuple[Shape, ...] | None = None) -> None:
        """Replace each block of 2^(levels of the passes) cells by its transform. By default all cells are one block."""
        done = 0
        for shape in plan(self.bits) if passes is None else passes:
            grid, stride = 1 << (self.bits - shape.rows - shape.columns), np.int32(max(done, LANE_BITS))
            _pass(shape)((grid,), (shape.threads,), (self.cells, stride), shared_mem=shape.shared_bytes)
            done += shape.levels

    def at_least(
        self, thresholds: NDArray[np.int64], start: int, stop: int, room: int = 1 << 20
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(places, sums), ascending, of the cells in [start, stop) of each block that reach the block's threshold."""
        block = self.bits - (len(thresholds) - 1).bit_length()
        limits = self.cp.asarray(np.minimum(thresholds, np.iinfo(np.int32).max).astype(np.int32))
        counter = self.cp.zeros(1, self.cp.uint32)
        places, sums = self.cp.empty(room, self.cp.int64), self.cp.empty(room, self.cp.int32)
        ends = (np.int32(block), np.int32(start), np.int32(stop))
        arguments = (self.cells, limits, *ends, counter, places, sums, np.uint32(room))
        grid = (max(min(-(-(stop - start) // THREADS // 8), 64), 1), len(thresholds))
        kernel("at_least")(grid, (THREADS,), arguments)
        count = int(counter.get()[0])
        if count > room:
            raise InvalidParameter("threshold", f"leave at most {room:,} places", f"{count:,}")
        order = np.argsort(places[:count].get())
        return places[:count].get()[order], sums[:count].get()[order].astype(np.int64)


@lru_cache
def kernel(name: str) -> Any:
    return cupy().RawKernel(_SOURCE.read_text(encoding="utf-8"), name, options=("-std=c++17",))


@lru_cache
def _pass(shape: Shape) -> Any:
    sizes = (f"-DROWS={shape.rows}", f"-DCOLUMNS={shape.columns}", f"-DVALUES={shape.values}")
    options = ("-std=c++17", *sizes, *(("-DLANES",) if shape.lanes else ()))
    kernel = cupy().RawKernel(_SOURCE.read_text(encoding="utf-8"), "transform", options=options)
    if shape.shared_bytes > 48 * 1024:
        kernel.max_dynamic_shared_size_bytes = shape.shared_bytes
    return kernel
