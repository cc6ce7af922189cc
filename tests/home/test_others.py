"""The other sources and places: logs that grow, a folder of a sync program, and Asterisk's database."""

from __future__ import annotations

import json
import sys
from datetime import UTC
from pathlib import Path

import pytest
from tests.formats.calls.writers import write

from hushcall.formats.calls.call import Call, CallKind
from hushcall_home.asterisk import Database
from hushcall_home.logs import Folder, Log
from hushcall_home.parts import Trouble

AT = 1_710_497_460  # a day after the 12th: NCID's order of day and month shows
CALLS = [Call(f"+1202555014{place}", AT + 60 * place, CallKind.INCOMING) for place in range(3)]


def numbers(calls: tuple[Call, ...]) -> list[str]:
    return ["+1" + call.number.lstrip("+")[-10:] for call in calls]


@pytest.mark.parametrize(("name", "form"), [("Master.csv", "asterisk"), ("cidcall.log", "ncid")])
def test_a_log_is_read_on_from_where_it_was(tmp_path: Path, name: str, form: str) -> None:
    path = tmp_path / name
    source = Log(path, UTC)
    with pytest.raises(Trouble, match="is not there"):
        source.calls("")
    path.write_bytes(write(form, CALLS[:2]))
    first = source.calls("")
    assert numbers(first.calls) == [call.number for call in CALLS[:2]]
    assert source.calls(first.position).calls == ()
    path.write_bytes(write(form, CALLS))
    assert numbers(source.calls(first.position).calls)[-1:] == [CALLS[2].number]
    assert list(source.contacts()) == []


def test_a_log_may_be_given_with_its_format(tmp_path: Path) -> None:
    path = tmp_path / "calls"
    early = [Call(call.number, call.at - 12 * 86_400, call.kind) for call in CALLS]  # the third of March, or of May?
    path.write_bytes(write("ncid", early))
    assert Log.named(str(path), UTC).calls("").words.startswith("calls cannot be read")
    assert numbers(Log.named(f"ncid:{path}", UTC).calls("").calls) == [call.number for call in CALLS]


def test_a_rotated_log_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "Master.csv"
    path.write_bytes(write("asterisk", CALLS[:1]))
    first = Log(path, UTC).calls("")
    path.write_bytes(write("asterisk", CALLS[:2]))
    path.rename(tmp_path / "Master.csv.1")
    path.write_bytes(write("asterisk", CALLS[2:]))
    assert numbers(Log(path, UTC).calls(first.position).calls) == [CALLS[1].number, CALLS[2].number]


def test_a_folder_reads_what_a_sync_program_puts_there(tmp_path: Path) -> None:
    source = Folder(tmp_path, UTC)
    assert source.calls("").calls == ()
    (tmp_path / "calls-1.xml").write_bytes(write("sms-backup", CALLS[:1]))
    (tmp_path / ".calls-2.xml.part").write_bytes(b"<calls")
    (tmp_path / "contacts.vcf").write_text("BEGIN:VCARD\nTEL:202-555-0199\nEND:VCARD\n")
    first = source.calls("")
    assert numbers(first.calls) == [CALLS[0].number]
    assert list(source.contacts()) == ["202-555-0199"]
    (tmp_path / "calls-2.xml").write_bytes(write("sms-backup", CALLS[1:2]))
    second = source.calls(first.position)
    assert numbers(second.calls) == [CALLS[1].number]
    assert source.calls(second.position).calls == ()


def test_a_file_that_cannot_be_read_yet_is_said_and_read_when_it_changes(tmp_path: Path) -> None:
    data = write("sms-backup", CALLS)
    (tmp_path / "calls.xml").write_bytes(b"half of something")
    source = Folder(tmp_path, UTC)
    first = source.calls("")
    assert first.calls == ()
    assert "calls.xml cannot be read" in first.words
    assert source.calls(first.position).words == "", "said once"
    (tmp_path / "calls.xml").write_bytes(data)
    assert len(source.calls(first.position).calls) == 3


def test_a_folder_reads_no_table_by_a_guess_of_its_columns(tmp_path: Path) -> None:
    (tmp_path / "calls.csv").write_text("date,number,direction\n2026-01-05 10:00,+12025550143,incoming\n")
    fetched = Folder(tmp_path, UTC).calls("")
    assert fetched.calls == ()
    assert "hushcall phone ingest --columns" in fetched.words


def test_a_folder_that_is_gone_is_trouble(tmp_path: Path) -> None:
    with pytest.raises(Trouble, match="cannot be read"):
        Folder(tmp_path / "gone", UTC).calls("")
    (tmp_path / "bad.vcf").write_text("BEGIN:VCARD\nTEL:#\nEND:VCARD\n")
    with pytest.raises(Trouble, match=r"bad\.vcf cannot be read"):
        list(Folder(tmp_path, UTC).contacts())


ASTERISK = """
import json, pathlib, shlex, sys
path = pathlib.Path(sys.argv[1])
rows = json.loads(path.read_text())
words = shlex.split(sys.argv[3])
if words[:2] == ["database", "show"]:
    for key, value in rows.items():
        print(f"/blacklist/{key:<25}: {value}")
    print(f"{len(rows)} results found.")
elif words[:2] == ["database", "put"]:
    rows[words[3]] = words[4]
elif words[:2] == ["database", "del"]:
    del rows[words[3]]
path.write_text(json.dumps(rows))
"""


def test_asterisk_holds_every_form_of_a_number_and_its_own_keys_stay(tmp_path: Path) -> None:
    """Before a stand-in for ``asterisk -rx`` with its own output."""
    program, path = tmp_path / "asterisk.py", tmp_path / "rows.json"
    program.write_text(ASTERISK)
    path.write_text(json.dumps({"9005550100": "1", "2025550199": "hushcall: seen 2 days"}))
    database = Database(f"{sys.executable} {program} {path}")
    written = database.write([CALLS[0].number, "+4930555010"])
    rows = json.loads(path.read_text())
    assert rows.pop("9005550100") == "1", "the household's own"
    assert set(rows) == {"+12025550140", "12025550140", "2025550140", *forms_of_berlin()}
    assert set(rows.values()) == {"hushcall"}
    assert written == "Asterisk holds 2 numbers."
    database.write([])
    assert json.loads(path.read_text()) == {"9005550100": "1"}


def forms_of_berlin() -> set[str]:
    return {"+4930555010", "4930555010", "004930555010", "030555010"}


def test_an_asterisk_that_is_away_is_trouble(tmp_path: Path) -> None:
    with pytest.raises(Trouble, match="does not answer"):
        Database(str(tmp_path / "nothing")).write([])
    with pytest.raises(Trouble, match="does not answer"):
        Database("false").write([])
