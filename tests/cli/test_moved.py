"""A command that the package hushcall-lab has now says so in one line, whatever its arguments are."""

import subprocess

import pytest
from tests.commands import HUSHCALL, LAB_COMMANDS

from hushcall.cli import LAB_COMMANDS as MOVED

SETS_UP = "pip install hushcall-lab (in a clone: make demo sets it up)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *((name, f"hushcall-lab {name}") for name in MOVED if name != "lab"),
        ("lab", "hushcall-lab"),
        ("phone simulate", "hushcall-lab phones"),
    ],
)
def test_a_moved_command_names_its_successor(old: str, new: str) -> None:
    assert new == "hushcall-lab" or new.split()[1] in LAB_COMMANDS, "that is a command of the lab"
    command = [*HUSHCALL, *old.split(), "day.svg", "--users", "3", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"hushcall: 'hushcall {old}' is '{new}' now: {SETS_UP}\n"


def test_the_command_that_followed_a_log_names_what_does_so_now() -> None:
    done = subprocess.run([*HUSHCALL, "phone", "watch", "log", "--once"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("hushcall: 'hushcall phone watch' is 'hushcall home init --log FILE' now: ")


def test_help_shows_no_moved_command() -> None:
    text = subprocess.run([*HUSHCALL, "--help"], capture_output=True, text=True, check=True).stdout
    commands = {line.split()[1] for line in text.splitlines() if line.startswith("│ ") and len(line.split()) > 2}
    assert {"serve", "phone", "plan"} <= commands
    assert not commands & set(MOVED)
