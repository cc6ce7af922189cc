"""What makes the client quick and small, counted and not timed: no module and no parsed line that it does not need.

``python -m benchmarks.promises`` has the seconds.
"""

import tracemalloc

import pytest
from tests.imports import brought_by
from tests.lists import big_list

from hushcall.phone.screening.lookup import LoadedList
from hushcall.protocol.blocklist import Entry

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
    assert not heavy & brought_by("hushcall.phone.phone", "hushcall.phone.screening.screen")


def test_a_list_is_loaded_without_parsing_it_and_a_lookup_parses_one_line(parsed: list[bytes]) -> None:
    made = big_list(MANY)
    loaded = LoadedList.from_bytes(made.to_bytes())
    assert (len(loaded), parsed) == (MANY, [])
    asked = [made.entries[place].number for place in (0, 1, MANY // 2, MANY - 1)]
    assert [entry.number if (entry := loaded.find(number)) else "" for number in asked] == asked
    assert len(parsed) == len(asked)
    assert [loaded.find(number[:-1] + "x") for number in asked] == [None] * 4
    assert len(parsed) == len(asked)


def test_a_loaded_list_takes_little_more_memory_than_its_bytes() -> None:
    data = big_list(MANY).to_bytes()
    tracemalloc.start()
    loaded = LoadedList.from_bytes(data)
    grown, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(loaded) == MANY
    # Two tables of eight bytes an entry, which grow by an eighth at a time: a list of 100 000 is some 14 MB and 2.
    assert grown < 20 * MANY
    assert peak < 64 * MANY
