"""What reads strangers' bytes gets damaged ones, the same each time. Long: ``fuzz_readers.py --runs 10000000``."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.fuzz.fuzz_readers import feed, one_input
from tests.fuzz.readers import Reader, readers
from tests.fuzz.readers_of_files import SAMPLES

HARNESS = Path(__file__).parent / "fuzz_readers.py"
READERS = list(readers())


@pytest.mark.parametrize("name", READERS)
def test_damaged_inputs_raise_only_our_errors(name: str) -> None:
    reader = readers()[name]
    reader.read(reader.honest)
    for cut in (1, len(reader.honest) // 2, len(reader.honest) - 1):
        one_input(reader, reader.honest[:cut])
    assert feed(reader, 300)["inputs"] == 300


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_many_damaged_inputs_raise_only_our_errors(name: str) -> None:
    feed(readers()[name], 5_000)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "data",
    [b"", b"\0", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000, b"1e999", b'"\\ud800"', b"\xff" * 4096, b"null"],
    ids=["nothing", "zero", "deep", "deeper", "long number", "infinity", "half a character", "ones", "null"],
)
def test_old_tricks_raise_only_our_errors(name: str, data: bytes) -> None:
    one_input(readers()[name], data)


def test_an_error_of_another_kind_escapes() -> None:
    def broken(data: bytes) -> None:
        raise KeyError(data)

    with pytest.raises(KeyError):
        feed(Reader("broken", broken, b"x"), 3)


@pytest.mark.parametrize("name", [name for name in READERS if "call log" in name or "contacts" in name])
def test_a_file_of_another_kind_is_taken_or_refused_by_name(name: str) -> None:
    for sample in SAMPLES.iterdir():
        one_input(readers()[name], sample.read_bytes())


@pytest.mark.slow
@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not installed")
@pytest.mark.parametrize("group", ["", "call log"])
def test_inputs_that_are_chosen_by_what_they_reach_raise_only_our_errors(group: str) -> None:
    """They are others each time; whatever is found is a bug, so this raises no false alarm."""
    command = [sys.executable, str(HARNESS), "--guided", "--reader", group, "--runs", "30000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    reached = [int(edges) for edges in re.findall(r" cov: (\d+) ", done.stderr)]
    assert reached[-1] > 50, "nothing was watched, so nothing guided it"


@pytest.mark.slow
def test_the_command_says_what_it_did() -> None:
    command = [sys.executable, str(HARNESS), "--reader", "token key", "--runs", "10050"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert (said["reader"], said["inputs"]) == ("token key", 10050)
    assert done.stderr == "token key: 10,000 of 10,050\n", "how far it is, for whoever waits"
    refused = subprocess.run([*command[:3], "nobody"], capture_output=True, text=True, check=False)
    assert "must be one of" in refused.stderr
