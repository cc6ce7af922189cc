"""``hushcall phone status``, in each state that a newcomer meets: what is wrong, and what to do about it."""

import socket
import time
from pathlib import Path

import pytest
from tests.client.conftest import NOW, Run
from tests.client.fake_server import FakeService
from tests.client.lists_on_disk import BLOCKED, put_list

from hushcall.client.screening.list_sync import ListClient
from hushcall.client.storage.store import Store
from hushcall.errors import UntrustedList


def test_status_on_a_fresh_machine(run: Run, tmp_path: Path) -> None:
    said = run("status")
    assert said.code == 1
    assert "this phone is not set up" in said.text
    assert "Run: hushcall phone init --server" in said.text
    assert not (tmp_path / "home").exists()  # looking makes nothing


def test_status_when_all_is_well(run: Run, home: Path) -> None:
    said = run("status")
    assert said.code == 0, said.out
    assert said.text.count("ok ") == 7
    assert run("status", "--json").json["ok"] is True


def test_status_without_a_server(run: Run, home: Path) -> None:
    store = Store.open(home)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        store.put("server", f"http://127.0.0.1:{unused.getsockname()[1]}")
        store.close()
        said = run("status")
    assert said.code == 1
    assert "does not answer" in said.text
    assert "reports wait, and the list still works" in said.text
    assert "ok list: version 5" in said.text


def test_status_with_an_expired_list(run: Run, home: Path) -> None:
    put_list(home, NOW, NOW - 60)
    said = run("status")
    assert said.code == 1
    assert "It expired on" in said.text
    assert "Run: hushcall phone sync" in said.text
    warned = run("check", BLOCKED)
    assert warned.out.startswith("block: ")  # it still answers
    assert "the list expired" in warned.err


@pytest.mark.parametrize(("off", "words"), [(7200, "120 minutes behind"), (-7200, "120 minutes ahead of")])
def test_status_with_a_wrong_clock(run: Run, home: Path, service: FakeService, off: int, words: str) -> None:
    service.clock = lambda: time.time() + off + 30
    said = run("status")
    assert said.code == 1
    assert f"clock is {words} the server's" in said.text.replace("119", "120")
    assert "Set the clock" in said.text


def test_a_server_cannot_break_the_display(run: Run, home: Path, service: FakeService) -> None:
    service.changes["state"] = "[/bold] [red]"
    assert "cannot be read" in run("status").text


def test_status_remembers_a_sync_that_was_refused(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert home.exists()

    def refuse(*_: object) -> None:
        raise UntrustedList("it is older than the one that this phone has seen")

    monkeypatch.setattr(ListClient, "sync", refuse)
    assert run("sync").code == 2
    said = run("status")
    assert "The last sync was refused" in said.text
    assert "ask the operator" in said.text


def test_status_of_a_damaged_store_says_what_to_do_and_that_works(run: Run, home: Path) -> None:
    for path in home.glob("phone.db*"):
        path.write_bytes(b"rubbish" * 1000)
    said = run("status")
    assert said.code == 1
    assert "hushcall phone restore FILE" in said.text
    assert "hushcall phone forget --all then starts anew" in said.text  # damage is proven
    assert run("forget", "--all", "--yes").code == 0
    assert not home.exists()
