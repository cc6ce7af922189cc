"""Every export: golden bytes, read back to the same numbers, strict against anything else, and quick."""

import csv
import io
import os
import re
import sqlite3
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import Element

import pytest
from defusedxml.ElementTree import fromstring
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.blocklists.readers import WHY, held_by, numbers_of, read
from tests.formats.blocklists.write_golden import GOLDEN, main
from tests.lists import START, TERMS, big_list, blocklists, entries, sample

from hushcall.errors import HushcallError, InvalidList, InvalidParameter
from hushcall.formats.blocklists import WRITERS, Writer, ios_changes, writer_named
from hushcall.formats.blocklists.apps import integers
from hushcall.formats.blocklists.writer import why
from hushcall.protocol.blocklist import Blocklist, Entry

PAGE = Path(__file__).parents[3] / "docs" / "formats.md"
EVERY = pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
OF_NUMBERS = {name: writer for name, writer in WRITERS.items() if not name.endswith("-ranges")}
EXAMPLES = int(os.environ.get("HUSHCALL_FUZZ_EXAMPLES", "50"))
"""Damaged files to read, for each export."""
EMPTY = Blocklist(3, 3, START, TERMS, ())


@EVERY
def test_golden_bytes(writer: Writer) -> None:
    assert writer.write(sample()) == (GOLDEN / writer.filename).read_bytes()


def test_a_command_writes_golden_files_that_are_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tests.formats.blocklists.write_golden.GOLDEN", tmp_path)
    (tmp_path / "blocklist.txt").write_text("kept")
    main([])
    assert {path.name for path in tmp_path.iterdir()} >= {path.name for path in GOLDEN.iterdir()}
    assert (tmp_path / "blocklist.txt").read_text() == "kept"


def test_every_golden_file_belongs_to_a_writer() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {writer.filename for writer in WRITERS.values()}
    assert all(name == writer.name for name, writer in WRITERS.items())


@EVERY
def test_the_page_has_the_command_and_a_true_sample(writer: Writer) -> None:
    page = PAGE.read_text(encoding="utf-8")
    section = re.split(r"\n###? ", page.split(f"\n### {writer.name}\n")[1])[0]
    command = f"`hushcall export --to {writer.name}` writes `{writer.filename}` for {writer.title}"
    assert " ".join(section.split()).startswith(command)
    sample_lines = section.split("\n```\n")[1].splitlines()
    golden = (GOLDEN / writer.filename).read_text()
    assert sample_lines
    assert all(line in golden for line in sample_lines)


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
@given(blocklist=blocklists())
@settings(max_examples=30)
def test_what_is_written_is_read_back(writer: Writer, blocklist: Blocklist) -> None:
    data = writer.write(blocklist)
    assert read(writer.name, data) == held_by(writer.name, blocklist)
    assert writer.write(Blocklist.from_bytes(blocklist.to_bytes())) == data, "of the list and of its bytes, the same"


@EVERY
def test_an_empty_list_is_written_and_read(writer: Writer) -> None:
    assert read(writer.name, writer.write(EMPTY)) == frozenset()


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
@given(noise=st.binary(max_size=300))
@settings(max_examples=50)
def test_noise_never_escapes_our_errors(writer: Writer, noise: bytes) -> None:
    try:
        found = read(writer.name, noise)
    except HushcallError:
        return
    assert found == frozenset() or all(number[1:].encode() in noise for number in found)


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
@given(data=st.data())
@settings(max_examples=EXAMPLES, deadline=None)
def test_damage_never_escapes_our_errors(writer: Writer, data: st.DataObject) -> None:
    whole = bytearray(writer.write(sample()))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    with suppress(HushcallError):
        read(writer.name, bytes(whole))


@pytest.mark.parametrize("writer", OF_NUMBERS.values(), ids=OF_NUMBERS)
def test_a_number_that_stands_twice_or_is_none_is_refused(writer: Writer) -> None:
    data = writer.write(replace(sample(), entries=sample().entries[:2]))
    for wrong in (
        data.replace(b"2025550141", b"2025550140"),
        data.replace(b"2025550141", b"20255x0141"),
        data.replace(b"2025550141", b"2025550141202555"),
        data.replace(b"2025550141", "202555014١".encode()),
    ):
        assert wrong != data
        with pytest.raises(InvalidList):
            read(writer.name, wrong)


@EVERY
def test_many_numbers_come_back_as_many(writer: Writer, many: Blocklist) -> None:
    assert len(read(writer.name, writer.write(many))) == len(held_by(writer.name, many))


@pytest.fixture(scope="module")
def many() -> Blocklist:
    return big_list(10_000)


def test_an_unknown_name_is_answered_with_the_names_there_are() -> None:
    with pytest.raises(InvalidParameter, match=r"be one of spamblocker, yacb, .*phoneblock, got 'winamp'"):
        writer_named("winamp")


@given(entries())
def test_reasons_need_no_escaping_anywhere(found: tuple[Entry, ...]) -> None:
    for entry in found:
        assert re.fullmatch(WHY, why(entry))
        assert re.fullmatch(r"[a-z0-9:\- ]+", why(entry))


@pytest.mark.parametrize("name", ["spamblocker", "yacb", "freepbx", "kamailio-csv"])
def test_a_spreadsheet_finds_the_columns_and_no_formula(name: str) -> None:
    rows = list(csv.DictReader(io.StringIO(WRITERS[name].write(sample()).decode(), newline="")))
    column = {"freepbx": "number", "kamailio-csv": "prefix"}.get(name, "pattern")
    assert {row[column].removeprefix("+") for row in rows} >= {entry.number[1:] for entry in sample().entries}
    cells = [cell for row in rows for cell in row.values()]
    assert all(re.fullmatch(r"\+?[0-9]*|" + WHY, cell) for cell in cells)


def test_kamailio_statements_replace_ours_and_spare_the_operators() -> None:
    base = sqlite3.connect(":memory:")
    base.execute(
        "CREATE TABLE globalblocklist (id INTEGER PRIMARY KEY AUTOINCREMENT, prefix VARCHAR(64) DEFAULT '' NOT NULL, "
        "allowlist CHAR(1) DEFAULT '0' NOT NULL, description VARCHAR(255) DEFAULT '' NOT NULL)"
    )
    base.execute("INSERT INTO globalblocklist (prefix, description) VALUES ('1900', 'premium')")
    base.commit()
    for made in (sample(), big_list(1201), replace(sample(), entries=sample().entries[3:]), EMPTY):
        base.executescript(WRITERS["kamailio"].write(made).decode())
        rows = base.execute("SELECT prefix, allowlist FROM globalblocklist").fetchall()
        assert sorted(rows) == sorted([("1900", "0"), *((number[1:], "0") for number in numbers_of(made))])


def test_kamailio_allows_what_goes_on_after_a_listed_number() -> None:
    """The longest prefix wins there: nobody is blocked whose number only begins like a listed one."""
    first = sample().entries[0]
    listed = tuple(replace(first, number=number) for number in ("+12025550140", "+493012345", "+4930123457"))
    rows = csv.DictReader(io.StringIO(WRITERS["kamailio-csv"].write(replace(sample(), entries=listed)).decode()))
    table = {row["prefix"]: row["allowlist"] for row in rows}

    def declined(digits: str) -> bool:
        longest = max((prefix for prefix in table if digits.startswith(prefix)), key=len, default="")
        return table.get(longest) == "0"

    assert all(map(declined, ("12025550140", "493012345", "4930123457")))
    assert not any(map(declined, ("4930123456", "493012345678", "49301234571", "12025550141")))


def test_kamailio_statements_have_to_be_whole() -> None:
    data = WRITERS["kamailio"].write(big_list(501))
    lines = data.splitlines(keepends=True)
    for wrong in (lines[:-1], lines[1:], lines[:3] + lines[4:-2] + lines[-1:], [*lines[:2], *lines[3:]], lines[::-1]):
        with pytest.raises(InvalidList):
            read("kamailio", b"".join(wrong))


@given(blocklists())
def test_ios_numbers_ascend_strictly_and_fit_64_bits(blocklist: Blocklist) -> None:
    found = [int(line) for line in WRITERS["ios"].write(blocklist).split()]
    assert found == sorted(set(found))
    assert all(0 < number < 2**63 for number in found)


def test_ios_numbers_out_of_order_are_refused() -> None:
    with pytest.raises(InvalidList, match="ascend strictly"):
        read("ios", b"12025550143\n4930123456\n")
    assert read("ios", b"4930123456\n12025550143\n") == {"+4930123456", "+12025550143"}


@given(blocklists(), blocklists())
def test_ios_changes_lead_from_one_list_to_the_next(old: Blocklist, new: Blocklist) -> None:
    added, removed = ios_changes(old, new)
    held = set(integers(old))
    assert held.issuperset(removed)
    assert held.isdisjoint(added)
    assert (held - set(removed)) | set(added) == set(integers(new))
    assert list(added) == sorted(added)
    assert list(removed) == sorted(removed)
    assert ios_changes(None, new) == (integers(new), ())
    assert ios_changes(new, new) == ((), ())


def test_pbx_files_hold_each_form_that_a_trunk_may_present() -> None:
    line = WRITERS["asterisk"].write(sample()).decode()
    for form in ("+12025550143", "12025550143", "2025550143"):
        assert f"database put blacklist {form} " in line
    with pytest.raises(InvalidList, match="every form"):
        read("asterisk", b"".join(WRITERS["asterisk"].write(sample()).splitlines(keepends=True)[:-1]))


@pytest.mark.parametrize("presented", ["2025550143", "12025550143"])
def test_ncid_expressions_match_their_number_with_and_without_the_1(presented: str) -> None:
    expressions = [line.split(" #= ")[0] for line in WRITERS["ncid"].write(sample()).decode().splitlines()]
    matching = [expression for expression in expressions if re.search(expression, presented)]
    assert matching == ["^1?2025550143"]
    assert not [expression for expression in expressions if re.search(expression, "3012025550143")]


@given(blocklists())
def test_ncid_shows_remarks_whole(blocklist: Blocklist) -> None:
    lines = WRITERS["ncid"].write(blocklist).decode().splitlines()
    assert all(len(line.split(" #= ")[1]) <= 50 for line in lines)


def test_a_fritzbox_knows_the_types_of_all_numbers() -> None:
    book: Element = fromstring(WRITERS["fritzbox"].write(sample()))
    assert {number.get("type") for number in book.iter("number")} <= {"home", "work", "mobile", "fax_work"}


def test_contacts_hold_nine_numbers_at_most_and_are_named_after_the_first() -> None:
    book: Element = fromstring(WRITERS["fritzbox"].write(sample()))
    assert [len(contact.findall("telephony/number")) for contact in book.iter("contact")] == [9, 2]
    assert [element.get("nid") for element in book.iter("telephony")] == ["9", "2"]
    uids = re.findall(r"UID:(.*)\r", WRITERS["vcard"].write(sample()).decode())
    assert uids == ["hushcall-12025550140", "hushcall-12025550149"]
    assert all(len(line) <= 75 for line in WRITERS["vcard"].write(big_list(100)).splitlines())


LAUGHS = b"".join(b'<!ENTITY a%d "%s">' % (i, b"&a%d;" % (i - 1) * 10) for i in range(1, 12))


@pytest.mark.parametrize(
    "start",
    [
        b'<!DOCTYPE phonebooks [<!ENTITY a0 "ha">' + LAUGHS + b"]>",
        b'<!DOCTYPE phonebooks [<!ENTITY a11 SYSTEM "file:///etc/hostname">]>',
        b'<!DOCTYPE phonebooks SYSTEM "http://127.0.0.1:9/x.dtd">',
    ],
)
def test_hostile_phonebooks_are_refused_at_once(start: bytes) -> None:
    body = b'<phonebooks><phonebook name="x"><contact><telephony><number>+1202555%s</number></telephony></contact>'
    end = b"</phonebook></phonebooks>"
    assert read("fritzbox", body % b"0143" + end) == {"+12025550143"}
    with pytest.raises(InvalidList, match="XML without a document type"):
        read("fritzbox", start + body % b"&a11;" + end)


@pytest.mark.parametrize(
    "data",
    [b"<phonebooks/>", b"<x/>", b"", b"\xff\xfe<", b"<?xml version='1.0' encoding='rot13'?><a/>", b"<a>" * 10_000],
)
def test_what_is_no_phonebook_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidList):
        read("fritzbox", data)


def test_a_plain_list_cut_short_is_refused() -> None:
    lines = WRITERS["plain"].write(sample()).splitlines(keepends=True)
    with pytest.raises(InvalidList, match="whole"):
        read("plain", b"".join(lines[:-1]))
    with pytest.raises(InvalidList, match="header"):
        read("plain", b"".join(lines[1:]))
