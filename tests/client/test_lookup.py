"""Looking callers up offline: right, fast, and honest about an old list."""

from __future__ import annotations

import gc
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.published import TERMS, make_list

from hushcall.client.screening.lookup import LoadedList, Policy, check
from hushcall.client.storage.personal import Action
from hushcall.errors import HushcallError, InvalidList, InvalidParameter
from hushcall.protocol.blocklist import Blocklist, Entry, ListHeader
from hushcall.protocol.numbers import NANP

NUMBERS = st.sets(st.integers(10**6, 10**15 - 1).map(lambda digits: f"+{digits}"), max_size=20)
SMALL = LoadedList.from_bytes(make_list(1).to_bytes())


def listing(*entries: Entry) -> LoadedList:
    return LoadedList.from_bytes(Blocklist(1, 1, 0, TERMS, tuple(sorted(entries))).to_bytes(), 1000, 2000)


def entry(number: str = "+12025550143", *, days: int = 1, low: float = 3.0) -> Entry:
    return Entry(number, 0, 86400, days, 12.0, low, 21.0, 1e-6)


@given(NUMBERS, NUMBERS)
def test_finds_what_is_listed_and_nothing_else(numbers: set[str], others: set[str]) -> None:
    loaded = listing(*(entry(number) for number in numbers))
    assert len(loaded) == len(numbers)
    for number in numbers | others:
        found = loaded.find(number)
        assert (found.number if found else None) == (number if number in numbers else None)


def test_finds_a_parsed_number_with_all_that_is_known() -> None:
    assert listing(entry(days=4)).find(NANP.parse("(202) 555-0143")) == entry(days=4)


@pytest.mark.parametrize("text", ["", "+", "+1202555014", "+120255501430", "12025550143", '+12025550143"', "\0", "é"])
def test_a_text_that_is_no_listed_number_is_not_found(text: str) -> None:
    assert listing(entry()).find(text) is None


def spoiled() -> dict[str, bytes]:
    good = make_list(1, 3).to_bytes()
    head, *lines = good.splitlines(keepends=True)
    return {
        "empty": b"",
        "no header": b"".join(lines),
        "another format": good.replace(b"hushcall-list/1", b"hushcall-list/2"),
        "deep": b"[" * 10**5,
        "cut": good[:-1],
        "an entry less": head + b"".join(lines[1:]),
        "an entry twice": head + lines[0] + b"".join(lines[:2]),
        "unsorted": head + b"".join(reversed(lines)),
        "a line that is none": head + lines[0] + b"what\n" + lines[2],
    }


@pytest.mark.parametrize("name", spoiled())
def test_a_spoiled_list_is_refused(name: str) -> None:
    with pytest.raises(InvalidList):
        LoadedList.from_bytes(spoiled()[name])


@given(st.binary(max_size=200), st.integers(0, 400))
def test_random_bytes_raise_nothing_but_errors_of_ours(noise: bytes, at: int) -> None:
    good = make_list(1, 2).to_bytes()
    for data in (noise, good[:at] + noise + good[at + len(noise) :]):
        try:
            loaded = LoadedList.from_bytes(data)
            loaded.find("+12025550001")
        except HushcallError:
            continue


def test_loading_without_a_sync_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InvalidList, match="hushcall phone sync"):
        LoadedList.load(tmp_path)


@pytest.mark.parametrize("state", [b"", b"[]", b"{}", b'{"synced":"x","expires":1}', b"\xff"])
def test_a_spoiled_state_file_costs_only_what_it_said(state: bytes, tmp_path: Path) -> None:
    (tmp_path / "list.jsonl").write_bytes(make_list(3).to_bytes())
    (tmp_path / "list.json").write_bytes(state)
    loaded = LoadedList.load(tmp_path)
    assert (loaded.version, loaded.synced, loaded.expires) == (3, None, None)


# --- verdicts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("days", "low", "action"),
    [(1, 3.0, Action.WARN), (2, 3.0, Action.BLOCK), (1, 10.0, Action.BLOCK), (1, 9.9, Action.WARN)],
)
def test_two_days_or_tau_phones_block_and_less_warns(days: int, low: float, action: Action) -> None:
    verdict = check(listing(entry(days=days, low=low)), "+12025550143", now=1500)
    assert (verdict.action, verdict.warning) == (action, "")
    assert "about 12 phones" in verdict.why
    assert verdict.entry == entry(days=days, low=low)


def test_a_policy_sets_its_own_thresholds() -> None:
    loaded = listing(entry(days=2, low=12.0))
    assert check(loaded, "+12025550143", Policy(block_days=3, block_phones=13)).action == Action.WARN
    assert check(loaded, "+12025550143", Policy(block_days=3, block_phones=12)).action == Action.BLOCK
    for bad in ({"block_days": 0}, {"block_phones": -1.0}):
        with pytest.raises(InvalidParameter):
            Policy(**bad)


def test_contacts_are_always_allowed_and_strangers_without_an_entry_too() -> None:
    loaded = listing(entry(days=7))
    for contacts in (frozenset({"+12025550143"}), {"+12025550143": "Ann"}, lambda number: number.endswith("0143")):
        assert check(loaded, "+12025550143", Policy(contacts=contacts)).action == Action.ALLOW
    assert check(loaded, "+12025550199").action == Action.ALLOW
    assert check(loaded, "+12025550143", Policy(contacts={"+12025550199"})).action == Action.BLOCK


def test_an_expired_list_still_answers_and_says_so() -> None:
    loaded = listing(entry(days=2))
    fresh, stale = (check(loaded, "+12025550143", now=at) for at in (1999, 2000))
    assert (fresh.action, fresh.warning) == (Action.BLOCK, "")
    assert (stale.action, stale.warning) == (Action.BLOCK, "the list expired on 1970-01-01T00:33:20Z: sync")
    assert check(loaded, "+12025550199", now=2000).warning
    assert check(SMALL, "+12025550143").warning == ""  # when it expires is not known


def test_no_verdict_repeats_the_number() -> None:
    assert "0143" not in check(listing(entry()), "+12025550143").why


# --- a hundred thousand entries -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large() -> bytes:
    line = entry().line()
    numbers = [b"+1%d" % (2_022_000_000 + 37 * place) for place in range(100_000)]
    head = json.dumps(Blocklist(1, 1, 0, TERMS, ()).first_line() | {"entries": len(numbers)}).encode() + b"\n"
    return head + b"".join(line.replace(b"+12025550143", number) for number in numbers)


def test_a_large_list_takes_little_more_memory_than_its_bytes(large: bytes) -> None:
    gc.collect()
    tracemalloc.start()
    loaded = LoadedList.from_bytes(large)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(loaded) == 100_000
    assert peak < len(large) / 2  # beside the bytes themselves, which were there before


def test_a_list_of_format_2_warns_first_and_blocks_by_its_own_rule() -> None:
    terms = ListHeader("subspace", 4.0, 10, 0.001, "nanp-2026", 7, block_days=3)
    once = Entry("+12025550143", 0, 0, 1, 500.0, 400.0, 600.0, 1e-9, window=1)
    entries = [replace(once, number=f"+1202555020{place}", days=days, window=w) for place, (days, w) in enumerate(RUNS)]
    loaded = LoadedList.from_bytes(Blocklist(1, 3, 0, terms, tuple(entries)).to_bytes())
    judged = [check(loaded, entry.number, now=0).action.value for entry in entries]
    assert judged == ["warn", "warn", "block", "block"]  # however many phones: one night's liars can make any number
    owners = [check(loaded, entry.number, Policy(block_days=2), now=0).action.value for entry in entries]
    assert owners == ["warn", "block", "block", "block"]
    assert check(loaded, entries[0].number, Policy(block_phones=400), now=0).action is Action.BLOCK
    assert "over 4 together" in check(loaded, entries[3].number, now=0).why


RUNS = ((1, 1), (2, 1), (3, 1), (1, 4))
