"""``make`` says what it is doing before it does it, and pip is heard only when it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="the Makefile: make must be on PATH")

# Stands for python3: makes an environment whose python and hushcall are this script again.
PYTHON = """#!/bin/sh
case "$*" in
  -c*) ;;
  "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python && cp "$0" .venv/bin/hushcall-lab ;;
  "-m pip install"*) echo "Collecting noise"; [ -z "$LOUD" ] || echo "$*" >> asked
    [ -z "$BROKEN" ] || { echo "no way to PyPI" >&2; exit 1; } ;;
  *) echo "RUN $*" ;;
esac
"""


def make(folder: Path, target: str, **variables: str) -> subprocess.CompletedProcess[str]:
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "LOCKED"))}
    words = ["make", f"PYTHON={folder / 'python3'}", "JOBS=2", target]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, env=outside | variables, check=False)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder as it is before anything was set up."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    for name in ("lab", "home"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyproject.toml").touch()
    (tmp_path / "python3").write_text(PYTHON)
    (tmp_path / "python3").chmod(0o755)
    return tmp_path


def test_locked_everything_is_installed_by_its_hash(clone: Path) -> None:
    (clone / "locks").mkdir()
    for name in ("lab", "dev"):
        (clone / "locks" / f"{name}.txt").touch()
    assert make(clone, "demo", LOCKED="1", LOUD="1").returncode == 0
    asked = (clone / "asked").read_text().splitlines()
    pip = "-m pip install --disable-pip-version-check"
    assert asked == [f"{pip} --require-hashes -r locks/lab.txt", f"{pip} --no-deps --no-build-isolation -e . -e lab"]


@pytest.mark.parametrize(
    ("target", "extra", "runs"),
    [
        ("demo", "server", "RUN demo"),
        ("prove", "server", "RUN prove all --quick"),
        ("test", "dev", "RUN -m pytest -n 2 --dist worksteal -m not slow"),
        ("test-all", "dev", "RUN -m pytest -n 2 --dist worksteal -m not night"),
    ],
)
def test_each_step_is_said_before_it_is_taken(clone: Path, target: str, extra: str, runs: str) -> None:
    done = make(clone, target)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    steps = 2 if target == "prove" else 3  # the others need compiled decoders
    assert [line.split(":")[0] for line in said[:steps]] == ["Setting up, once"] * steps
    assert f"hushcall[{extra}]" in said[1]
    assert said[steps].endswith("...")
    assert said[steps + 1 :] == [runs]
    assert make(clone, target).stdout.splitlines() == said[steps:], "the set-up is done once"


def test_pip_is_heard_when_it_fails(clone: Path) -> None:
    done = make(clone, "demo", BROKEN="1")
    assert done.returncode != 0
    assert "no way to PyPI" in done.stdout
    assert "pip could not install hushcall[server]" in done.stdout
    assert "RUN" not in done.stdout
