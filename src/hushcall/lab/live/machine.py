"""What the machine itself did while a server was measured on it: its disk's own syncs, and time that others took.

A commit is acknowledged when the disk has it, so no answer is quicker than a sync; on a disk or processor that is
shared with others a figure is theirs too. This tells how much: before the load on a disk at rest, and beside it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

ALONE, BESIDE = 0.01, 0.25
"""Seconds from a sync's end to the next: on a disk at rest, and beside a load, which must not feel it."""
BLOCK = bytes(1 << 16)
"""What one sync writes: about what a server commits at once."""
_STAT = Path("/proc/stat")
_STOLEN = 7
"""The place of what the hypervisor gave to others in a line of processor times; see proc(5)."""


@dataclass(frozen=True)
class Syncs:
    """How long the disk took to keep one block, in milliseconds."""

    count: int
    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, seconds: list[float]) -> Syncs:
        """Of at least two."""
        return cls(len(seconds), 1000 * median(seconds), 1000 * quantiles(seconds, n=100, method="inclusive")[98])


@dataclass(frozen=True)
class Machine:
    """What it did by itself; ``taken`` is None where the system does not tell."""

    before: Syncs
    beside: Syncs
    taken: float | None

    def __str__(self) -> str:
        syncs = [
            f"{one.p50_ms:,.1f} ms at the median and {one.p99_ms:,.0f} at p99" for one in (self.before, self.beside)
        ]
        others = "" if self.taken is None else f" Others took {self.taken:.1%} of the processors' time."
        return f"A sync of 64 kB to this disk took {syncs[0]} before the load, {syncs[1]} beside it.{others}"


class Watch:
    """Watches the disk of ``folder`` by writing to a file of its own."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.perf_counter) -> None:
        self._file, self._clock = folder / "sync-probe", clock
        self._beside: list[float] = []
        self._before: list[float] = []
        self._taken: float | None = None

    def alone(self, seconds: float) -> None:
        """Before the load, for so long."""
        end = time.monotonic() + seconds
        self._write(self._before, ALONE, lambda: time.monotonic() < end)

    @contextmanager
    def beside(self) -> Iterator[None]:
        """While the load is on."""
        over, begin = threading.Event(), _times()
        watcher = threading.Thread(target=self._write, args=(self._beside, BESIDE, lambda: not over.is_set()))
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
        self._taken = share_taken(begin, _times())

    @property
    def machine(self) -> Machine:
        """What was seen."""
        return Machine(Syncs.of(self._before), Syncs.of(self._beside), self._taken)

    def _write(self, into: list[float], pause: float, going: Callable[[], bool]) -> None:
        with self._file.open("wb") as file:
            while going() or len(into) < 2:
                file.seek(0)
                file.write(BLOCK)
                file.flush()
                begin = self._clock()
                os.fsync(file.fileno())
                into.append(self._clock() - begin)
                time.sleep(pause)


def share_taken(begin: list[int] | None, end: list[int] | None) -> float | None:
    """The share of all processor time between two readings that went to others."""
    if begin is None or end is None or sum(end) == sum(begin):
        return None
    return (end[_STOLEN] - begin[_STOLEN]) / (sum(end) - sum(begin))


def _times() -> list[int] | None:
    """Of all processors since the start: the first eight are disjoint, the rest is counted in them again."""
    if not _STAT.exists():
        return None
    return [int(one) for one in _STAT.read_text().split("\n", 1)[0].split()[1:9]]
