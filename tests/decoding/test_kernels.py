"""The card's kernels, compiled for the CPU by the machine's own C++ compiler: what they compute, without a card."""

import ctypes
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hushcall.decoding
from hushcall.decoding.gpu_backend import Shape, plan

HERE = Path(__file__).parent
SOURCES = Path(hushcall.decoding.__file__).parent
COMPILER = shutil.which("g++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs g++")
Ints = NDArray[np.int32]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("card")

    @cache
    def compiled(shape: Shape) -> ctypes.CDLL:
        library = folder / f"{len(list(folder.iterdir()))}.so"
        sizes = [f"-DROWS={shape.rows}", f"-DCOLUMNS={shape.columns}", f"-DVALUES={shape.values}"]
        command = [str(COMPILER), "-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-pthread", f"-I{SOURCES}", *sizes]
        command += ["-DLANES"] * shape.lanes + [str(HERE / "card_on_cpu.cpp"), "-o", str(library)]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(library))

    return compiled


def pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def walsh(cells: Ints) -> Ints:
    """The transform by its definition, one level after the other."""
    out, span = cells.astype(np.int64), 1
    while span < len(out):
        pairs = out.reshape(-1, 2, span)
        out = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        span *= 2
    return out.astype(np.int32)


@pytest.mark.parametrize(
    ("bits", "most", "columns", "values"),
    [(8, 10, 5, 5), (11, 3, 5, 2), pytest.param(13, 4, 6, 3, marks=pytest.mark.slow)],
)
def test_the_passes_of_a_plan_make_the_transform(build: Any, bits: int, most: int, columns: int, values: int) -> None:
    """One and two rounds of registers, a last round that is not full; one and two passes, 32 and 64 columns."""
    cells = np.random.default_rng(bits).integers(-99, 99, 1 << bits).astype(np.int32)
    wanted, done = walsh(cells), 0
    for shape in plan(bits, most, columns, values):
        grid = 1 << (bits - shape.rows - shape.columns)
        build(shape).run_transform(grid, pointer(cells), max(done, 5))
        done += shape.levels
    assert done == bits
    assert np.array_equal(cells, wanted)


@pytest.mark.parametrize(("b", "weight"), [(1, 1), (3, 4), (5, 1), (6, 2), (8, 1)])
def test_spreading_reports_adds_every_character(build: Any, b: int, weight: int) -> None:
    rng, bits, n = np.random.default_rng(b), 10, 37
    rows, values = rng.integers(0, 1 << bits, (n, b)).astype(np.uint64), rng.integers(0, 1 << b, n).astype(np.uint32)
    cells, wanted = np.zeros(1 << bits, np.int32), np.zeros(1 << bits, np.int32)
    for u in range(1 << b):
        chosen = [i for i in range(b) if u >> i & 1]
        places = np.bitwise_xor.reduce(rows[:, chosen], axis=1) if chosen else np.zeros(n, np.uint64)
        np.add.at(
            wanted, places.astype(np.int64), 1 - 2 * (np.bitwise_count(values & np.uint32(u)) & 1).astype(np.int32)
        )
    library = build(Shape(3, values=3, lanes=True))
    library.run_spread(5, pointer(cells), pointer(rows), pointer(values), ctypes.c_longlong(n), b, weight)
    assert np.array_equal(cells, weight * wanted)


def test_what_reaches_its_blocks_threshold_is_found(build: Any) -> None:
    cells = np.random.default_rng(5).integers(-1000, 1000, 1 << 10).astype(np.int32)
    least = np.array([900, 2000, 500, 950, 990], np.int32)  # of eight blocks five are looked at
    found, places, sums = np.zeros(1, np.uint32), np.zeros(512, np.int64), np.zeros(512, np.int32)
    arrays = [pointer(array) for array in (found, places, sums)]
    build(Shape(3, values=3, lanes=True)).run_at_least(2, 5, pointer(cells), pointer(least), 7, 20, 100, *arrays, 512)
    wanted = [p for p in range(5 << 7) if 20 <= p % 128 < 100 and cells[p] >= least[p >> 7]]
    count = int(found[0])
    assert sorted(places[:count].tolist()) == wanted
    assert len(wanted) > 5
    assert np.array_equal(sums[:count], cells[places[:count]])
