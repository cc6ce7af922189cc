"""Fixtures of the phone's commands: a home of their own, a fake server, and a phone that is set up in front of it."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.client.fake_server import DAY, FakeService, over_http
from tests.client.lists_on_disk import put_list

from hushcall.cli import main
from hushcall.protocol.blocklist import iso

NOW = int(time.time())


@dataclass
class Said:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def text(self) -> str:
        """Without line breaks, wherever the terminal's width put them."""
        return " ".join(self.out.split())


Run = Callable[..., Said]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``hushcall phone …`` in a home of its own."""
    monkeypatch.setenv("HUSHCALL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TZ", "UTC")  # logs in local time are read in the machine's zone

    def words(*given: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["hushcall", "phone", *map(str, given)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        found = capsys.readouterr()
        return Said(code, found.out, found.err)

    return words


@pytest.fixture
def service() -> FakeService:
    """A server whose round is announcing, for long."""
    found = FakeService(time.time, state="announcing", round=7)
    days = {"opens": 0, "collects": 300, "closes": 301}  # long: a random moment is not this very second
    found.changes = {name: iso(NOW + day * DAY) for name, day in days.items()}
    return found


@pytest.fixture
def url(service: FakeService) -> Iterator[str]:
    """The address of that server."""
    with over_http(service) as found:
        yield found


@pytest.fixture
def home(run: Run, url: str, tmp_path: Path) -> Path:
    """A phone that is set up, with a contact and a list."""
    assert run("init", "--server", url).code == 0
    (tmp_path / "contacts.txt").write_text("202-555-0199")
    assert run("ingest", "--contacts", tmp_path / "contacts.txt").code == 0
    put_list(tmp_path / "home", NOW, NOW + DAY)  # longer than any test run
    return tmp_path / "home"
