"""A carrier's or an app's table of calls: CSV whose header names its columns. Calls leave, and how it was understood.

Such tables have no common layout, so whoever has one says which column is what, or agrees to a guess
(:mod:`hushcall.phone.calls.tables`). What must be there is a column of numbers, one of dates (or a date and a time),
and one that says which calls the owner made: without it, people whom the owner called would pass for callers, so the
file is refused. Dates with slashes are read only when a day after the 12th shows whether day or month comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import cached_property, partial

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call, CallKind, known_name, known_number
from hushcall.formats.calls.clock import ISO, DateLayout, day_comes_first
from hushcall.formats.calls.fritzbox_csv import FRITZBOX_CSV
from hushcall.formats.calls.reader import FileReader
from hushcall.formats.calls.texts import decode, first_lines, lines

_TITLE = "CSV call log"
_TITLES = {
    "number": r"(?:phone |other |caller |calling |remote )?(?:number|phone|caller(?: id)?)|number called/from|party",
    "date": r"(?:call |start )?(?:date|date ?/ ?time|datetime|date and time|timestamp|start(?:ed)?(?: time)?)",
    "time": r"(?:call )?time",
    "kind": r"(?:call )?(?:type|kind|direction)|in/out",
    "name": r"(?:contact )?name",
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
_MOST_COLUMNS = 100


@dataclass(frozen=True)
class Columns:
    """Which column of a table is what, by its title: what a person is shown to check the guess."""

    titles: tuple[str, ...]
    separator: str
    given: Mapping[str, str] = field(default_factory=dict)  # what → title, as a person said; else it is guessed

    @cached_property
    def places(self) -> dict[str, int]:
        """What was understood: ``number``, ``date``, ``kind``, and ``time`` and ``name`` where there are such."""
        if self.given:
            return {what: self._place(what, title) for what, title in self.given.items()}
        found: dict[str, int] = {}
        for place, title in enumerate(self.titles):
            for what, pattern in _TITLES.items():
                if what not in found and re.fullmatch(pattern, title.strip().lower().replace("_", " ")):
                    found[what] = place
                    break
        return found

    @property
    def complete(self) -> bool:
        """Whether calls can be read."""
        return {"number", "date", "kind"} <= self.places.keys()

    def _place(self, what: str, title: str) -> int:
        wanted = [place for place, one in enumerate(self.titles) if one.casefold() == title.casefold()]
        if len(wanted) != 1:
            rule = f"name one column of the table's ({', '.join(filter(None, self.titles))})"
            raise InvalidData(f"column of {WORDS[what]}", rule, title)
        return wanted[0]

    def __str__(self) -> str:
        return ", ".join(f"{WORDS[what]}: {self.titles[place]}" for what, place in sorted(self.places.items()))


WORDS = {"number": "number", "date": "date", "time": "time", "kind": "direction", "name": "name"}
"""What a person calls the columns."""


def columns_of(head: bytes, given: Mapping[str, str] | None = None) -> Columns | None:
    """How the header of such a file is understood, or what ``given`` (what → title) makes of it."""
    import csv  # only those who read tables pay for it

    for line in first_lines(head, 1):
        separator = max(",;\t", key=line.count)
        try:
            titles = next(csv.reader([line], delimiter=separator), [])[:_MOST_COLUMNS]
        except csv.Error:  # a field of more than 131,072 characters
            return None
        return Columns(tuple(title.strip() for title in titles), separator, given or {})
    return None


Row = tuple[dict[str, str], bool | None]


def _split(data: bytes, given: Mapping[str, str] | None = None) -> Iterator[Row]:
    import csv

    columns = columns_of(data, given)
    if columns is None or not columns.complete:
        understood = "nothing" if columns is None or not columns.places else str(columns)
        rule = f"have a header with a number, a date and a type or direction (understood: {understood})"
        raise InvalidData(f"{_TITLE} file", rule, f"{len(data)} bytes")
    text = [line for line in lines(decode(data)) if line.strip()]
    try:
        rows = [_named(row, columns) for row in csv.reader(text[1:], delimiter=columns.separator)]
    except csv.Error:
        raise InvalidData(f"{_TITLE} file", "be well-formed CSV", f"{len(data)} bytes") from None
    slashed = (found for row in rows if (found := _SLASHED.fullmatch(row["date"])))
    day_first = day_comes_first((int(found[1]), int(found[2])) for found in slashed)
    yield from ((row, day_first) for row in rows)


def _named(row: list[str], columns: Columns) -> dict[str, str]:
    found = {what: row[place].strip() if place < len(row) else "" for what, place in columns.places.items()}
    return {**found, "date": f"{found['date']} {found['time']}".strip()} if "time" in found else found


def _parse(record: Row, zone: tzinfo) -> Call:
    row, day_first = record
    kind = next(
        (kind for kind, words in _KINDS if re.fullmatch(words, row["kind"].lower().removesuffix(" call"))), None
    )
    if kind is None:
        raise InvalidData(
            "type", "say whether the call came in, went out or was missed", f"{len(row['kind'])} characters"
        )
    return Call(
        known_number(row["number"]), _moment(row["date"], day_first, zone), kind, known_name(row.get("name", ""))
    )


def _moment(text: str, day_first: bool | None, zone: tzinfo) -> int:
    if _EPOCH.fullmatch(text):
        return int(text) // (1000 if len(text) > 10 else 1)
    found = _SLASHED.fullmatch(text)
    if found is None:
        return ISO.read(text if text.count(":") > 1 else f"{text}:00", zone)
    if day_first is None and found[1] != found[2]:
        raise InvalidData(
            "date", "show by a day after the 12th whether day or month comes first", f"{len(text)} characters"
        )
    day, month = (found[1], found[2]) if day_first else (found[2], found[1])
    hour = int(found[4]) % 12 + 12 * (found[7] in "pP") if found[7] else int(found[4])
    return _PLAIN.read(f"{day} {month} {found[3]} {hour} {found[5]} {found[6] or '0'}", zone)


_PLAIN = DateLayout(
    "day, month, year, hour, minute, second",
    re.compile(r"(?P<day>\d+) (?P<month>\d+) (?P<year>\d\d(?:\d\d)?) (?P<hour>\d+) (?P<minute>\d+) (?P<second>\d+)"),
    "%d %m %Y %H %M %S",
)


def _sniff(head: bytes) -> bool:
    columns = columns_of(head)
    return columns is not None and columns.complete and not FRITZBOX_CSV.sniff(head)


def _render(calls: Sequence[Call], zone: tzinfo) -> bytes:
    import csv
    import io

    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("number", "date", "type", "name"))
    table.writerows((call.number, ISO.write(call.at, zone), call.kind.value, call.name) for call in calls)
    return text.getvalue().encode()


NAMED_COLUMNS = FileReader(
    name="csv",
    local=True,
    title=_TITLE,
    files=(),
    sniff=_sniff,
    split=_split,
    parse=_parse,
    render=_render,
    kinds=frozenset(CallKind),
)


def table(given: Mapping[str, str]) -> FileReader:
    """The reader of tables whose columns somebody has named: what → title."""
    return replace(NAMED_COLUMNS, split=partial(_split, given=given))
