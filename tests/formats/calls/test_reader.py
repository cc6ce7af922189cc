"""What all formats share: growing logs, chunks, encodings, limits."""

import codecs
import re
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.calls.writers import write

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call, CallKind
from hushcall.formats.calls.reader import MAX_LINE_BYTES, LogReader, Reader
from hushcall.formats.calls.reading import READERS, read_calls
from hushcall.formats.calls.text import MAX_BYTES

LOGS = [reader for reader in READERS.values() if isinstance(reader, LogReader)]
logs = pytest.mark.parametrize("reader", LOGS, ids=lambda reader: reader.name)
files = pytest.mark.parametrize("reader", [r for r in READERS.values() if not r.grows], ids=lambda reader: reader.name)
CALLS = tuple(Call(f"202555010{digit}", 1_710_497_460 + 60 * digit, CallKind.INCOMING) for digit in range(6))
PAGE = (Path(__file__).parents[3] / "docs" / "formats.md").read_text(encoding="utf-8")
SAMPLES = [line.split(maxsplit=1) for line in PAGE.split("```text\n")[1].split("```")[0].splitlines()]
ROOTS = {"sms-backup": ("<calls>", "</calls>"), "fritzbox-xml": ("<root>", "</root>")}
"""What the page leaves out around a sample."""


def test_the_logs_are_those_that_programs_append_to() -> None:
    assert {reader.name for reader in LOGS} == {"adb", "asterisk", "freeswitch", "ncid", "ncid-day-first"}


@logs
@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_a_log_read_in_any_chunks_gives_each_call_once(reader: LogReader, data: st.DataObject) -> None:
    log = write(reader.name, CALLS)
    sizes = sorted(data.draw(st.lists(st.integers(0, len(log)), max_size=6)))
    found: list[Call] = []
    start = 0
    for size in [*sizes, len(log)]:  # the log as it is at each visit
        result = reader.read(log[start:size], UTC, chunk=True)
        assert result.malformed == 0
        found.extend(result.calls)
        start += result.consumed
        assert start == log.rfind(b"\n", 0, size) + 1
    assert tuple(found) == CALLS


@logs
def test_a_last_line_still_being_written_is_left_alone_and_not_malformed(reader: LogReader) -> None:
    log = write(reader.name, CALLS)
    border = log.rfind(b"\n", 0, len(log) - 1) + 1
    outcomes = set()
    for cut in range(border + 1, len(log)):
        result = reader.read(log[:cut])
        outcomes.add((result.calls, result.malformed, result.consumed - cut * (result.consumed == cut)))
    # Either all that matters was there already and the line is taken, or it waits: never half a number or date.
    assert outcomes == {(CALLS[:-1], 0, border)} | ({(CALLS, 0, 0)} if reader.closed else set())


@logs
def test_a_last_line_that_lacks_only_its_end_is_read_unless_more_may_come(reader: LogReader) -> None:
    log = write(reader.name, CALLS).rstrip(b"\n")
    border = log.rfind(b"\n") + 1
    expected = (CALLS, len(log)) if reader.closed else (CALLS[:-1], border)
    assert (reader.read(log).calls, reader.read(log).consumed) == expected
    chunk = reader.read(log, chunk=True)
    assert (chunk.calls, chunk.consumed) == (CALLS[:-1], border)
    assert reader.read(log[border:]).calls == CALLS[-1:]  # a file of one line is taken at its word


@logs
def test_a_chunk_of_nothing_readable_is_counted_but_a_file_of_it_is_an_error(reader: LogReader) -> None:
    result = reader.read(b"?,?\n?,?\n", chunk=True)
    assert (result.calls, result.malformed, result.consumed) == ((), 2, 8)
    for rubbish in (b"?,?\n?,?\n", b"?,?"):
        with pytest.raises(InvalidData, match=f"{reader.title} file must have readable lines.*formats"):
            reader.read(rubbish)


@logs
def test_a_problem_is_placed_by_the_lines_that_an_editor_counts(reader: LogReader) -> None:
    log = write(reader.name, CALLS[:1]) + b"\n\r\n" + b"?,?\n" + write(reader.name, CALLS[1:])
    result = reader.read(log)
    assert result.calls == CALLS
    assert result.malformed == 1
    assert result.first_problem.startswith("line 4: ")


@logs
def test_line_ends_and_encodings(reader: LogReader) -> None:
    log = write(reader.name, CALLS)
    for other in (
        log.replace(b"\n", b"\r\n"),
        codecs.BOM_UTF8 + log,
        log.decode().encode("utf-16"),
        codecs.BOM_UTF16_BE + log.decode().encode("utf-16-be"),
    ):
        result = read_calls(other)
        assert (result.calls, result.malformed, result.consumed) == (CALLS, 0, len(other))


def test_a_name_in_another_encoding_is_read() -> None:
    row = "Row: 0 number=2025550143, date=1709287860000, type=1, name=Zoë\n"
    for encoding in ("utf-8", "iso-8859-1", "utf-16"):
        assert read_calls(row.encode(encoding)).calls[0].name == "Zoë"


@logs
def test_an_endless_line_is_malformed(reader: LogReader) -> None:
    result = reader.read(write(reader.name, CALLS[:1]) + b"9" * MAX_LINE_BYTES + b"\n" + write(reader.name, CALLS[1:]))
    assert (result.calls, result.malformed) == (CALLS, 1)
    assert result.first_problem == f"line 2: line must have at most {MAX_LINE_BYTES} bytes"


@files
def test_a_file_is_consumed_whole(reader: Reader) -> None:
    data = write(reader.name, CALLS)
    for chunk in (False, True):
        assert (reader.read(data, chunk=chunk).calls, reader.read(data, chunk=chunk).consumed) == (CALLS, len(data))


@pytest.mark.parametrize("name", ["sms-backup", "fritzbox-xml"])
def test_calls_before_the_place_where_a_document_was_cut_off_are_kept(name: str) -> None:
    data = write(name, CALLS)
    cut = data.rindex(b"<call" if name == "sms-backup" else b"<Call>") + 8
    result = read_calls(data[:cut])
    assert (result.calls, result.malformed) == (CALLS[:-1], 1)
    assert "one complete XML document" in result.first_problem


@pytest.mark.parametrize("name", READERS)
def test_a_file_beyond_the_limit_is_refused(name: str) -> None:
    with pytest.raises(InvalidData, match=f"have at most {MAX_BYTES} bytes"):
        read_calls(bytes(MAX_BYTES + 1), name)


@pytest.mark.parametrize("name", sorted(READERS.keys() - {"ios", "ncid-day-first"}))
def test_the_sample_of_the_page_is_one_call(name: str) -> None:
    start, end = ROOTS.get(name, ("", ""))
    sample = "".join(f"{text}\n" for of, text in SAMPLES if of == name)
    result = READERS[name].read(f"{start}{sample}{end}".encode())
    assert [re.sub(r"\D", "", call.number)[-10:] for call in result.calls] == ["2025550143"]
    assert result.malformed == 0
