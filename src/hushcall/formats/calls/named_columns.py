"""A carrier's or an app's table of calls: CSV with a header that names its columns.

Their owner names the columns, or agrees to a guess (:mod:`hushcall.client.calls.ingest`). Required are number, date (or
date and time) and direction: without a direction, people whom the owner called would pass for callers. Dates with
slashes are read only where a day after the 12th shows whether day or month comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import cached_property, partial

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call, CallKind, clean_name, clean_number
from hushcall.formats.calls.dates import ISO, DateLayout, day_comes_first, duration_seconds
from hushcall.formats.calls.fritzbox import FRITZBOX_CSV
from hushcall.formats.calls.reader import FileReader
from hushcall.formats.calls.text import decode, first_lines, lines

WORDS = {role: role for role in ("number", "date", "time", "kind", "name", "duration")} | {"kind": "direction"}
"""Role of a column → its word in messages and options."""
_TITLE = "CSV call log"
_TITLES = {
    "number": r"(?:phone |other |caller |calling |remote )?(?:number|phone|caller(?: id)?)|number called/from|party",
    "date": r"(?:call |start )?(?:date|date ?/ ?time|datetime|date and time|timestamp|start(?:ed)?(?: time)?)",
    "time": r"(?:call )?time",
    "kind": r"(?:call )?(?:type|kind|direction)|in/out",
    "name": r"(?:contact )?name",
    "duration": r"(?:call )?(?:duration|length|min(?:ute)?s?|sec(?:ond)?s?)(?: ?\(?(?:in )?(?:min|sec)\w*\)?)?",
}
_KINDS = (
    (CallKind.OUTGOING, r"out\w*|made|dial\w*|placed|sent|to"),
    (CallKind.MISSED, r"miss\w*|no ?answer|unanswered"),
    (CallKind.VOICEMAIL, r"voice ?mail"),
    (CallKind.REJECTED, r"reject\w*|declin\w*"),
    (CallKind.BLOCKED, r"block\w*|spam"),
    (CallKind.INCOMING, r"in|in(?:com|bound)\w*|received|answered|from"),
)
_EPOCH = re.compile(r"[0-9]{9,10}|[0-9]{12,13}")
_SLASHED = re.compile(r"(\d{1,2})[/.-](\d{1,2})[/.-](\d{2,4})[ ,T]+(\d{1,2}):(\d\d)(?::(\d\d))?\s*([AaPp])?\.?[Mm]?\.?")
_SPACED = DateLayout(
    "day, month, year, hour, minute, second",
    re.compile(r"(?P<day>\d+) (?P<month>\d+) (?P<year>\d\d(?:\d\d)?) (?P<hour>\d+) (?P<minute>\d+) (?P<second>\d+)"),
)
_MAX_COLUMNS = 100

Row = tuple[dict[str, str], bool | None, int]


@dataclass(frozen=True)
class Columns:
    """The roles of a table's columns, guessed from the titles unless ``chosen`` (role → title) names them."""

    titles: tuple[str, ...]
    separator: str
    chosen: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def places(self) -> dict[str, int]:
        """Role → place: ``number``, ``date``, ``kind``, and the others where there are such columns."""
        if self.chosen:
            return {role: self._place(role, title) for role, title in self.chosen.items()}
        places: dict[str, int] = {}
        for place, title in enumerate(self.titles):
            for role, pattern in _TITLES.items():
                if role not in places and re.fullmatch(pattern, title.strip().lower().replace("_", " ")):
                    places[role] = place
                    break
        return places

    @property
    def complete(self) -> bool:
        return {"number", "date", "kind"} <= self.places.keys()

    def _place(self, role: str, title: str) -> int:
        places = [place for place, name in enumerate(self.titles) if name.casefold() == title.casefold()]
        if len(places) != 1:
            rule = f"name one column of the table's ({', '.join(filter(None, self.titles))})"
            raise InvalidData(f"column of {WORDS[role]}", rule, title)
        return places[0]

    def __str__(self) -> str:
        columns = (f"{WORDS[role]}: {self.titles[place]}" for role, place in sorted(self.places.items()))
        return ", ".join(columns) or "nothing"


def columns_of(head: bytes, chosen: Mapping[str, str] | None = None) -> Columns | None:
    import csv

    for line in first_lines(head, 1):
        separator = max(",;\t", key=line.count)
        try:
            titles = next(csv.reader([line], delimiter=separator), [])[:_MAX_COLUMNS]
        except csv.Error:  # a field of more than 131,072 characters
            return None
        return Columns(tuple(title.strip() for title in titles), separator, chosen or {})
    return None


def _split(data: bytes, chosen: Mapping[str, str] | None = None) -> Iterator[Row]:
    import csv

    columns = columns_of(data, chosen)
    if columns is None or not columns.complete:
        rule = f"have a header with a number, a date and a type or direction (understood: {columns or 'nothing'})"
        raise InvalidData(f"{_TITLE} file", rule, f"{len(data)} bytes")
    text = [line for line in lines(decode(data)) if line.strip()]
    try:
        rows = [_by_role(row, columns.places) for row in csv.reader(text[1:], delimiter=columns.separator)]
    except csv.Error:
        raise InvalidData(f"{_TITLE} file", "be well-formed CSV", f"{len(data)} bytes") from None
    slashed = (match for row in rows if (match := _SLASHED.fullmatch(row["date"])))
    day_first = day_comes_first((int(match[1]), int(match[2])) for match in slashed)
    minutes = "duration" in columns.places and "min" in columns.titles[columns.places["duration"]].lower()
    yield from ((row, day_first, 60 if minutes else 1) for row in rows)


def _by_role(cells: list[str], places: Mapping[str, int]) -> dict[str, str]:
    row = {role: cells[place].strip() if place < len(cells) else "" for role, place in places.items()}
    return {**row, "date": f"{row['date']} {row['time']}".strip()} if "time" in row else row


def _parse(record: Row, zone: tzinfo) -> Call:
    row, day_first, unit_seconds = record
    words = row["kind"].lower().removesuffix(" call")
    kind = next((kind for kind, pattern in _KINDS if re.fullmatch(pattern, words)), None)
    if kind is None:
        rule = "say whether the call came in, went out or was missed"
        raise InvalidData("type", rule, f"{len(row['kind'])} characters")
    start = _time(row["date"], day_first, zone)
    duration = row.get("duration", "")
    seconds = duration_seconds(duration, 1 if ":" in duration else unit_seconds)
    return Call(clean_number(row["number"]), start, kind, clean_name(row.get("name", "")), seconds)


def _time(text: str, day_first: bool | None, zone: tzinfo) -> int:
    if _EPOCH.fullmatch(text):
        return int(text) // (1000 if len(text) > 10 else 1)
    date = _SLASHED.fullmatch(text)
    if date is None:
        return ISO.read(text if text.count(":") > 1 else f"{text}:00", zone)
    if day_first is None and date[1] != date[2]:
        rule = "show by a day after the 12th whether day or month comes first"
        raise InvalidData("date", rule, f"{len(text)} characters")
    day, month = (date[1], date[2]) if day_first else (date[2], date[1])
    hour = int(date[4]) % 12 + 12 * (date[7] in "pP") if date[7] else int(date[4])
    return _SPACED.read(f"{day} {month} {date[3]} {hour} {date[5]} {date[6] or '0'}", zone)


def _sniff(head: bytes) -> bool:
    columns = columns_of(head)
    return columns is not None and columns.complete and not FRITZBOX_CSV.sniff(head)


NAMED_COLUMNS = FileReader("csv", _TITLE, _sniff, _split, _parse, local=True)


def table(chosen: Mapping[str, str]) -> FileReader:
    return replace(NAMED_COLUMNS, split=partial(_split, chosen=chosen))
