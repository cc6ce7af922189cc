"""What these tests share: find a program, say its version, give it a port, and end it."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def program(name: str) -> str:
    """Where a program is; a test that needs one which is not installed is skipped."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def version(*words: str) -> str:
    """What a program says that it is."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    found = re.search(r"[0-9]+\.[0-9]+[0-9.]*", done.stdout + done.stderr)
    return found[0] if found else "unknown"


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port of loopback that nobody uses now."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def eventually(happens: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until something has happened."""
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


@contextmanager
def process(words: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program at work; it ends with the block."""
    with log.open("wb") as output:
        running = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield running
        finally:
            running.terminate()
            try:
                running.wait(10)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
