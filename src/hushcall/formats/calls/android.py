"""What Android's call log means, for every format that shows its columns: numbers of kinds, dates in milliseconds."""

from __future__ import annotations

import re

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call, CallKind, known_name, known_number

CODES = {
    CallKind.INCOMING: "1",
    CallKind.OUTGOING: "2",
    CallKind.MISSED: "3",
    CallKind.VOICEMAIL: "4",
    CallKind.REJECTED: "5",
    CallKind.BLOCKED: "6",
}
_KINDS = {code: kind for kind, code in CODES.items()} | {"7": CallKind.INCOMING}  # 7: answered on another device
_WITHHELD = ("2", "3")  # presentation: restricted by the caller, unknown to the network
_MILLISECONDS = re.compile(r"[0-9]{1,15}")


def android_call(columns: dict[str, str], name: str) -> Call:
    """The call of one row of the log, given its columns ``number``, ``date``, ``type`` and ``presentation``."""
    kind = _KINDS.get(columns.get("type", ""))
    if kind is None:
        raise InvalidData("type", "be a number from 1 to 7", "another")
    date = columns.get("date", "")
    if _MILLISECONDS.fullmatch(date) is None:
        raise InvalidData("date", "be a number of milliseconds", f"{len(date)} characters")
    if "number" not in columns:
        raise InvalidData("number", "be there", "none")
    withheld = columns.get("presentation") in _WITHHELD
    number = "" if withheld else known_number(columns["number"])
    return Call(number, int(date) // 1000, kind, known_name(name))


def presentation(call: Call) -> str:
    """The code for whether the number was shown, for the writers."""
    return "2" if call.hidden else "1"
