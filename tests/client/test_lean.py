"""What makes the client quick and small, counted and not timed: no module and no parsed line that it does not need."""

import json
import tracemalloc
from collections import deque
from dataclasses import replace
from pathlib import Path

import pytest
from tests.imports import brought_by
from tests.lists import big_list

from hushcall.client.screening.lookup import LIST_FILE, STATE_FILE, LoadedList
from hushcall.protocol.blocklist import Entry, blocks_of, delta, iso, patched
from hushcall.protocol.list_index import checked

MANY = 20_000


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every line of a list that is parsed from now on."""
    lines: list[bytes] = []
    parse = Entry.from_line

    def counted(line: bytes) -> Entry:
        lines.append(line)
        return parse(line)

    monkeypatch.setattr(Entry, "from_line", counted)
    return lines


def test_what_a_lookup_does_not_need_is_not_imported() -> None:
    heavy = {"numpy", "tuf", "urllib3", "cryptography", "rich"}
    assert not heavy & brought_by("hushcall.client.client", "hushcall.client.screening.screen")


def test_a_list_is_loaded_without_parsing_it_and_a_lookup_parses_one_line(parsed: list[bytes]) -> None:
    made = big_list(MANY)
    loaded = LoadedList.from_bytes(made.to_bytes())
    assert (len(loaded), parsed) == (MANY, [])
    asked = [made.entries[place].number for place in (0, 1, MANY // 2, MANY - 1)]
    assert [entry.number if (entry := loaded.find(number)) else "" for number in asked] == asked
    assert len(parsed) == len(asked)
    assert [loaded.find(number[:-1] + "x") for number in asked] == [None] * 4
    assert len(parsed) == len(asked)


def test_a_list_is_searched_where_it_lies_and_changed_block_by_block(tmp_path: Path) -> None:
    old, new = big_list(MANY), big_list(MANY, version=2, step=2)
    data, change = old.to_bytes(), delta(old, replace(new, entries=(*old.entries[1:], new.entries[-1])))
    path = tmp_path / LIST_FILE
    path.write_bytes(data)
    (tmp_path / STATE_FILE).write_text(json.dumps({"bytes": len(data), "synced": iso(0), "expires": iso(1)}))
    tracemalloc.start()
    loaded = LoadedList.load(tmp_path)
    assert loaded.find(old.entries[MANY // 2].number) == old.entries[MANY // 2]
    looked_up = tracemalloc.get_traced_memory()[1]
    with path.open("rb") as file:
        deque(checked(patched(blocks_of(file), change)), maxlen=0)
    patching = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(data) > 2_500_000
    assert looked_up < 100_000
    assert patching < 1_500_000, "a few blocks"
