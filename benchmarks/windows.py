"""What a week's evidence costs: ``python -m benchmarks.windows`` decides the same round daily and over windows.

23 188 reports a day in 400 area codes, seven days of sealed tallies, by the server's own code (``learn.window.scan``).
Promised: the scan over 1, 2, 4 and 7 rounds takes at most four times what the daily decision takes in the same run, and
all of it stays below 1.2 GB. The two take turns, bucket by bucket, so that a busy machine is busy for both. Each bucket
has one spammer, whom a day does not show and a week does.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hushcall.learn.bucket_setup import open_bucket
from hushcall.learn.subspace import SparseTally
from hushcall.learn.window import Sealed, scan
from hushcall.numbers import NANP
from hushcall.profiles import DEFAULT, WINDOWS, Profile
from hushcall.protocol.seeds import SEED_BYTES

REPORTS, BUCKETS, DAYS = 23_188, 400, 7
RATIO, GIGABYTES = 4.0, 1.2
SPAM = 5_550_143
TOLERANCE = 5


@dataclass(frozen=True)
class Cost:
    """Seconds of both decisions over all buckets, what they found, and the most memory that the process ever had."""

    buckets: int
    daily: float
    windows: float
    found_daily: int
    found_in_windows: int
    gigabytes: float

    @property
    def ratio(self) -> float:
        """What is promised to be at most four."""
        return self.windows / self.daily

    @property
    def kept(self) -> bool:
        """Whether the promise was."""
        return self.ratio <= RATIO and self.gigabytes < GIGABYTES


def a_day(profile: Profile, number: int, users: int, buckets: int, world: np.random.Generator) -> Sealed:
    """A bucket's sealed tally: a third of its phones hold the spammer's number, the others numbers of nobody else."""
    learner: Any = open_bucket(profile, NANP, users, bytes(SEED_BYTES), buckets)
    mechanism, holders = learner.mechanism, users // 3
    rows = world.integers(0, 1 << mechanism.item_bits, (users, mechanism.bits), dtype=np.uint64)
    values = world.integers(0, mechanism.size, users, dtype=np.uint32)
    parities = np.bitwise_count(rows[:holders] & np.uint64(SPAM)).astype(np.uint32) & np.uint32(1)
    truth = (parities << np.arange(mechanism.bits, dtype=np.uint32)).sum(axis=1, dtype=np.uint32)
    honest = world.random(holders) < learner.law(users).p
    values[:holders] = np.where(honest, truth, values[:holders])
    return Sealed(number, mechanism, SparseTally(learner.made_by, rows, values).to_bytes())


def timed(work: Callable[[], list[Any]]) -> tuple[float, int]:
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, len(found)


def measure(buckets: int = BUCKETS, seed: int = 1) -> Cost:
    """Decide them all."""
    world = np.random.default_rng(seed)
    weekly = replace(DEFAULT, windows=WINDOWS, tolerance=TOLERANCE)
    daily = replace(weekly, windows=(1,))
    totals = np.zeros((2, 2))
    for place in range(-1, buckets):
        rounds = [
            a_day(weekly, day, REPORTS // BUCKETS + int(world.integers(-15, 16)), BUCKETS, world)
            for day in range(1, DAYS + 1)
        ]

        def decide(profile: Profile, given: list[Sealed] = rounds) -> tuple[float, int]:
            return timed(lambda: scan(profile, NANP, given, newest=DAYS, buckets=BUCKETS))

        took = np.array([decide(daily), decide(weekly)])
        totals += took if place >= 0 else 0  # the first compiles, and is not counted
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform != "darwin" else 1 << 30)
    return Cost(buckets, float(totals[0, 0]), float(totals[1, 0]), int(totals[0, 1]), int(totals[1, 1]), float(memory))


def main() -> None:
    """Measure, and say whether the promise was kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.windows", description=__doc__)
    parser.add_argument("--buckets", type=int, default=BUCKETS, help="fewer take less time")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cost = measure(options.buckets)
    if options.json:
        print(json.dumps({**vars(cost), "ratio": cost.ratio, "kept": cost.kept}))
        return
    print(
        f"{cost.buckets} buckets: daily {cost.daily:.1f} s ({cost.found_daily} found), windows of 1, 2, 4 and 7 rounds "
        f"{cost.windows:.1f} s ({cost.found_in_windows} found): {cost.ratio:.2f} times (at most {RATIO:g}), "
        f"{cost.gigabytes:.2f} GB (below {GIGABYTES:g}): {'kept' if cost.kept else 'not kept here'}"
    )


if __name__ == "__main__":
    main()
