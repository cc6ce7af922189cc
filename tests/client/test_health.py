"""What the status says in every state a phone can be in."""

import time
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
from tests.client.fake_server import FakeServer, FakeService
from tests.client.lists_on_disk import put_list

from hushcall.client import setup
from hushcall.client.calls import candidates
from hushcall.client.client import Client
from hushcall.client.health import Finding, examine, examine_folder
from hushcall.client.reporting.consent import Limits
from hushcall.client.storage.store import LISTS, Store
from hushcall.errors import HushcallError, InvalidParameter, Refused, Unreachable
from hushcall.protocol.numbers import NANP, SHIPPED

NOW = int(time.time())


@pytest.fixture
def phone(tmp_path: Path) -> Client:
    """A phone with which all is well."""
    store = Store.open(tmp_path)
    candidates.add_contacts(store, ["2025550199"], NANP)
    put_list(tmp_path, NOW, NOW + 5000)
    service = FakeService(lambda: NOW, state="announcing", round=7)
    return Client(store, FakeServer(service), clock=lambda: NOW)


def by_topic(phone: Client) -> dict[str, Finding]:
    return {finding.topic: finding for finding in examine(phone)}


def wrong(phone: Client) -> list[str]:
    return [finding.topic for finding in examine(phone) if not finding.ok]


def test_all_is_well(phone: Client) -> None:
    assert wrong(phone) == []
    assert by_topic(phone)["server"].words == "reachable; round 7 is announcing."
    phone.note(NANP.parse("2025550101"))
    assert by_topic(phone)["calls"].words.startswith("1 unknown number waiting")


def test_a_fresh_machine(tmp_path: Path) -> None:
    (only,) = examine_folder(tmp_path)
    assert not only.ok
    assert "hushcall phone init" in only.todo


def test_a_folder_is_examined_by_the_plan_of_its_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Store.open(tmp_path)) as store:
        store.put("server", "https://calls.example.fr")
        store.put("plan", SHIPPED["FR"])
    server = FakeServer(FakeService(lambda: NOW, state="announcing", changes={"plan": SHIPPED["FR"]}))
    monkeypatch.setattr(setup, "transport_of", lambda _: server)
    (terms,) = [finding for finding in examine_folder(tmp_path) if finding.topic == "terms"]
    assert (terms.ok, terms.todo) == (True, "")


@pytest.mark.parametrize(
    ("error", "ok", "words"),
    [
        (Unreachable("http://x does not answer"), False, "does not answer"),
        (Refused("no-round", 404, "none"), True, "not started a round"),
        (Refused("revoked", 403, "this device", "Enrol again."), False, "revoked"),
        (InvalidParameter("round", "be right", 3), False, "cannot be read"),
    ],
)
def test_a_server_in_trouble(phone: Client, error: HushcallError, ok: bool, words: str) -> None:
    def fail() -> None:
        raise error

    phone.transport.current_round = fail  # type: ignore[method-assign, assignment]
    found = by_topic(phone)["server"]
    assert found.ok is ok
    assert words in found.words
    assert ok or found.todo
    assert "list" not in wrong(phone)  # lookups go on without a server


@pytest.mark.parametrize(("off", "words"), [(301, "5 minutes ahead of"), (-7200, "120 minutes behind"), (299, "")])
def test_a_wrong_clock(phone: Client, off: int, words: str) -> None:
    phone.clock = lambda: NOW + off
    found = by_topic(phone)["clock"]
    assert found.ok is (not words)
    assert words in found.words


def test_an_expired_a_missing_and_a_damaged_list(phone: Client, tmp_path: Path) -> None:
    put_list(tmp_path, NOW, NOW - 1)
    assert "It expired on" in by_topic(phone)["list"].words
    (tmp_path / LISTS / "list.jsonl").write_bytes(b"rubbish")
    assert by_topic(phone)["list"].todo == "Run: hushcall phone sync"
    (tmp_path / LISTS / "list.jsonl").unlink()
    assert wrong(phone) == ["list"]


def test_a_cap_that_stops_the_phone(phone: Client) -> None:
    Limits(report=Fraction(3)).save(phone.store)
    assert "Nothing will be sent" in by_topic(phone)["budget"].todo
    assert wrong(phone) == ["budget"]


def test_no_contacts_is_worth_a_word(phone: Client) -> None:
    phone.store.forget()
    assert by_topic(phone)["calls"].todo.startswith("Add contacts")
