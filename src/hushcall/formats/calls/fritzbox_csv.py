"""A FRITZ!Box's call list, saved from its web pages: CSV with a line ``sep=;``, a header, and 7 or 8 columns."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from datetime import tzinfo

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call, CallKind, known_name, known_number
from hushcall.formats.calls.clock import DOTTED
from hushcall.formats.calls.reader import FileReader
from hushcall.formats.calls.texts import decode, first_lines, lines

_TITLE = "FRITZ!Box CSV"
_HEADER = re.compile(r"\s*Type?\s*([;,\t])\s*(?:Datum|Date)\s*\1.*")
_CODES = {CallKind.INCOMING: "1", CallKind.MISSED: "2", CallKind.OUTGOING: "3"}
_KINDS = {code: kind for kind, code in _CODES.items()} | {"4": CallKind.OUTGOING}
_NAME = 2
_NARROWEST = 6  # type, date, number, extension, own number, duration: some boxes leave the name out

Row = tuple[list[str], dict[str, CallKind]]


def _split(data: bytes) -> Iterator[Row]:
    """The rows after the header, each with what the file's numbers of kinds mean."""
    text = [line for line in lines(decode(data)) if line.strip()]
    at, header = next(((at, found) for at, line in enumerate(text[:3]) if (found := _HEADER.match(line))), (0, None))
    if header is None:
        raise InvalidData(f"{_TITLE} file", "have a header Typ;Datum;Name;Rufnummer;… on top", f"{len(data)} bytes")
    titles, *table = (_cells(line, header[1]) for line in text[at:])
    named = len(titles) > _NAME and titles[_NAME].strip() == "Name"
    rows = [_fold(row, len(titles)) if named else [*row[:_NAME], "", *row[_NAME:]] for row in table]
    meaning = _meaning({row[0] for row in rows})
    yield from ((row, meaning) for row in rows)


def _cells(line: str, separator: str) -> list[str]:
    kind, *rest = line.rstrip(" ").removesuffix(separator).split(separator)
    return [kind.strip(), *rest]


def _fold(row: list[str], width: int) -> list[str]:
    """The box quotes nothing, so a name with separators in it makes a row too wide."""
    surplus = max(0, len(row) - width)
    return [*row[:_NAME], ";".join(row[_NAME : _NAME + surplus + 1]), *row[_NAME + surplus + 1 :]]


def _meaning(codes: set[str]) -> dict[str, CallKind]:
    """Old boxes write 3 for outgoing; newer ones write 4, and 3 for rejected.

    A file that has no 4 could be either. It is read as an old one, because the other mistake would take the people
    whom the owner calls for callers.
    """
    return _KINDS | {"3": CallKind.REJECTED} if "4" in codes else _KINDS


def _parse(record: Row, zone: tzinfo) -> Call:
    row, kinds = record
    if len(row) <= _NARROWEST:
        raise InvalidData("row", "have 7 or 8 columns", len(row))
    if row[0] not in kinds:
        raise InvalidData("type", "be a number from 1 to 4", "another")
    return Call(known_number(row[_NAME + 1]), DOTTED.read(row[1], zone), kinds[row[0]], known_name(row[_NAME]))


def _sniff(head: bytes) -> bool:
    return any(_HEADER.match(line) for line in first_lines(head, 3))


def _render(calls: Sequence[Call], zone: tzinfo) -> bytes:
    rows = "".join(
        f"{_CODES[call.kind]};{DOTTED.write(call.at, zone)};{call.name};{call.number};;Telefon;5550100;0:00\n"
        for call in calls
    )
    header = "Typ;Datum;Name;Rufnummer;Landes-/Ortsnetzbereich;Nebenstelle;Eigene Rufnummer;Dauer"
    text = f"sep=;\n{header}\n{rows}"
    return (b"" if text.isascii() else codecs.BOM_UTF8) + text.encode()


FRITZBOX_CSV = FileReader(
    name="fritzbox-csv",
    local=True,
    title=_TITLE,
    files=("FRITZ!Box_Anrufliste*.csv", "FRITZ.Box_Anrufliste*.csv", "FRITZ*Call*.csv"),
    sniff=_sniff,
    split=_split,
    parse=_parse,
    render=_render,
    kinds=frozenset(_CODES),
    seconds=60,
)
