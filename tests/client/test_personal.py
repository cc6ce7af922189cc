"""The owner's own list: it counts before any other, knows beginnings, and never leaves the phone."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.lists_on_disk import BLOCKED, CLEAN, put_list
from typer.testing import CliRunner

from hushcall.cli import app
from hushcall.client.calls import candidates
from hushcall.client.client import Client
from hushcall.client.screening.screen import Screen, save_policy
from hushcall.client.storage.personal import Action, Personal, mark, pattern_of
from hushcall.client.storage.store import Store
from hushcall.errors import InvalidParameter
from hushcall.formats.calls.call import Call, CallKind
from hushcall.protocol.numbers import NANP

NOW = int(time.time())
digits = st.text("0123456789", min_size=1, max_size=6).map(lambda text: f"+1{text}")


def test_it_counts_before_contacts_list_and_policy(tmp_path: Path) -> None:
    put_list(tmp_path, NOW, NOW + 5000)
    store = Store.open(tmp_path)
    save_policy(store, "warn", 2)
    candidates.add_contacts(store, [CLEAN], NANP)
    Personal({BLOCKED: Action.ALLOW, CLEAN: Action.BLOCK, "+4420*": Action.BLOCK}).save(store)
    screen = Screen(store)
    for caller, action in ((BLOCKED, "allow"), (CLEAN, "block"), ("0044 20 7946 0958", "block"), ("+443001", "allow")):
        assert screen.verdict(caller, NOW).action == action, caller
    assert screen.verdict(CLEAN, NOW).why == "on your own list"
    assert screen.verdict("anonymous", NOW).action == "allow"


@given(st.dictionaries(digits.map(lambda text: text + "*") | digits, st.sampled_from(list(Action)), max_size=8), digits)
def test_the_longest_entry_that_fits_counts(entries: dict[str, Action], number: str) -> None:
    fits = [p for p in entries if p == number or (p.endswith("*") and number.startswith(p[:-1]))]
    expected = entries[max(fits, key=lambda p: (p == number, len(p)))] if fits else None
    assert Personal(entries).verdict(number) == expected


@pytest.mark.parametrize(
    ("written", "pattern"),
    [
        ("(202) 555-0143", "+12025550143"),
        ("+1 900*", "+1900*"),
        ("0044 20*", "+4420*"),
        ("+44 20 7946 0958", "+442079460958"),
        ("011 44 20 7946 0958", "+442079460958"),
    ],
)
def test_how_an_entry_may_be_written(written: str, pattern: str) -> None:
    assert pattern_of(written, NANP) == pattern


@pytest.mark.parametrize("written", ["", "*", "900*", "anonymous", "+*", "+1*900", "+0*"])
def test_what_is_no_entry(written: str) -> None:
    with pytest.raises(InvalidParameter, match="be a number, or its beginning"):
        pattern_of(written, NANP)


@pytest.mark.parametrize("written", ["123", "+44123", "2025550"])
def test_what_is_too_short_for_a_number_is_not_put_on_the_list_and_can_be_taken_off(written: str) -> None:
    store = Store.in_memory()
    Personal({pattern_of(written, NANP): Action.BLOCK}).save(store)  # as an earlier release kept it
    for action in (Action.ALLOW, Action.BLOCK):
        with pytest.raises(InvalidParameter, match="as many digits"):
            mark(store, NANP, [written], action)
    assert mark(store, NANP, [written], None) == Personal({})


def test_what_the_owner_allows_is_never_reported() -> None:
    store = Store.in_memory()
    candidates.ingest(store, [Call(number, NOW, CallKind.MISSED) for number in (BLOCKED, CLEAN)], NANP, NOW)
    Personal({BLOCKED[:-2] + "*": Action.ALLOW, CLEAN: Action.BLOCK}).save(store)
    assert candidates.reportable(store, NOW, 7, 1) == [CLEAN]
    assert candidates.is_known(store, BLOCKED)
    assert not candidates.is_known(store, CLEAN)


def test_a_program_may_mark_too() -> None:
    client = Client(Store.in_memory(), None)  # type: ignore[arg-type]
    client.mark(["202-555-0143", "+1900*"], Action.BLOCK)
    client.mark(["+1900*"], None)
    assert Personal.load(client.store).entries == {"+12025550143": Action.BLOCK}
    with pytest.raises(InvalidParameter, match="be on your own list"):
        client.mark(["+12025550144", "+882*"], None)


def test_the_commands(tmp_path: Path) -> None:
    Store.open(tmp_path).close()

    def say(*words: str) -> str:
        done = CliRunner().invoke(app, ["phone", *words, "--home", str(tmp_path)])
        assert done.exit_code == 0, done.output
        return done.output

    assert say("own") == "Your own list is empty.\n"
    say("block", "+1900*", "202-555-0143")
    assert say("allow", "+19005550143") == "block +12025550143\nblock +1900*\nallow +19005550143\n"
    assert say("check", "900 555 0144") == "block: on your own list\n"
    left = json.loads(say("own", "--remove", "+1900*", "--json"))
    assert left == {"own": {"+12025550143": "block", "+19005550143": "allow"}}
