"""Every command line of ``docs/index.md`` is run as it stands, and prints what the page shows.

Its output, that is: what a command says beside it, such as that something takes a while, depends on the machine.
"""

from __future__ import annotations

import doctest
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "index.md"
TUTORIALS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.M | re.S))
"""Role → its section of the page."""
BLOCK = re.compile(r'^```console(?: title="([^"]*)")?\n(.*?)^```', re.M | re.S)
PORT = "8750"
PATIENCE = 300
"""Seconds after which a command is given up: far more than any needs, however busy the machine is."""


@dataclass(frozen=True)
class Step:
    """A command, where it is run, and what the page shows below it."""

    where: str
    command: str
    shown: str


def steps_of(section: str) -> list[Step]:
    """The commands of a section in order. A command goes on in lines that begin with ``>``."""
    found = []
    for where, text in BLOCK.findall(section):
        for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
            lines = part.rstrip("\n").split("\n")
            more = [line for line in lines[1:] if line.startswith(">")]
            command = "\n".join([lines[0], *(line[1:].removeprefix(" ") for line in more)])
            found.append(Step(where, command, "\n".join(lines[1 + len(more) :])))
    return found


def agrees(shown: str, said: str) -> bool:
    """Line by line and word by word; ``…`` stands for anything."""
    pattern = r"\s+".join(".*?".join(map(re.escape, word.split("…"))) for word in shown.split())
    return re.fullmatch(pattern + r"\s*", said.strip(), re.S) is not None


class NoServer(Exception):
    """It ended before it said that it serves: somebody else has taken the port that was free a moment ago."""


@contextmanager
def in_the_background(command: str, shown: str, folder: Path, env: dict[str, str]) -> Iterator[None]:
    """A server, from when it has printed the first line that the page shows and answers requests."""
    lines: Queue[str] = Queue()
    with subprocess.Popen(
        ["bash", "-c", f"exec {command}"],
        cwd=folder,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:

        def listen() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                lines.put(line)
            lines.put("")

        listener = threading.Thread(target=listen)
        listener.start()
        try:
            while not agrees(shown.split("\n", maxsplit=1)[0], line := lines.get(timeout=PATIENCE)):
                if not line:
                    raise NoServer
            wait_until_it_answers(process, env["HUSHCALL_SERVER__PORT"])
            yield
        finally:
            process.terminate()
            listener.join()


def wait_until_it_answers(process: subprocess.Popen[str], port: str) -> None:
    """Ask until there is an answer: on a busy machine the first line comes seconds before it."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise NoServer
        with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE):
            return
        time.sleep(0.05)
    raise AssertionError(f"no answer on port {port}")


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as place:
        return str(place.getsockname()[1])


def play(section: str, folder: Path) -> None:
    port = free_port()
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "HOME": str(folder),
        "COLUMNS": "80",
        "HUSHCALL_SERVER__PORT": port,
    }
    with contextmanager(_background)(section, folder, env, port) as rest:
        for step in rest:
            place = ROOT if step.where == "In the clone" else folder
            command, shown = (text.replace(PORT, port) for text in (step.command, step.shown))
            done = subprocess.run(
                ["bash", "-ec", command],
                cwd=place,
                env=env,
                text=True,
                capture_output=True,
                timeout=PATIENCE,
                check=False,
            )
            assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
            assert agrees(shown, done.stdout), f"$ {command}\n{done.stdout}"


def _background(section: str, folder: Path, env: dict[str, str], port: str) -> Iterator[list[Step]]:
    """Start what the section starts in another window. Yields the other steps."""
    steps = steps_of(section)
    others = [step for step in steps if step.where == "Another window"]
    rest = [step for step in steps if step.where != "Another window"]
    if not others:
        yield rest
        return
    (server,) = others
    with in_the_background(server.command, server.shown.replace(PORT, port), folder, env):
        yield rest


LONG = [role if role == "App developer" else pytest.param(role, marks=pytest.mark.slow) for role in TUTORIALS]


@pytest.mark.parametrize("role", LONG)
def test_a_tutorial_does_what_it_says(role: str, tmp_path: Path) -> None:
    for attempt in range(5):
        try:
            (tmp_path / str(attempt)).mkdir()
            return play(TUTORIALS[role], tmp_path / str(attempt))
        except NoServer:
            continue
    raise AssertionError("no server could be started")


def test_the_python_of_the_tutorials_runs() -> None:
    assert doctest.testfile(str(PAGE), module_relative=False).failed == 0


def test_steps_and_what_they_show_are_read() -> None:
    page = 'x\n```console title="here"\n$ one\nsaid\n$ two <<E\n> a\n>\n> E\nsaid … more\n```\n'
    assert steps_of(page) == [Step("here", "one", "said"), Step("here", "two <<E\na\n\nE", "said … more")]
    assert agrees("said … more", "said this\nand more\n")
    assert not agrees("said … more", "said this and less")
    assert not agrees("", "something")


def test_there_is_one_for_each_role() -> None:
    assert list(TUTORIALS) == ["Researcher", "Operator", "Phone owner", "App developer", "Contributor"]
    assert all(steps_of(section) for section in TUTORIALS.values())
