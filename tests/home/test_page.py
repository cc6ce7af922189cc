"""The lines that home.md tells to copy run as they stand: before a box, a server and systemd's programs of ours."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from tests.client.fake_server import FakeService, over_http
from tests.home.box import FritzBox, running

from hushcall.cli import main
from hushcall_home import cli as cli_home
from hushcall_home.config import Config, Router

PAGE = (Path(__file__).parents[2] / "docs" / "home.md").read_text(encoding="utf-8")
NOW = 1_800_000_000


def lines(section: str) -> list[list[str]]:
    """The commands of hushcall in a section's blocks to copy, in their order, as words after the program."""
    text = PAGE.partition(f"\n## {section}")[2].partition("\n## ")[0]
    copied = re.findall(r"^ *[$#] ((?:sudo -u \S+ )?\S*/bin/hushcall .*)$", text, re.MULTILINE)
    return [shlex.split(re.sub(r"^sudo -u \S+ ", "", line))[1:] for line in copied]


def run(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["hushcall", *words])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code, words


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home folder, and systemd's programs, which do nothing."""
    (tmp_path / "bin").mkdir()
    for name in ("systemctl", "loginctl"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HUSHCALL_HOME", raising=False)
    monkeypatch.setattr(cli_home, "SYSTEM_UNITS", tmp_path / "system")


def test_the_lines_for_a_fritzbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = lines("FRITZ!Box and a small computer")
    assert [words[:2] for words in commands] == [["home", "init"], ["home", "install"]]
    with over_http(FakeService(lambda: NOW)) as url, running(FritzBox(lambda: NOW)) as box:
        monkeypatch.setattr("typer.prompt", lambda *_, **__: box.password)
        monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
        places = {"https://calls.example.org": url, "fritz.box": box.address}
        for words in commands:
            run([places.get(word, word) for word in words], monkeypatch)
    assert Config.load(tmp_path / ".hushcall").fritzbox == Router(box.address, "hushcall", box.password)
    assert (tmp_path / cli_home.USER_UNITS / cli_home.UNIT).exists()


def test_the_lines_for_asterisk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = lines("Asterisk and FreePBX")
    assert [words[:2] for words in commands] == [["home", "init"], ["home", "install"]]
    folder = str(tmp_path / "asterisk")
    with over_http(FakeService(lambda: NOW)) as url:
        places = {"https://calls.example.org": url, "/var/lib/hushcall-phone": folder}
        for words in commands:
            run([places.get(word, word) for word in words], monkeypatch)
    config = Config.load(Path(folder))
    assert (config.logs, config.asterisk) == (("asterisk:/var/log/asterisk/cdr-csv/Master.csv",), "asterisk")
    assert "User=asterisk" in (tmp_path / "system" / cli_home.UNIT).read_text()


def test_a_household_has_at_most_six_steps_and_the_page_is_short() -> None:
    steps = re.findall(r"^(\d+)\. ", PAGE.partition("## FRITZ!Box")[2].partition("\n## ")[0], re.MULTILINE)
    assert [int(step) for step in steps] == list(range(1, len(steps) + 1))
    assert len(steps) <= 6
    assert len(PAGE.split()) <= 900
