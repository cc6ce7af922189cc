"""Compiles the kernels of the shipped rounds before they are needed.

numba compiles a kernel when it is first called, and keeps the result on disk, once a machine and a version. Each kernel
is called here with the types of a round. ``python -m hushcall.mechanisms.kernels.warm_up`` prints how many were not on
disk yet.
"""

from __future__ import annotations

import sys

import numpy as np

from hushcall.mechanisms.kernels import compiled, walsh
from hushcall.mechanisms.kernels.shake256 import report_rows
from hushcall.mechanisms.report_arrays import ReportArrays
from hushcall.mechanisms.subspace import spectrum
from hushcall.protocol.seeds import SEED_BYTES, TICKET_BYTES

_BITS, _B = 12, 3  # a domain of 4,096 numbers; three bits a report


def compile_kernels() -> int:
    """Compile what rounds of the subspace mechanisms run. Returns how many kernels were not on disk."""
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
    spectrum.compile_kernels(longs, values)
    return compiled.compilations() - before


def main() -> None:
    sys.stdout.write(f"{compile_kernels()}\n")


if __name__ == "__main__":
    main()
