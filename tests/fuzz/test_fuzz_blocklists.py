"""Everything that reads lists gets damaged ones: the same each time, and the fuzzer's own, which are others each time.

Whatever the fuzzer finds is a bug, and its input is kept: it raises no false alarm. ``HUSHCALL_FUZZ_SECONDS`` lets it
look for so long.
"""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz.fuzz_blocklists import one_input, seeds
from tests.fuzz.mutating import mutated

HARNESS = Path(__file__).parent / "fuzz_blocklists.py"
RUNS = 100_000
SECONDS = os.environ.get("HUSHCALL_FUZZ_SECONDS")
LIMIT = ["--seconds", SECONDS] if SECONDS else ["--runs", str(RUNS)]


def test_honest_inputs_pass_and_cut_ones_are_refused_quietly() -> None:
    for seed in seeds():
        one_input(seed)
        for cut in (0, 1, len(seed) // 2, len(seed) - 1):
            one_input(seed[:cut])


def test_damaged_inputs_raise_only_our_errors() -> None:
    for data in mutated(seeds(), 20_000):
        one_input(data)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
def test_a_while_of_fuzzing_finds_nothing() -> None:
    command = [sys.executable, str(HARNESS), *LIMIT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    runs = re.search(r"Done (\d+) runs", done.stderr)
    assert runs is not None, done.stderr[-2000:]
    assert SECONDS or int(runs[1]) == RUNS
