"""Whole archives by a card and by processors: ``python -m hushcall.lab.bench.gpu_archives`` prints one JSON document.

Needs numpy, scipy, numba, pyarrow, fsspec and CuPy, and nothing else: it runs on a rented machine from a bare copy of
the sources. Ten million reports of one round, and of each of seven; a million with nothing in the clear. What is
compared are the bytes that ``--out`` would hold, by their SHA-256.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcall.archive.manifest import Address
from hushcall.engines.evidence import Engine
from hushcall.engines.gpu_card import GpuEngine
from hushcall.engines.learning import learn
from hushcall.engines.local import LocalEngine
from hushcall.gpu.spectrum import Spectrum
from hushcall.lab.bench.gpu import machine
from hushcall.lab.bench.scale import profile_for
from hushcall.lab.data import archive_synthesis
from hushcall.profiles import PROFILES, Profile

PACKAGES = ("numba", "scipy", "pyarrow")
PLANTED = 20


@dataclass(frozen=True)
class Case:
    """Rounds to invent, of so many reports each; the newest is decided."""

    name: str
    profile: Profile
    reports: int
    rounds: int = 1
    areas: int | None = None


CASES = (
    Case("469 buckets", profile_for(3.5), 10**7),
    Case("469 buckets, a week of smaller rounds", profile_for(3.5), 10**6, 7),
    Case("469 buckets, a week", profile_for(3.5), 10**7, 7),
    Case("whole numbers", PROFILES["crowd"], 10**6),
)


class Timed(Spectrum):
    """A card's array that notes how long it took from being cleared to its findings, uploads included."""

    took: list[float] = []  # noqa: RUF012 - of all arrays together

    def clear(self) -> None:
        """Start the clock."""
        self.begin = time.perf_counter()
        super().clear()

    def at_least(
        self, least: NDArray[np.int64], start: int, stop: int, room: int = 1 << 20
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Stop it: the findings are back."""
        found = super().at_least(least, start, stop, room)
        self.took.append(round(time.perf_counter() - self.begin, 3))
        return found


def measure(case: Case, engines: Mapping[str, Callable[[], Engine]], workers: int) -> dict[str, Any]:
    """Invent the case's rounds and decide the newest by each engine: seconds, and the SHA-256 of what is listed."""
    with tempfile.TemporaryDirectory() as folder:
        given = (folder, case.reports, case.profile, PLANTED)
        found, planted = archive_synthesis.invent(*given, areas=case.areas, workers=workers, rounds=case.rounds)
        address = Address(folder)
        rounds = address.rounds()
        sums = "".join(bucket.checksum for one in rounds for bucket in one.buckets)
        row: dict[str, Any] = {
            "name": case.name,
            "reports": case.reports,
            "rounds": case.rounds,
            "epsilon": case.profile.epsilon,
        }
        row |= {
            "bits": found.buckets[0].parameters["bits"],
            "reports_sha256": hashlib.sha256(sums.encode()).hexdigest(),
        }
        for name, made in engines.items():
            Timed.took.clear()
            begin, engine = time.perf_counter(), made()
            learnt = learn(address, found, engine, others=rounds)
            engine.close()
            listed = {one["number"] for one in learnt.listed}
            row[name] = {
                "seconds": round(time.perf_counter() - begin, 2),
                "on_the_card": list(Timed.took),
                "sha256": hashlib.sha256(learnt.to_bytes()).hexdigest(),
                "planted_found": len(listed & set(planted)),
                "others_found": len(listed - set(planted)),
                "lengths": sorted(one["length"] for one in learnt.listed),
            }
    return row | {"same_bytes": len({row[name]["sha256"] for name in engines}) == 1}


def main(arguments: Sequence[str] | None = None) -> None:
    """All cases, one JSON document on stdout; notes on stderr."""
    from hushcall.gpu.spectrum import cupy
    from hushcall.learn.kernels import compile_kernels

    parser = argparse.ArgumentParser(prog="python -m hushcall.lab.bench.gpu_archives", description=__doc__)
    parser.add_argument("--workers", type=int, default=16, help="processes that read for the card, and that learn")
    workers: int = parser.parse_args(arguments).workers
    engines: dict[str, Callable[[], Engine]] = {
        "gpu": lambda: GpuEngine(Timed, readers=LocalEngine(workers)),
        "gpu, its kernels compiled": lambda: GpuEngine(Timed, readers=LocalEngine(workers)),
        "local": lambda: LocalEngine(workers),
    }
    versions = {name: import_module(name).__version__ for name in PACKAGES}
    out: dict[str, Any] = {"machine": machine(cupy()) | versions, "workers": workers, "archives": []}
    compile_kernels()
    for case in CASES:
        out["archives"].append(measure(case, engines, workers))
        print(json.dumps(out["archives"][-1], ensure_ascii=False), file=sys.stderr, flush=True)
    print(json.dumps(out, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
