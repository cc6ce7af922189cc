"""Every format: what its sample holds, that it is known for what it is, and that what is written is read again."""

import os
from dataclasses import dataclass
from datetime import UTC, timedelta, timezone, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.calls.writers import WRITERS, write
from tests.imports import brought_by

from hushcall.errors import HushcallError, InvalidData, InvalidParameter
from hushcall.formats.calls.call import Call, CallKind, ReadResult, clean_name
from hushcall.formats.calls.contacts import read_contacts
from hushcall.formats.calls.reader import Reader
from hushcall.formats.calls.reading import READERS, detect, read_calls, reader_named

SAMPLES = Path(__file__).parent / "samples"
EXAMPLES = int(os.environ.get("HUSHCALL_FUZZ_EXAMPLES", "400"))
"""Mutated samples to read: 20 000 take about a minute."""
BERLIN = ZoneInfo("Europe/Berlin")
INCOMING, OUTGOING, MISSED, VOICEMAIL, REJECTED, BLOCKED = CallKind

MARCH = 1_709_287_860  # 2024-03-01 10:11:00 UTC
HOUR = 3600
DAY = 24 * HOUR
IDES = MARCH + 14 * DAY  # the 15th: no month, so a date's parts can be told apart


@dataclass(frozen=True)
class Sample:
    """What a sample must be read as."""

    format: str
    calls: tuple[Call, ...]
    malformed: int
    first_problem: str
    zone: tzinfo = UTC


SMS_BACKUP_CALLS = (
    Call("+12025550143", MARCH + 12, MISSED, "", 0),
    Call("202-555-0144", MARCH + 13, INCOMING, "O'Neil & Söhne", 61),
    Call("", MARCH + 14, REJECTED, "", 0),
    Call("+12025550145", MARCH + 15, BLOCKED, "", 0),
    Call("+12025550146", MARCH + 16, OUTGOING, "", 9),
    Call("+12025550147", MARCH + 17, INCOMING, "", 9),
)
EXCHANGE_CALLS = (  # a stranger in vain, a stranger, and somebody called from a desk
    Call("+12025550143", MARCH + 12, MISSED, "", 0),
    Call("2025550144", MARCH + 60, INCOMING, "", 55),
    Call("12025550145", MARCH + 180, OUTGOING, "", 55),
)

EXPECTED = {
    "termux-call-log.json": Sample(
        "termux",
        (
            Call("+12025550143", MARCH + 12, MISSED, "", 0),
            Call("(202) 555-0144", MARCH + 60, INCOMING, 'Zoë "Z" Ōkami', 3723),  # the date is in Arabic digits
            Call("", MARCH + 120, REJECTED, "", 0),
            Call("+1 202 555 0146", MARCH + 240, OUTGOING, "", 10),  # was wrapped in invisible marks
        ),
        2,
        "record 4: type must be INCOMING, OUTGOING, MISSED, VOICEMAIL, REJECTED, BLOCKED",
    ),
    "calls-20240301101112.xml": Sample(
        "sms-backup", SMS_BACKUP_CALLS, 3, "record 7: date must be a number of milliseconds"
    ),
    "calls-utf16.xml": Sample("sms-backup", SMS_BACKUP_CALLS, 3, "record 7: date must be a number of milliseconds"),
    "call_log.txt": Sample(
        "adb",
        (
            Call("+12025550143", MARCH + 12, MISSED, "", 0),  # call_screening_app_name is not its name
            Call("2025550144", MARCH + 13, INCOMING, "Doe, Jane, Dr.", 61),
            Call("", MARCH + 14, MISSED),
            Call("2025550149", MARCH + 17, BLOCKED),
        ),
        3,
        "line 4: type must be a number from 1 to 7",
    ),
    "CallHistory.storedata": Sample(
        "ios",
        (
            Call("+12025550143", MARCH + 12, MISSED, "", 0),
            Call("2025550144", MARCH + 13, INCOMING, "Jane", 61),  # the address is a blob, the duration 61.7
            Call("", MARCH + 14, MISSED, "", 0),
            Call("+1 (202) 555-0145", MARCH + 15, OUTGOING, "", 0),
            Call("jane@example.com", MARCH + 16, INCOMING, "", 0),
        ),
        2,
        "record 5: date must be a number of seconds",
    ),
    "asterisk-Master.csv": Sample(
        "asterisk",
        (
            *EXCHANGE_CALLS,
            Call("", MARCH + 420, VOICEMAIL, "", 0),  # nobody but the exchange answered
            Call("2025550146", MARCH + 540, OUTGOING),  # both numbers are long: the context tells
            Call("2025550149", MARCH + 660, MISSED, "", 0),
        ),
        2,
        "line 7: line must be well-formed CSV",
    ),
    "freeswitch-Master.csv": Sample(
        "freeswitch",
        (
            *EXCHANGE_CALLS,
            Call("", MARCH + 420, REJECTED, "", 0),
            Call("2025550146", MARCH + 540, OUTGOING, "", 55),
        ),
        2,
        "line 7: line must have at least 10 columns",
    ),
    "FRITZ!Box_Anrufliste.csv": Sample(
        "fritzbox-csv",
        (
            Call("0012025550143", MARCH - HOUR, MISSED, "", 0),
            Call("0012025550144", MARCH - HOUR + 60, INCOMING, "Müller; Jürgen", 120),
            Call("0012025550145", MARCH - HOUR + 120, REJECTED, "", 0),
            Call("0012025550146", MARCH - HOUR + 180, OUTGOING, "", 60),
            Call("", MARCH - HOUR + 240, MISSED, "", 0),
            Call("0012025550149", 1_711_848_600, MISSED, "", 0),  # 02:30 on the night that has no 02:30
        ),
        2,
        "record 6: type must be a number from 1 to 4",
        BERLIN,
    ),
    "FRITZ!Box_Anrufliste_old.csv": Sample(
        "fritzbox-csv",
        (
            Call("2025550143", 1_155_888_420, INCOMING, "", 60),
            Call("2025550144", 1_155_888_480, OUTGOING, "Łucja", 60),
        ),
        1,
        "record 3: row must have 7 or 8 columns",
        BERLIN,
    ),
    "calllist.xml": Sample(
        "fritzbox-xml",
        (
            Call("0012025550143", MARCH - HOUR, MISSED, "", 0),
            Call("0012025550144", MARCH - HOUR + 60, INCOMING, "Jürgen & Söhne", 120),
            Call("0012025550145", MARCH - HOUR + 120, VOICEMAIL, "", 60),
            Call("0012025550146", MARCH - HOUR + 180, OUTGOING, "", 60),
            Call("0012025550147", MARCH - HOUR + 240, REJECTED, "", 0),
            Call("", MARCH - HOUR + 300, INCOMING, "", 0),
        ),
        2,
        "record 7: Type must be one of 1, 2, 3, 9, 10, 11",
        BERLIN,
    ),
    "cidcall.log": Sample(
        "ncid",
        (
            Call("12025550143", IDES, INCOMING),  # the name came with the call, so it is not a contact's
            Call("2025550144", IDES + 60, BLOCKED),
            Call("", IDES + 120, INCOMING),
            Call("2025550145", IDES + 180, OUTGOING),
            Call("2025550146", IDES + 240, INCOMING),
        ),
        3,
        "line 9: date must be written mmddyyyy hhmm",
    ),
    "cidcall-day-first.log": Sample(
        "ncid-day-first",
        (Call("12025550143", MARCH, INCOMING), Call("2025550145", IDES + 180, OUTGOING)),
        1,
        "line 3: date must be written ddmmyyyy hhmm",
    ),
    "carrier.csv": Sample(
        "csv",
        (
            Call("(202) 555-0143", MARCH + 12, INCOMING, "", 60),  # its column has minutes
            Call("2025550144", MARCH + 60, OUTGOING, "", 120),
            Call("", MARCH + 12 * (DAY + HOUR) + 60, MISSED, "", 0),
        ),
        1,
        "record 4: type must say whether the call came in, went out or was missed",
    ),
}
READER_IDS = sorted(READERS)
readers = pytest.mark.parametrize("reader", [READERS[name] for name in READER_IDS], ids=READER_IDS)


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def test_there_is_a_sample_of_every_format() -> None:
    assert {case.format for case in EXPECTED.values()} == set(READERS)


def test_there_is_a_talk_in_a_sample_of_every_format_whose_logs_have_durations() -> None:
    """An answered call of twenty seconds or more, which makes its caller known. NCID's logs have no durations."""
    talks = {case.format for case in EXPECTED.values() for call in case.calls if (call.duration_seconds or 0) >= 20}
    assert talks == {name for name in READERS if WRITERS[name].duration_unit}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_sample_is_read_as_expected(name: str) -> None:
    case = EXPECTED[name]
    result = read_calls(sample(name), zone=case.zone)
    assert result.calls == case.calls
    assert (result.format, result.malformed, result.first_problem) == (case.format, case.malformed, case.first_problem)


@pytest.mark.parametrize("name", EXPECTED)
def test_exactly_one_reader_claims_a_sample(name: str) -> None:
    head = sample(name)[:8192]
    assert [reader.name for reader in READERS.values() if reader.sniff(head)] == [EXPECTED[name].format]
    assert detect(head).name == EXPECTED[name].format


@pytest.mark.parametrize("name", ["contacts.vcf", "contacts.txt", "termux-contact-list.json"])
def test_contacts_are_no_call_log(name: str) -> None:
    with pytest.raises(InvalidData, match=r"call log must be in a known format.*termux, sms-backup, adb, ios"):
        detect(sample(name), name)


@readers
def test_only_one_reader_claims_what_a_reader_writes(reader: Reader) -> None:
    written = write(reader.name, [Call("+12025550143", IDES, INCOMING)])
    assert [other.name for other in READERS.values() if other.sniff(written[:8192])] == [reader.name]


def test_an_unknown_log_is_named_without_its_folder() -> None:
    with pytest.raises(InvalidData, match=r"be in a known format; .*got 'Master\.csv'"):
        detect(b"rubbish", "C:\\calls\\Master.csv")


def ncid_line(date: str) -> str:
    return f"CID: *DATE*{date}*TIME*1011*LINE*POTS*NMBR*12025550143*MESG*NONE*NAME*ACME SALES*\n"


@pytest.mark.parametrize(
    ("dates", "expected"),
    [(["03012024", "03132024"], "ncid"), (["03012024", "13032024"], "ncid-day-first"), (["12312023"], "ncid")],
)
def test_an_ncid_log_tells_by_a_day_after_the_twelfth_which_part_is_the_day(dates: list[str], expected: str) -> None:
    assert detect("".join(map(ncid_line, dates)).encode(), "cidcall.log").name == expected


@pytest.mark.parametrize("dates", [["03012024", "12122024"], ["03132024", "13032024"]])
def test_an_ncid_log_whose_dates_do_not_tell_is_refused(dates: list[str]) -> None:
    data = ("# cidcall.log\n" + "".join(map(ncid_line, dates))).encode()
    with pytest.raises(InvalidData, match="surely one of ncid, ncid-day-first; --format says which"):
        read_calls(data, filename="cidcall.log")


@pytest.mark.parametrize(
    ("dates", "expected"),
    [
        (["1/3/2024 10:11", "13/3/2024 10:11"], [MARCH, MARCH + 12 * DAY]),
        (["3/1/24 10:11 AM", "3/13/24 10:11 PM"], [MARCH, MARCH + 12 * (DAY + HOUR)]),
        (["2024-03-01T10:11:00", "2024-03-01 10:11"], [MARCH, MARCH]),
        (["1709287860", "1709287860000"], [MARCH, MARCH]),
        (["3/3/2024 10:11", "1/3/2024 10:11"], [MARCH + 2 * DAY]),  # the other one could be January the third
    ],
)
def test_dates_of_a_table_with_named_columns(dates: list[str], expected: list[int]) -> None:
    rows = "".join(f"2025550143;{date};in\n" for date in dates)
    result = read_calls(f"Phone Number;Date/Time;Direction\n{rows}".encode())
    assert (result.format, [call.at for call in result.calls]) == ("csv", expected)
    assert result.malformed == len(dates) - len(expected)


@pytest.mark.parametrize(
    ("title", "durations", "seconds"),
    [
        ("Duration", ["61", "1:01", "0:01:01", "1 min 1 s", "1m1s", "61 sec."], [61] * 5 + [None]),
        ("Minutes", ["2", "1.5", "0:20"], [120, 90, 20]),
        ("Call Duration (min)", ["0", "3"], [0, 180]),
        ("Duration_in_seconds", ["3"], [3]),
        ("Duration", ["", "-", "long", "-5", "1:2:3:4", "9" * 30], [None] * 6),
        ("Rate", ["61"], [None]),
    ],
)
def test_durations_of_a_table_with_named_columns(title: str, durations: list[str], seconds: list[int | None]) -> None:
    rows = "".join(f"2025550143;1709287860;in;{duration}\n" for duration in durations)
    result = read_calls(f"Number;Date;Direction;{title}\n{rows}".encode())
    assert ([call.duration_seconds for call in result.calls], result.malformed) == (seconds, 0)


def test_a_duration_that_cannot_be_read_is_unknown_and_costs_no_call() -> None:
    row = '<calls><call number="2025550143" duration="{}" date="1709287860000" type="1" /></calls>'
    for written, seconds in (("61", 61), ("", None), ("-1", None), ("NaN", None), ("9" * 40, None)):
        assert [call.duration_seconds for call in read_calls(row.format(written).encode()).calls] == [seconds]


def test_a_table_that_does_not_say_which_calls_went_out_is_refused() -> None:
    with pytest.raises(InvalidData, match=r"a type or direction \(understood: date: Date, number: Number\)"):
        read_calls(b"Date,Number\n2024-03-01 10:11:12,2025550143\n", "csv")


def test_an_unknown_format_is_named_with_the_known_ones() -> None:
    with pytest.raises(InvalidParameter, match=r"format must be one of termux, .*ncid.*, got 'excel'"):
        read_calls(b"x", "excel")
    assert reader_named("ncid").title == "NCID log"


# Calls that the format at hand can hold: numbers of strangers, names as phones show them, dates in its resolution.
numbers = st.from_regex(r"(\+1|1|)(202|\(202\) |202-)55501[0-9]{2}", fullmatch=True)
names = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=20).map(clean_name)
awkward = st.sampled_from(["", 'a"b', "<&>", "O'Neil", "Müller; Jürgen", "Ōkami 狼", "-", "(unknown)"]).map(clean_name)


@st.composite
def calls_for(draw: st.DrawFn, reader: Reader) -> list[Call]:
    result: list[Call] = []
    unit = WRITERS[reader.name].duration_unit
    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(sorted(WRITERS[reader.name].kinds)))
        number = draw(numbers if kind == OUTGOING else numbers | st.just(""))
        name = draw(names | awkward) if WRITERS[reader.name].names else ""
        if reader.name == "adb":
            name = name.replace(",", "")  # a comma may begin the next column there
        at = draw(st.integers(946_771_200, 4_102_358_400))  # from 2000 on: FRITZ!Box writes years with two digits
        moment, name = at - at % WRITERS[reader.name].seconds, "" if name == "NULL" else name.strip()
        duration = draw(st.none() | st.integers(0, 9999).map(lambda value: value * unit)) if unit else None
        result.append(Call(number, moment, kind, name, duration))
    return result


@readers
@given(data=st.data(), hours=st.integers(-12, 14))
@settings(max_examples=40, deadline=None)
def test_what_is_written_is_read_again(reader: Reader, data: st.DataObject, hours: int) -> None:
    calls = data.draw(calls_for(reader))
    zone = timezone(timedelta(hours=hours))
    written = write(reader.name, calls, zone)
    assert reader.read(written, zone) == ReadResult(tuple(calls), consumed=len(written), format=reader.name)
    if calls and not reader.name.startswith("ncid"):  # whose dates do not always tell
        assert read_calls(written, zone=zone).calls == tuple(calls)


@readers
@pytest.mark.parametrize("nothing", [b"", b"\n", b" \r\n\t"])
def test_an_empty_file_has_no_calls(reader: Reader, nothing: bytes) -> None:
    assert reader.read(nothing) == ReadResult(consumed=len(nothing), format=reader.name)
    assert read_calls(nothing) == ReadResult(consumed=len(nothing))


@readers
@pytest.mark.parametrize("rubbish", [b"\x89PNG\r\n\x1a\n\x00\x00", b"hello", b"<html></html>", b"{}", b"a,b\nc,d\n"])
def test_a_file_of_something_else_is_an_error_that_helps(reader: Reader, rubbish: bytes) -> None:
    with pytest.raises(InvalidData) as caught:
        reader.read(rubbish)
    assert reader.title in str(caught.value)
    assert len(str(caught.value)) < 400


@readers
@given(data=st.binary(max_size=300))
@settings(max_examples=40, deadline=None)
def test_random_bytes_raise_only_our_errors(reader: Reader, data: bytes) -> None:
    survive(reader, data)


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, bytes]:
    """A sample with a piece cut out, doubled, or replaced."""
    name = draw(st.sampled_from(sorted(path.name for path in SAMPLES.iterdir())))
    data = sample(name)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        stop = draw(st.integers(start, min(len(data), start + 40)))
        patch = draw(st.sampled_from([b"", data[start:stop] * 2]) | st.binary(max_size=8) | st.sampled_from(NASTY))
        data = data[:start] + patch + data[stop:]
    return name, data


NASTY = [
    b"\x00",
    b"9" * 5000,
    b"-1",
    b"nan",
    b"1e999",
    b'"',
    b"\xff\xfe",
    b"\n",
    b"*",
    b"\\ud800",
    b"[" * 500,
    b"<a>" * 50,
]


@given(mutated())
@settings(max_examples=EXAMPLES, deadline=None)
def test_mutated_samples_raise_only_our_errors(case: tuple[str, bytes]) -> None:
    name, data = case
    if name in EXPECTED:
        survive(READERS[EXPECTED[name].format], data)
    for head in (b"", b"BEGIN:VCARD\n", b"["):
        try:
            contacts = read_contacts(head + data)
        except HushcallError:
            continue
        assert all(number.isprintable() for number in contacts.numbers)


def survive(reader: Reader, data: bytes) -> None:
    for chunk in (False, True):
        try:
            result = reader.read(data, BERLIN, chunk=chunk)
        except HushcallError:
            continue
        assert 0 <= result.consumed <= len(data)
        assert bool(result.first_problem) == bool(result.malformed)
        for call in result.calls:
            (call.number + call.name).encode()


@pytest.mark.parametrize("number", ["2025550143", "+12025550143"])
def test_no_problem_shows_a_phone_number(number: str) -> None:
    spoilt = [
        ("adb", f"Row: 0 number={number}, date={number}x, type=1\n"),
        ("ncid", f"CID: *DATE*{number}*TIME*{number}*NMBR*{number}*\n"),
        ("asterisk", f'"","{number}"\n'),
        ("freeswitch", f'"","{number}"\n'),
        ("fritzbox-csv", f"Typ;Datum;Name;Rufnummer;A;B;C\n1;{number};;{number};a;b;c\n"),
        ("termux", f'[{{"phone_number": "{number}", "type": "{number}"}}]'),
        ("sms-backup", f'<calls><call number="{number}" type="{number}"/></calls>'),
        ("fritzbox-xml", f"<root><Call><Type>{number}</Type></Call></root>"),
    ]
    for name, text in spoilt:
        with pytest.raises(InvalidData) as caught:
            read_calls(text.encode(), name)
        assert number[-10:] not in str(caught.value), name


def test_reading_costs_no_heavy_import() -> None:
    heavy = {"numpy", "sqlite3", "json", "csv", "defusedxml", "xml.etree.ElementTree"}
    assert not heavy & brought_by("hushcall.formats.calls.contacts", "hushcall.formats.calls.reading")


def test_a_header_with_a_title_of_a_hundred_thousand_characters_and_more_is_refused_by_name() -> None:
    """Found by the fuzzer: it ended in an error of the csv module."""
    with pytest.raises(InvalidData, match=r"have a header with a number.*\(understood: nothing\)"):
        read_calls(b'"' + b"a" * 140_000 + b'",Number,Type\n', "csv")
