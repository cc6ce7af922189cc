"""Tables of calls: nothing is read by a guess that nobody has seen, and what was said about a table is remembered."""

from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.client.conftest import Run

from hushcall.client.calls.ingest import GUESS, machine_zone, parse_columns, reader_for, zone_of_logs
from hushcall.client.storage.store import Store
from hushcall.errors import InvalidData, InvalidParameter
from hushcall.formats.calls.named_columns import NAMED_COLUMNS
from hushcall.formats.calls.reading import READERS

CARRIER = (
    "Date,Time,Number Called/From,Direction,Minutes\n"
    "03/01/2024,10:11:12,(202) 555-0143,Incoming,1\n"
    "03/14/2024,18:02:00,(202) 555-0177,Outgoing,3\n"
)
BILL = 'Wann;"Wer, genau";Art\n2024-03-01 10:11:12;202-555-0143;in\n2024-03-02 10:11:12;202-555-0177;out\n'


def test_columns_are_named_by_their_titles() -> None:
    assert parse_columns('date=Wann, "number=Wer, genau", type=Art, name=Wie') == {
        "date": "Wann",
        "number": "Wer, genau",
        "kind": "Art",
        "name": "Wie",
    }
    for wrong, rule in (
        ("date=A,number=B", "none of direction"),
        ("date=A,when=B", "be guess, or name columns"),
        ("date=A,date=B", "once each"),
        ("date=", "by their titles"),
        ("", "name the columns of date, number and direction"),
    ):
        with pytest.raises(InvalidParameter, match=rule):
            parse_columns(wrong)


def test_a_guess_is_shown_and_not_used() -> None:
    store = Store.in_memory()
    with pytest.raises(InvalidData) as caught:
        reader_for(store, CARRIER.encode(), ZoneInfo("America/New_York"), filename="carrier.csv")
    words = str(caught.value)
    assert "date: Date, duration: Minutes, direction: Direction, number: Number Called/From, time: Time" in words
    assert "its first call: incoming, 2024-03-01 10:11:12, America/New_York" in words
    assert "--columns guess takes this guess" in words
    assert "5550143" not in words.replace("-", "")  # no number in a message
    assert store.rows("SELECT * FROM settings") == []


def test_what_was_agreed_is_remembered_for_the_same_header() -> None:
    store = Store.in_memory()
    agreed = reader_for(store, CARRIER.encode(), UTC, columns=GUESS)
    again = reader_for(store, CARRIER.encode(), UTC)
    assert agreed is not None
    assert again is not None
    assert again.read(CARRIER.encode(), UTC) == NAMED_COLUMNS.read(CARRIER.encode(), UTC)
    with pytest.raises(InvalidData):
        reader_for(store, CARRIER.replace("Minutes", "Seconds").encode(), UTC)


def test_columns_that_no_guess_finds_are_read_as_they_were_named() -> None:
    store = Store.in_memory()
    reader = reader_for(store, BILL.encode(), UTC, columns='date=wann,"number=Wer, genau",direction=Art')
    assert reader is not None
    calls = reader.read(BILL.encode(), UTC).calls
    assert [(call.number, call.at, call.kind.value) for call in calls] == [
        ("202-555-0143", 1_709_287_872, "incoming"),
        ("202-555-0177", 1_709_374_272, "outgoing"),
    ]
    with pytest.raises(InvalidData, match=r"name one column of the table's \(Wann, Wer, genau, Art\)"):
        reader_for(store, BILL.encode(), UTC, columns="date=Date,number=Art,direction=Wann")
    with pytest.raises(InvalidData, match=r"have a number, a date and a direction"):
        reader_for(store, BILL.encode(), UTC, columns=GUESS)


def test_other_formats_are_nobodys_business() -> None:
    line = b"CID: *DATE*03152024*TIME*1011*LINE*-*NMBR*2025550143*MESG*NONE*NAME*NO NAME*\n"
    ncid = READERS["ncid"]
    assert reader_for(Store.in_memory(), line, UTC) is ncid
    assert reader_for(Store.in_memory(), line, UTC, columns=GUESS) is ncid  # among several files one may be a table
    assert reader_for(Store.in_memory(), b"", UTC) is None
    assert reader_for(Store.in_memory(), CARRIER.encode(), UTC, form="ncid") is ncid


def test_the_command_shows_and_remembers(run: Run, home: Path, tmp_path: Path) -> None:
    bill = tmp_path / "bill.csv"
    bill.write_text(CARRIER)
    said = run("ingest", bill)
    assert said.code == 2
    assert "table must have its columns named: --columns guess takes this guess: date: Date" in said.err
    assert "bill.csv" in said.err
    assert "1 number called" in run("ingest", bill, "--columns", "guess").text
    assert run("ingest", bill).code == 0
    other = tmp_path / "other.csv"
    other.write_text(BILL)
    assert "--columns date=…,number=…,direction=…" in run("ingest", other).err
    named = run("ingest", other, "--columns", 'date=Wann,"number=Wer, genau",direction=Art', "--json").json
    assert (named["logs"][0]["calls"], named["logs"][0]["format"]) == (2, "csv")


def test_times_without_a_zone_are_read_in_the_machines_and_that_is_said(
    run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "cidcall.log"
    log.write_text("CID: *DATE*03152024*TIME*1011*LINE*-*NMBR*2025550143*MESG*NONE*NAME*NO NAME*\n")
    monkeypatch.setenv("TZ", "America/New_York")
    said = run("ingest", log)
    assert "Its times have no zone: read as America/New_York, this machine's (--zone says another)." in said.text
    store = Store.open(home)
    assert store.row("SELECT last FROM callers WHERE number = '+12025550143'") == (1_710_511_860,)  # 14:11 UTC
    store.close()
    told = run("ingest", log, "--again", "--zone", "Europe/Berlin")
    assert "no zone" not in told.text
    exact = tmp_path / "calls.xml"
    exact.write_text('<calls><call number="2025550143" date="1709287872345" type="3"/></calls>')
    assert "no zone" not in run("ingest", exact).text


def test_the_zone_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.in_memory()
    monkeypatch.setenv("TZ", ":Asia/Tokyo")
    assert zone_of_logs(store) == ZoneInfo("Asia/Tokyo")
    monkeypatch.setenv("TZ", "no/such zone")
    assert machine_zone().utcoffset(None) is not None  # today's difference from UTC: better than nothing
    zone_of_logs(store, "Europe/Berlin")
    assert zone_of_logs(store) == ZoneInfo("Europe/Berlin")
