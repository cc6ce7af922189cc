"""Searches in the published list: by prefix and in any notation, at the same cost however long it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.server.web.seeded import Seeded, big_list, open_seeded, put_list, queries

from hushcall.protocol.blocklist import Entry
from hushcall.server.http.app import make_app
from hushcall.server.http.public_cache import Lists
from hushcall.server.web.findings import PAGE, search


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seeded]:
    """A hundred thousand entries."""
    made = open_seeded(tmp_path_factory.mktemp("many"))
    big_list(made.service, 100_000)
    yield made
    made.service.close()


@pytest.mark.parametrize(
    ("asked", "total"),
    [("", 100_000), ("202", 214), ("+1 (202)", 214), ("1202", 214), ("20", 1926), ("2027", 0), ("+1", 100_000)],
)
def test_a_prefix_finds_all_that_begin_so(many: Seeded, asked: str, total: int) -> None:
    found = Lists(many.service.store).newest()
    assert found is not None
    result = search(found, asked)
    digits = re.sub(r"\D", "", asked).removeprefix("1")
    expected = [line for line in found.index.data.splitlines() if line.startswith(b'{"number":"+1' + digits.encode())]
    assert result.total == len(expected) == total
    assert [entry.line().rstrip() for entry in result.entries] == expected[:50]


@pytest.mark.parametrize("asked", ["2012000000", "+1 201 200 0000", "1-201-200-0000", "(201) 200.0000"])
def test_a_number_is_found_in_any_notation(many: Seeded, asked: str) -> None:
    found = Lists(many.service.store).newest()
    assert found is not None
    result = search(found, asked)
    assert result.number == "+12012000000"
    assert [entry.number for entry in result.entries] == ["+12012000000"]


@pytest.mark.parametrize(
    "asked", ["hello", "+44 20 7946 0958", "20255501430", "000 000 0000", "+1 202 055 0143", "<b>"]
)
def test_what_is_no_number_is_said(many: Seeded, asked: str) -> None:
    found = Lists(many.service.store).newest()
    assert found is not None
    result = search(found, asked)
    assert result.problem
    assert not result.entries


def test_pages_of_a_search_end(many: Seeded) -> None:
    found = Lists(many.service.store).newest()
    assert found is not None
    last = search(found, "", 10**6)
    assert (last.page, last.pages, len(last.entries)) == (2000, 2000, 50)
    assert search(found, "", 2).entries[0] > search(found, "", 1).entries[-1]


def test_the_list_is_read_once_a_version(many: Seeded) -> None:
    lists, read = Lists(many.service.store), queries(many)
    for _ in range(5):
        lists.newest()
    assert len([one for one in read if "versions.data" in one]) == 1


@pytest.mark.parametrize("path", ["/", "/list", "/list?q=202", "/list?q=2012000000", "/rounds/13"])
def test_a_page_parses_what_it_shows_and_asks_few_questions_however_long_the_list_is(
    many: Seeded, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(many.service)
    client = TestClient(app, follow_redirects=False)
    client.post("/login", data={"token": many.token})
    client.get(path)
    app.state.site.forget()
    asked, parsed, parse = queries(many), list[bytes](), Entry.from_line

    def counted(line: bytes) -> Entry:
        parsed.append(line)
        return parse(line)

    monkeypatch.setattr(Entry, "from_line", counted)
    assert client.get(path).status_code == 200
    assert len(parsed) <= PAGE
    assert len([one for one in asked if not one.startswith("PRAGMA")]) <= 40
    assert not [one for one in asked if "versions.data" in one]


def test_rented_blocks_stand_below_the_list_and_with_each_number(tmp_path: Path) -> None:
    made = open_seeded(tmp_path)
    ten = [f"+1202555014{last}" for last in range(4)]
    hundred = [f"+131055502{tens}{last}" for tens in range(3) for last in range(4)]
    put_list(made.service, (*ten, *hundred, "+14155550100", "+14155550101", "+14155550102"))
    client = TestClient(make_app(made.service), follow_redirects=False)
    page = client.get("/list").text
    assert "2 ranges" in page
    assert all(words in page for words in ("+1202555014x", "4 of 10", "+131055502xx", "12 of 100"))
    assert "+141555501" + "0x" not in page
    assert "lies in the block +1202555014x, of which 4 of 10" in client.get("/list?q=2025550149").text
    assert "lies in the block" not in client.get("/list?q=2025550159").text
    client.post("/login", data={"token": made.token})
    assert "lies in the block +131055502xx, of which 12 of 100" in client.get("/numbers/+13105550299").text
    assert "lies in the block" not in client.get("/numbers/+14155550103").text
    made.service.close()


def test_an_empty_list_is_a_list_with_its_version(tmp_path: Path) -> None:
    made = open_seeded(tmp_path)
    big_list(made.service, 0)
    page = TestClient(make_app(made.service)).get("/list").text
    made.service.close()
    assert "No list has been published yet" not in page
    assert "0 numbers" in page
