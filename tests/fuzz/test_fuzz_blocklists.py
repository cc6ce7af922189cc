"""A few seconds of coverage-guided fuzzing of everything that reads lists; ``HUSHCALL_FUZZ_SECONDS`` lengthens it."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz.fuzz_blocklists import one_input, seeds

HARNESS = Path(__file__).parent / "fuzz_blocklists.py"
SECONDS = int(os.environ.get("HUSHCALL_FUZZ_SECONDS", "5"))


def test_honest_inputs_pass_and_cut_ones_are_refused_quietly() -> None:
    for seed in seeds():
        one_input(seed)
        for cut in (0, 1, len(seed) // 2, len(seed) - 1):
            one_input(seed[:cut])


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
def test_a_while_of_fuzzing_finds_nothing() -> None:
    command = [sys.executable, str(HARNESS), "--seconds", str(SECONDS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 120, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    runs = re.search(r"Done (\d+) runs", done.stderr)
    assert runs is not None, done.stderr[-2000:]
    assert int(runs[1]) > 100
