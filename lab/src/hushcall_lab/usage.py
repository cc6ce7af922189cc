"""The memory and processor time of a process (on Linux from /proc), and the time that work takes."""

import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

Note = Callable[[str], None]


def peak_mb() -> float:
    peak = _status_mb("VmHWM", "self")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _UNITS if peak is None else peak


def resident_mb(pid: int) -> float:
    """The size of another process, in MB. NaN on other systems than Linux."""
    size = _status_mb("VmRSS", str(pid))
    return float("nan") if size is None else size


def processor_seconds(pid: int) -> float:
    """The processor time of another process. NaN on other systems than Linux. See proc(5)."""
    stat = Path("/proc") / str(pid) / "stat"
    if not stat.exists():
        return float("nan")
    fields = stat.read_text(encoding="ascii").rpartition(")")[2].split()  # a program's name may hold anything
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """A process and all that it started. Only itself on other systems than Linux."""
    pids = [pid]
    for each in pids:
        for path in Path(f"/proc/{each}/task").glob("*/children"):
            with suppress(OSError):  # it has ended
                pids += map(int, path.read_text(encoding="ascii").split())
    return pids


def descriptors(pid: int) -> int:
    """The files and connections that a process has open. 0 for one that has ended."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


_UNITS = 2**20 if sys.platform == "darwin" else 2**10


def _status_mb(name: str, process: str) -> float | None:
    with suppress(OSError):  # another system, or a process that has ended
        for line in (Path("/proc") / process / "status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1024
    return None


def silent(_: str) -> None:
    """Shows no progress."""


def best_of(times: int, work: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of the fastest of several runs: other work on the machine only slows them."""
    seconds = []
    for _ in range(times):
        began = clock()
        work()
        seconds.append(clock() - began)
    return max(min(seconds), 1e-9)
