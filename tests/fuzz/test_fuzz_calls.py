"""Readers of call logs get damaged ones: the same each time, and the fuzzer's own, which are others each time.

Whatever the fuzzer finds is a bug, and its input is kept: it raises no false alarm. ``HUSHCALL_FUZZ_SECONDS`` lets it
look for so long.
"""

import os
import re
import subprocess
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from tests.fuzz.mutating import mutated

HARNESS = Path(__file__).parent / "fuzz_calls.py"
RUNS = 30_000
SECONDS = os.environ.get("HUSHCALL_FUZZ_SECONDS")
LIMIT = ["--seconds", SECONDS] if SECONDS else ["--runs", str(RUNS)]


def harness() -> ModuleType:
    spec = spec_from_file_location("fuzz_calls", HARNESS)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_sample_survives_every_target(tmp_path: Path) -> None:
    module = harness()
    table = module.targets()
    module.write_seeds(tmp_path, len(table))
    seeds = list(tmp_path.iterdir())
    assert len(seeds) == len(table) * len(list(module.SAMPLES.iterdir()))
    for seed in seeds:
        module.one_input(table, seed.read_bytes())


def test_an_error_of_another_kind_escapes() -> None:
    def broken(data: bytes) -> None:
        raise ValueError(data)

    with pytest.raises(ValueError, match="x"):
        harness().one_input([broken], b"\x00x")


def test_damaged_inputs_raise_only_our_errors(tmp_path: Path) -> None:
    module = harness()
    table = module.targets()
    module.write_seeds(tmp_path, len(table))
    honest = [seed.read_bytes() for seed in sorted(tmp_path.iterdir())]
    for data in mutated(honest, 15_000):
        module.one_input(table, data)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not installed: pip install atheris")
def test_fuzzing_finds_nothing(tmp_path: Path) -> None:
    command = [sys.executable, str(HARNESS), *LIMIT, "--artifacts", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
    assert runs is not None, done.stderr[-3000:]
    assert SECONDS or int(runs[1]) >= RUNS
