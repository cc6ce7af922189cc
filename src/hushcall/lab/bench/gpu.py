"""A card's decoder, checked and timed: ``python -m hushcall.lab.bench.gpu`` prints one JSON document, in two minutes.

Needs Python, numpy and CuPy, nothing else: it runs on a rented machine from a bare copy of the sources. First small
sizes against numpy; then a million and ten million invented reports with planted numbers, every stage timed by the
card's own clock, beside a pass that only reads and writes the same memory.
"""

from __future__ import annotations

import json
import math
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcall.gpu import spectrum
from hushcall.gpu.spectrum import Shape, Spectrum, plan

AREAS, SUFFIX_BITS, START, STOP = 469, 24, 2_000_000, 10_000_000
LEVEL = 1e-3
PLANTED = 20
WAYS = {
    "four passes of 7 rows, 16 cells a thread": plan(33, 7, 5, 4),
    "four passes of 7 rows": plan(33, 7, 5, 5),
    "four passes of 7 rows, 64 columns": plan(33, 7, 6, 5),
    "three passes of 8, 10, 10 rows": (Shape(8, lanes=True), Shape(10), Shape(10)),
    "three passes of 10, 9, 9 rows, 64 columns": plan(33, 10, 6, 5),
    "three passes of 10, 9, 9 rows": plan(33, 10, 5, 5),
}

_MIX = """
__device__ unsigned long long mixed(unsigned long long z) {
    z += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}
"""
_ANSWER = """
    unsigned hashed = 0;
    for (int place = 0; place < b; ++place)
        hashed |= (unsigned)(__popcll(rows[(long long)i * b + place] & item) & 1) << place;
    if (coin < keep) y = hashed;
    else {
        unsigned other_value = (unsigned)((coin - keep) / other);
        y = other_value + (other_value >= hashed);
    }
"""


@dataclass(frozen=True)
class Case:
    """A round to invent: how many reports, of how many bits, at which ε."""

    reports: int
    bits: int
    epsilon: float
    buckets: int = 1  # 1: whole numbers of 33 bits; else suffixes, so many buckets of equal size

    @property
    def truth(self) -> float:
        """P: the odds that a phone sends its own hash."""
        return 1 / (1 + ((1 << self.bits) - 1) / math.exp(self.epsilon))

    @property
    def least(self) -> int:
        """The smallest count that noise reaches anywhere with probability below LEVEL."""
        return noise_limit(self.reports // self.buckets, 2.0**-self.bits, LEVEL / (AREAS * (STOP - START)))

    @property
    def holders(self) -> int:
        """Phones to a planted number: six standard deviations above what is needed."""
        n, q = self.reports // self.buckets, 2.0**-self.bits
        return math.ceil((self.least - n * q + 6 * math.sqrt(n * q)) / (self.truth - q))


def noise_limit(trials: int, chance: float, share: float) -> int:
    """The smallest count whose binomial tail is at most ``share``."""
    mean, spread = trials * chance, math.sqrt(trials * chance * (1 - chance))
    counts = range(int(mean), min(int(mean + 20 * spread + 80), trials) + 1)
    whole = math.lgamma(trials + 1) + trials * math.log1p(-chance)
    odds = math.log(chance) - math.log1p(-chance)
    mass = [math.exp(whole - math.lgamma(k + 1) - math.lgamma(trials - k + 1) + k * odds) for k in counts]
    tails = np.cumsum(mass[::-1])[::-1]
    return counts[0] + int(np.count_nonzero(tails > share))


def invent(cp: Any, case: Case) -> tuple[Any, Any, NDArray[np.uint64]]:
    """(matrices, values) on the card, and the planted numbers as places of the spectrum."""
    n, b, wide = case.reports, case.bits, SUFFIX_BITS + (9 if case.buckets == 1 else 0)
    random = cp.ElementwiseKernel("uint64 seed", "uint64 out", "out = mixed(mixed(seed) ^ i)", "words", preamble=_MIX)
    rows = random(cp.uint64(1), cp.empty((n, b), cp.uint64)) & cp.uint64((1 << wide) - 1)
    areas = AREAS if case.buckets == 1 else 1
    items = random(cp.uint64(2), cp.empty(n, cp.uint64)) % cp.uint64(areas) << cp.uint64(SUFFIX_BITS)
    items |= START + random(cp.uint64(3), cp.empty(n, cp.uint64)) % cp.uint64(STOP - START)
    rng, planted = np.random.default_rng(7), []
    for place in range(PLANTED):
        # A bucket's reports lie together, so its planted number is held by the first of them.
        bucket = place * (case.buckets // PLANTED)
        first = place * case.holders if case.buckets == 1 else bucket * (n // case.buckets)
        suffix, area = int(rng.integers(START, STOP)), int(rng.integers(AREAS))
        items[first : first + case.holders] = (area << SUFFIX_BITS | suffix) if case.buckets == 1 else suffix
        planted.append((area if case.buckets == 1 else bucket) << SUFFIX_BITS | suffix)
    size = 1 << b
    other = int(2**64 / (math.exp(case.epsilon) + size - 1))
    answer = cp.ElementwiseKernel(
        "raw uint64 rows, uint64 item, uint64 coin, int32 b, uint64 keep, uint64 other", "uint32 y", _ANSWER, "answer"
    )
    coins = random(cp.uint64(4), cp.empty(n, cp.uint64))
    keep = 2**64 - (size - 1) * other
    values = answer(rows, items, coins, np.int32(b), np.uint64(keep), np.uint64(other))
    return rows, values, np.array(sorted(planted), np.uint64)


def supports(rows: NDArray[np.uint64], values: NDArray[np.uint32], items: NDArray[np.uint64]) -> list[int]:
    """C(x) of a few numbers on the CPU."""
    out = []
    for item in items:
        hashed = np.zeros(len(values), np.uint32)
        for place in range(rows.shape[1]):
            hashed |= (np.bitwise_count(rows[:, place] & item).astype(np.uint32) & np.uint32(1)) << np.uint32(place)
        out.append(int(np.count_nonzero(hashed == values)))
    return out


def small_sizes(cp: Any) -> list[str]:
    """Every kernel against numpy where numpy can follow; what is wrong, in words."""
    wrong, rng = [], np.random.default_rng(1)
    for bits, passes in (
        (8, plan(8)),
        (13, plan(13)),
        (20, plan(20)),
        (24, plan(24)),
        (24, plan(24, 7, 5, 4)),
        (24, plan(24, 10, 6, 5)),
        (25, (Shape(8, lanes=True), Shape(10), Shape(2, values=2))),
        (20, plan(15)),
    ):
        one = Spectrum(bits)
        cells = rng.integers(-1000, 1000, 1 << bits).astype(np.int32)
        one.cells[:] = cp.asarray(cells)
        one.transform(passes)
        if not np.array_equal(one.cells.get(), _walsh(cells, sum(shape.levels for shape in passes))):
            wrong.append(f"transform of 2^{bits} by {[shape.rows for shape in passes]}")
    for b in (1, 4, 5, 6, 9):
        one, n, bits = Spectrum(12), 3000, 12
        rows, values = (
            rng.integers(0, 1 << bits, (n, b)).astype(np.uint64),
            rng.integers(0, 1 << b, n).astype(np.uint32),
        )
        one.clear()
        one.spread(cp.asarray(rows), cp.asarray(values))
        one.transform()
        counts = np.array(supports(rows, values, np.arange(1 << bits, dtype=np.uint64)))
        if not np.array_equal(one.cells.get() >> b, counts):
            wrong.append(f"support of 2^12 items, b = {b}")
        least = np.array([np.sort(counts)[-9]] * 3) << b
        places, sums = one.at_least(least, 100, 900)
        expected = [p for p in range(3 << 10) if 100 <= p % 1024 < 900 and counts[p] << b >= least[0]]
        if places.tolist() != expected or (sums >> b).tolist() != counts[places].tolist():
            wrong.append(f"threshold, b = {b}")
    return wrong


def _walsh(cells: NDArray[np.int32], levels: int) -> NDArray[np.int32]:
    out = cells.copy()
    for level in range(levels):
        pairs = out.reshape(-1, 2, 1 << level)
        out = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
    return out


def timed(cp: Any, work: Callable[[], Any], times: int = 3) -> float:
    """Milliseconds by the card's clock, the median of several."""
    took = []
    for _ in range(times):
        begin, end = cp.cuda.Event(), cp.cuda.Event()
        begin.record()
        work()
        end.record()
        end.synchronize()
        took.append(float(cp.cuda.get_elapsed_time(begin, end)))
    return round(sorted(took)[len(took) // 2], 2)


def ways(cp: Any, whole: Spectrum) -> dict[str, Any]:
    """Every way to cut the transform, pass by pass; and memory traffic without any work."""
    out: dict[str, Any] = {"one pass that only reads and writes": timed(cp, whole.touch)}
    for name, passes in WAYS.items():
        whole.transform(passes)  # compiled
        singles, done = [], 0
        for shape in passes:
            singles.append(timed(cp, partial(whole.run_pass, shape, done)))
            done += shape.levels
        out[name] = {"passes": singles, "all": timed(cp, partial(whole.transform, passes))}
    return out


def decode(cp: Any, whole: Spectrum, case: Case) -> dict[str, Any]:
    """One round from arrays on the card to findings, stage by stage and as a whole."""
    rows, values, planted = invent(cp, case)
    each = case.reports // case.buckets
    passes = plan(whole.bits if case.buckets == 1 else SUFFIX_BITS)
    least = np.full(AREAS, case.least << case.bits, np.int64)

    def spread() -> None:
        for bucket in range(case.buckets):
            some = slice(bucket * each, (bucket + 1) * each)
            whole.spread(rows[some], values[some], bucket << SUFFIX_BITS if case.buckets > 1 else 0)

    def everything() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        whole.clear()
        spread()
        whole.transform(passes)
        return whole.at_least(least, START, STOP)

    everything()
    walls = []
    for _ in range(5):
        cp.cuda.Device().synchronize()
        begin = time.perf_counter()
        places, sums = everything()
        walls.append(time.perf_counter() - begin)
    picking = timed(cp, lambda: whole.at_least(least, START, STOP))
    stages = {"clear": timed(cp, whole.clear), "spread": timed(cp, spread, 1)}
    stages |= {"transform": timed(cp, lambda: whole.transform(passes)), "threshold": picking}
    return {
        "reports": case.reports,
        "bits": case.bits,
        "epsilon": case.epsilon,
        "buckets": case.buckets,
        "least": case.least,
        "holders": case.holders,
        "planted": len(planted),
        "planted_found": int(np.isin(planted.astype(np.int64), places).sum()),
        "others_found": int((~np.isin(places, planted.astype(np.int64))).sum()),
        "equal_to_the_cpu": _judged(rows, values, case, places, sums),
        "stages_ms": stages,
        "seconds": [round(wall, 4) for wall in walls],
    }


def _judged(rows: Any, values: Any, case: Case, places: NDArray[np.int64], sums: NDArray[np.int64]) -> bool:
    """The first findings counted again on the CPU."""
    each = case.reports // case.buckets
    for place, total in list(zip(places.tolist(), sums.tolist(), strict=True))[:5]:
        bucket = place >> SUFFIX_BITS if case.buckets > 1 else 0
        item = place - (bucket << SUFFIX_BITS)
        some = slice(bucket * each, (bucket + 1) * each)
        if supports(rows[some].get(), values[some].get(), np.array([item], np.uint64)) != [total >> case.bits]:
            return False
    return len(places) > 0


def machine(cp: Any) -> dict[str, Any]:
    """Card, driver and versions, as they stand beside every figure."""
    runtime = cp.cuda.runtime
    name = runtime.getDeviceProperties(runtime.getDevice())["name"].decode()
    return {
        "card": name,
        "driver_cuda": runtime.driverGetVersion(),
        "runtime_cuda": runtime.runtimeGetVersion(),
        "cupy": cp.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def main() -> None:
    """All of it, one JSON document on stdout; notes on stderr."""
    cp, begin = spectrum.cupy(), time.perf_counter()

    def note(text: str) -> None:
        print(f"{time.perf_counter() - begin:6.1f} s  {text}", file=sys.stderr, flush=True)

    out: dict[str, Any] = {"machine": machine(cp)}
    note(f"small sizes on {out['machine']['card']}")
    out["wrong"] = small_sizes(cp)
    note(f"wrong: {out['wrong'] or 'nothing'}")
    cp.get_default_memory_pool().free_all_blocks()
    whole = Spectrum(33)
    whole.clear()
    out["transform_ms"] = ways(cp, whole)
    note("ways to cut the transform timed")
    out["rounds"] = []
    for case in (Case(10**6, 9, 6.0), Case(10**7, 6, 4.0), Case(469 * 21_300, 5, 3.0, 469)):
        out["rounds"].append(decode(cp, whole, case))
        cp.get_default_memory_pool().free_all_blocks()
        note(json.dumps(out["rounds"][-1]))
    out["seconds"] = round(time.perf_counter() - begin, 1)
    print(json.dumps(out, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
