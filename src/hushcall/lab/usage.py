"""What a process takes, memory and processor time, by the system's own count.

Not by getrusage where Linux tells better: that counts whatever started the process, too.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path


def peak_mb() -> float:
    """The largest size that this process has had, in MB."""
    told = _told("VmHWM", "self")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _UNITS if told is None else told


def resident_mb(pid: int) -> float:
    """What another process has now, in MB; not a number where the system does not tell (it is not Linux)."""
    told = _told("VmRSS", str(pid))
    return float("nan") if told is None else told


def processor_seconds(pid: int) -> float:
    """Processor time that another process has had; not a number where the system does not tell. See proc(5)."""
    stat = Path("/proc") / str(pid) / "stat"
    if not stat.exists():
        return float("nan")
    words = stat.read_text(encoding="ascii").rpartition(")")[2].split()  # a program's name may hold anything
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


_UNITS = 2**20 if sys.platform == "darwin" else 2**10


def _told(name: str, process: str) -> float | None:
    status = Path("/proc") / process / "status"
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1024
    return None
