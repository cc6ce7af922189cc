"""Logs of Android phones, three ways: ``termux-call-log``, the app SMS Backup & Restore, and ``adb``.

- termux: the JSON that ``termux-call-log`` prints, on a phone that runs Python.
- sms-backup: the app's XML, ``<calls>`` with one ``<call …/>`` each.
- adb: ``adb shell content query --uri content://call_log/calls``, a row a line, any columns in any order:
  ``Row: 0 number=+12025550143, date=1709287872000, type=3, presentation=1, name=NULL``
"""

from __future__ import annotations

import re
from datetime import tzinfo
from functools import partial
from typing import Any

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call, CallKind, clean_name, clean_number
from hushcall.formats.calls.dates import ISO, duration_seconds
from hushcall.formats.calls.reader import FileReader, LogReader
from hushcall.formats.calls.text import first_lines, head_text, json_list, json_text, xml_records

_KINDS = {
    "1": CallKind.INCOMING,
    "2": CallKind.OUTGOING,
    "3": CallKind.MISSED,
    "4": CallKind.VOICEMAIL,
    "5": CallKind.REJECTED,
    "6": CallKind.BLOCKED,
    "7": CallKind.INCOMING,  # answered on another device
}
_WITHHELD = ("2", "3")  # presentation: restricted by the caller, unknown to the network
_MILLISECONDS = re.compile(r"[0-9]{1,15}")


def _call_of_row(columns: dict[str, str], name: str) -> Call:
    kind = _KINDS.get(columns.get("type", ""))
    if kind is None:
        raise InvalidData("type", "be a number from 1 to 7", "another")
    date = columns.get("date", "")
    if _MILLISECONDS.fullmatch(date) is None:
        raise InvalidData("date", "be a number of milliseconds", f"{len(date)} characters")
    if "number" not in columns:
        raise InvalidData("number", "be there", "none")
    withheld = columns.get("presentation") in _WITHHELD
    number = "" if withheld else clean_number(columns["number"])
    return Call(number, int(date) // 1000, kind, clean_name(name), duration_seconds(columns.get("duration", "")))


_ROW = re.compile(r"Row: \d+ (.*)", re.DOTALL)
# A column starts after a comma: a name may contain commas, and "name=" also ends "call_screening_app_name=".
_COLUMN = re.compile(r"(?:^|, )([a-z][a-z0-9_]*|_id)=")
_EMPTY_LOG = "No result found."


def _parse_adb(line: str, _zone: tzinfo) -> Call | None:
    if line.strip() == _EMPTY_LOG:
        return None
    row = _ROW.fullmatch(line)
    if row is None:
        raise InvalidData("line", "start with Row: and its number", f"{len(line)} characters")
    parts = _COLUMN.split(row[1])
    names, values = parts[1::2], parts[2::2]
    if len(set(names)) < len(names):
        raise InvalidData("row", "have each column once", f"{len(names)} columns")
    columns = {name: "" if value == "NULL" else value for name, value in zip(names, values, strict=True)}
    return _call_of_row(columns, columns.get("name", ""))


def _sniff_adb(head: bytes) -> bool:
    first = first_lines(head)
    return any(_ROW.fullmatch(line) and "date=" in line for line in first) or first == [_EMPTY_LOG]


ADB = LogReader("adb", "adb content query", _sniff_adb, _parse_adb, closed=False)

_BACKUP_TITLE = "SMS Backup & Restore"
_BACKUP_ROOT = re.compile(r"<calls[\s/>]")


def _sniff_backup(head: bytes) -> bool:
    text = head_text(head)
    return text.startswith("<") and _BACKUP_ROOT.search(text) is not None


SMS_BACKUP = FileReader(
    name="sms-backup",
    title=_BACKUP_TITLE,
    sniff=_sniff_backup,
    split=partial(xml_records, _BACKUP_TITLE, root="calls", record="call"),
    parse=lambda record, _zone: _call_of_row(record, record.get("contact_name", "")),
)

_TERMUX_TITLE = "Termux call log"
_NO_CALLS = re.compile(r"\[\s*\]\s*")


def _parse_termux(record: Any, zone: tzinfo) -> Call:
    if not isinstance(record, dict) or "phone_number" not in record:
        raise InvalidData("record", "be an object with a phone_number", type(record).__name__)
    try:
        kind = CallKind(json_text(record, "type").lower())
    except ValueError:
        raise InvalidData("type", "be " + ", ".join(kind.upper() for kind in CallKind), "another") from None
    start = ISO.read(json_text(record, "date"), zone)
    number, name = clean_number(json_text(record, "phone_number")), clean_name(json_text(record, "name"))
    return Call(number, start, kind, name, duration_seconds(str(record.get("duration", ""))))


def _sniff_termux(head: bytes) -> bool:
    text = head_text(head)
    return text.startswith("[") and ('"phone_number"' in text or _NO_CALLS.fullmatch(text) is not None)


_split_termux = partial(json_list, _TERMUX_TITLE)
TERMUX = FileReader("termux", _TERMUX_TITLE, _sniff_termux, _split_termux, _parse_termux, local=True)
