"""Empty environments for what installs itself: a folder comes in, a Python with nothing in it leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PATIENCE = 600
"""Seconds for one step, which may have to fetch packages."""


def empty_environment(folder: Path, python: str = sys.executable) -> Path:
    """A new environment's folder of programs."""
    run([python, "-m", "venv", folder], folder.parent)
    return folder / "bin"


def run(words: Sequence[str | Path], folder: Path) -> str:
    """What a program says; it must end well, and sees nothing of the clone's modules."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout
