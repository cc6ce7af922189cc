"""Compiled before they are needed: nothing comes in, the kernels of the shipped rounds are ready when this returns.

numba compiles a kernel when it is first called, which takes half a minute for all of them, and keeps the result on
disk: once a machine and a version. Each kernel is called here through the function that a round calls it by, on a few
made-up reports, so that the types are those of a round. ``python -m hushcall.learn.kernels`` does nothing else,
and prints how many were not on disk yet.
"""

from __future__ import annotations

import sys

import numpy as np

from hushcall.learn import compiled, walsh, whole_spectrum
from hushcall.learn.feed.report_arrays import ReportArrays
from hushcall.learn.feed.shake256 import report_rows
from hushcall.protocol.seeds import SEED_BYTES
from hushcall.protocol.tickets import TICKET_BYTES

_BITS, _B = 12, 3  # a domain of 4,096 numbers; three bits a report


def compile_kernels() -> int:
    """Compile whatever a round of the subspace mechanisms runs, in both modes; how many of them were not on disk."""
    before = compiled.compilations()
    reports = ReportArrays.of([(bytes([place]) * TICKET_BYTES, bytes(1)) for place in range(4)])
    seeds = reports.seeds(bytes(SEED_BYTES))
    reports.checksum()
    longs = report_rows(seeds, _B, _BITS)
    rows, values = longs.astype(np.uint32), np.zeros(len(longs), np.uint32)
    counts = np.zeros(1 << _BITS, np.int32)
    walsh.count_members(counts, rows, values)
    walsh.accumulate(counts, rows, values)
    walsh.transform(counts)
    walsh.at_least(counts, 1, 0, counts.size)
    walsh.some_at_least(counts, _B, [4], [1], 0, counts.size)
    whole_spectrum.compile_kernels(longs, values)
    return compiled.compilations() - before


def main() -> None:
    """Compile, and print how many kernels were not on disk."""
    sys.stdout.write(f"{compile_kernels()}\n")


if __name__ == "__main__":
    main()
