"""Archives decoded by a GPU and by processors: seconds, and whether the findings are the same bytes."""

import hashlib
import platform
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushcall.decoding.archive.learn import learn
from hushcall.decoding.archive.manifest import Address
from hushcall.decoding.backends import ProcessBackend
from hushcall.decoding.gpu_backend import THREADS, GpuBackend, Shape, Spectrum, cupy, kernel
from hushcall.decoding.task import Backend
from hushcall.mechanisms.kernels.warm_up import compile_kernels
from hushcall.mechanisms.profiles import PROFILES, Profile
from hushcall_lab.bench.scale import profile_for
from hushcall_lab.data import archive_synthesis
from hushcall_lab.usage import Note, silent

PACKAGES = ("cupy", "numpy", "numba", "scipy", "pyarrow")
PLANTED = 20
T = TypeVar("T")


@dataclass(frozen=True)
class Case:
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


class TimedSpectrum(Spectrum):
    """Adds up the milliseconds of each stage on the card, over all spectra. Uploads count as spreading."""

    milliseconds: ClassVar[defaultdict[str, float]] = defaultdict(float)

    def _timed(self, stage: str, work: Callable[[], T]) -> T:
        device = self.cp.cuda.Device()
        device.synchronize()
        began = time.perf_counter()
        result = work()
        device.synchronize()
        self.milliseconds[stage] += 1000 * (time.perf_counter() - began)
        return result

    def clear(self) -> None:
        self._timed("clear", super().clear)

    def spread(self, rows: Any, values: Any, first: int = 0, weight: int = 1) -> None:
        spread = super().spread
        self._timed("spread", lambda: spread(rows, values, first, weight))

    def transform(self, passes: tuple[Shape, ...] | None = None) -> None:
        transform = super().transform
        self._timed("transform", lambda: transform(passes))

    def touch(self) -> None:
        arguments = (self.cells, np.int64(self.cells.size // 4))
        self._timed("touch", lambda: kernel("touch")((1 << 11,), (THREADS,), arguments))

    def at_least(
        self, thresholds: NDArray[np.int64], start: int, stop: int, room: int = 1 << 20
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        at_least = super().at_least
        return self._timed("threshold", lambda: at_least(thresholds, start, stop, room))

    @classmethod
    def take(cls) -> dict[str, float]:
        stages = {stage: round(spent, 2) for stage, spent in cls.milliseconds.items()}
        cls.milliseconds.clear()
        return stages


def measure_memory() -> dict[str, float]:
    """Milliseconds of a transform of 2³³ cells, and of one pass that only reads and writes them."""
    spectrum = TimedSpectrum(33)
    for _ in range(2):  # the first run compiles
        TimedSpectrum.take()
        spectrum.clear()
        spectrum.transform()
        spectrum.touch()
    spectrum.free()
    return TimedSpectrum.take()


def measure(case: Case, backends: Mapping[str, Callable[[], Backend]], workers: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        archived, planted = archive_synthesis.invent(
            folder, case.reports, case.profile, PLANTED, areas=case.areas, workers=workers, rounds=case.rounds
        )
        address = Address(folder)
        archive = address.rounds()
        checksums = "".join(bucket.checksum for entry in archive for bucket in entry.buckets)
        row: dict[str, Any] = {
            "name": case.name,
            "reports": case.reports,
            "rounds": case.rounds,
            "epsilon": case.profile.epsilon,
            "bits": archived.buckets[0].parameters["bits"],
            "reports_sha256": hashlib.sha256(checksums.encode()).hexdigest(),
        }
        for name, make in backends.items():
            TimedSpectrum.take()
            began, backend = time.perf_counter(), make()
            findings = learn(address, archived, backend, archive=archive)
            backend.close()
            listed = {entry["number"] for entry in findings.listed}
            row[name] = {
                "seconds": round(time.perf_counter() - began, 2),
                "on_the_card_ms": TimedSpectrum.take(),
                "sha256": hashlib.sha256(findings.to_bytes()).hexdigest(),
                "planted_found": len(listed & set(planted)),
                "others_found": len(listed - set(planted)),
                "lengths": sorted(entry["length"] for entry in findings.listed),
            }
    return row | {"same_bytes": len({row[name]["sha256"] for name in backends}) == 1}


def measure_all(workers: int, note: Note = silent) -> dict[str, Any]:
    """All cases. The first GPU run of a process compiles the kernels, so there are two."""
    runtime = cupy().cuda.runtime
    machine = {name: import_module(name).__version__ for name in PACKAGES} | {
        "card": runtime.getDeviceProperties(runtime.getDevice())["name"].decode(),
        "driver_cuda": runtime.driverGetVersion(),
        "runtime_cuda": runtime.runtimeGetVersion(),
        "python": platform.python_version(),
    }
    backends: dict[str, Callable[[], Backend]] = {
        "gpu": lambda: GpuBackend(TimedSpectrum, readers=ProcessBackend(workers)),
        "gpu, its kernels compiled": lambda: GpuBackend(TimedSpectrum, readers=ProcessBackend(workers)),
        "local": lambda: ProcessBackend(workers),
    }
    compile_kernels()
    note("memory")
    result: dict[str, Any] = {"machine": machine, "workers": workers, "memory_ms": measure_memory(), "archives": []}
    for case in CASES:
        note(case.name)
        result["archives"].append(measure(case, backends, workers))
    return result
