"""A FRITZ!Box's call list: saved from its web pages as CSV, or over its programming interface TR-064 as XML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call, CallKind, clean_name, clean_number
from hushcall.formats.calls.dates import DOTTED, duration_seconds
from hushcall.formats.calls.reader import FileReader
from hushcall.formats.calls.text import HEAD_BYTES, decode, first_lines, head_text, lines, xml_records

_CSV_TITLE = "FRITZ!Box CSV"
_HEADER = re.compile(r"\s*Type?\s*([;,\t])\s*(?:Datum|Date)\s*\1.*")
_CSV_KINDS = {"1": CallKind.INCOMING, "2": CallKind.MISSED, "3": CallKind.OUTGOING, "4": CallKind.OUTGOING}
_NAME = 2
_MINUTE = 60  # a box rounds the length of a call up to minutes
_MIN_COLUMNS = 7  # with a name: type, date, name, number, extension, own number, duration

Row = tuple[list[str], dict[str, CallKind]]


def _split_csv(data: bytes) -> Iterator[Row]:
    """The rows after the header, each with the file's meaning of the type column. Some boxes leave the name out."""
    text = [line for line in lines(decode(data)) if line.strip()]
    headers = ((place, match) for place, line in enumerate(text[:3]) if (match := _HEADER.match(line)))
    place, header = next(headers, (0, None))
    if header is None:
        raise InvalidData(f"{_CSV_TITLE} file", "have a header Typ;Datum;Name;Rufnummer;… on top", f"{len(data)} bytes")
    titles, *table = (_cells(line, header[1]) for line in text[place:])
    named = len(titles) > _NAME and titles[_NAME].strip() == "Name"
    rows = [_fold(row, len(titles)) if named else [*row[:_NAME], "", *row[_NAME:]] for row in table]
    kinds = _kinds({row[0] for row in rows})
    yield from ((row, kinds) for row in rows)


def _cells(line: str, separator: str) -> list[str]:
    kind, *cells = line.rstrip(" ").removesuffix(separator).split(separator)
    return [kind.strip(), *cells]


def _fold(row: list[str], width: int) -> list[str]:
    """Joins a name that contains separators: the box quotes nothing."""
    surplus = max(0, len(row) - width)
    return [*row[:_NAME], ";".join(row[_NAME : _NAME + surplus + 1]), *row[_NAME + surplus + 1 :]]


def _kinds(codes: set[str]) -> dict[str, CallKind]:
    """Old boxes write 3 for outgoing. Newer ones write 4, and 3 for rejected. Without any 4 the file counts as old."""
    return _CSV_KINDS | {"3": CallKind.REJECTED} if "4" in codes else _CSV_KINDS


def _parse_csv(record: Row, zone: tzinfo) -> Call:
    row, kinds = record
    if len(row) < _MIN_COLUMNS:
        raise InvalidData("row", "have 7 or 8 columns", len(row))
    if row[0] not in kinds:
        raise InvalidData("type", "be a number from 1 to 4", "another")
    number, start, kind = clean_number(row[_NAME + 1]), DOTTED.read(row[1], zone), kinds[row[0]]
    duration = row[-1] if ":" in row[-1] else ""  # a row may lack it
    return Call(number, start, kind, clean_name(row[_NAME]), duration_seconds(duration, _MINUTE))


def _sniff_csv(head: bytes) -> bool:
    return any(_HEADER.match(line) for line in first_lines(head, 3))


FRITZBOX_CSV = FileReader("fritzbox-csv", _CSV_TITLE, _sniff_csv, _split_csv, _parse_csv, local=True)

_XML_TITLE = "FRITZ!Box TR-064"
_split_xml = partial(xml_records, _XML_TITLE, root="root", record="Call")
_ROOT = re.compile(r"<root>\s*(?:<timestamp>[^<]*</timestamp>\s*)?<Call>|<root>\s*<timestamp>")
_XML_KINDS = {
    "1": CallKind.INCOMING,
    "2": CallKind.MISSED,
    "3": CallKind.OUTGOING,
    "9": CallKind.INCOMING,  # still going on
    "10": CallKind.REJECTED,
    "11": CallKind.OUTGOING,  # still going on
}
_ANSWERING_MACHINES = frozenset(("6", *map(str, range(40, 50))))


def _parse_xml(record: dict[str, str], zone: tzinfo) -> Call:
    kind = _XML_KINDS.get(record.get("Type", ""))
    if kind is None:
        raise InvalidData("Type", f"be one of {', '.join(_XML_KINDS)}", "another")
    if kind == CallKind.INCOMING and record.get("Port") in _ANSWERING_MACHINES:
        kind = CallKind.VOICEMAIL
    number = clean_number(record.get("Called" if kind == CallKind.OUTGOING else "Caller", ""))
    start, name = DOTTED.read(record.get("Date", ""), zone), clean_name(record.get("Name", ""))
    return Call(number, start, kind, name, duration_seconds(record.get("Duration", ""), _MINUTE))


_ACTIVE = frozenset(("9", "11"))
_TIMESTAMP = re.compile(rb"<timestamp>\s*([0-9]{1,18})\s*</timestamp>")


@dataclass(frozen=True, slots=True)
class NumberedCalls:
    calls: tuple[Call, ...]
    marks: tuple[str, ...]  # of each call: the box's timestamp, which a reset changes, and its number
    position: tuple[int, int]  # the timestamp, and the number to ask from next time
    malformed: int


def call_list(data: bytes, zone: tzinfo, after: tuple[int, int] = (0, 0)) -> NumberedCalls:
    """The calls after a position. One that still goes on is left for the next time."""
    match = _TIMESTAMP.search(data[:HEAD_BYTES])
    timestamp = int(match[1]) if match else 0
    start = after[1] if after[0] == timestamp else 0
    position, malformed = start, 0
    unfinished: list[int] = []
    calls: list[Call] = []
    marks: list[str] = []
    for record in _split_xml(data):
        text = record.get("Id", "").strip()
        number = int(text) if text.isdecimal() else 0
        if 0 < number <= start:
            continue
        if record.get("Type") in _ACTIVE:
            unfinished.append(number)
            continue
        position = max(position, number)
        try:
            calls.append(_parse_xml(record, zone))
            marks.append(f"{timestamp}:{number}" if number else "")
        except InvalidData:
            malformed += 1
    position = max(start, min([position, *(number - 1 for number in unfinished)]))
    return NumberedCalls(tuple(calls), tuple(marks), (timestamp, position), malformed)


def _sniff_xml(head: bytes) -> bool:
    return _ROOT.search(head_text(head)) is not None


FRITZBOX_XML = FileReader("fritzbox-xml", _XML_TITLE, _sniff_xml, _split_xml, _parse_xml, local=True)
