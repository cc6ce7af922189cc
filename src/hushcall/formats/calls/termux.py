"""An Android phone that runs Python reads this from itself: the JSON that ``termux-call-log`` prints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import tzinfo
from typing import Any

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call, CallKind, known_name, known_number
from hushcall.formats.calls.clock import ISO
from hushcall.formats.calls.reader import FileReader
from hushcall.formats.calls.texts import decode, head_text

_NO_CALLS = re.compile(r"\[\s*\]\s*")


def json_list(title: str, data: bytes) -> list[Any]:
    """The list that a JSON file holds."""
    import json  # only those who read JSON pay for it

    try:
        value = json.loads(decode(data))
    except (ValueError, RecursionError):
        raise InvalidData(f"{title} file", "be one complete JSON document", f"{len(data)} bytes") from None
    if not isinstance(value, list):  # Termux:API answers with an object where it may not read the log
        rule = "be a JSON list (was Termux:API given the permission to read?)"
        raise InvalidData(f"{title} file", rule, type(value).__name__)
    return value


def text_of(record: Any, key: str) -> str:
    """The text under ``key``, ``""`` for null; a record may also be the text itself."""
    value = record.get(key, "") if isinstance(record, dict) else record
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidData(key, "be a text in an object", type(value).__name__)
    return value


def _split(data: bytes) -> Iterable[Any]:
    return json_list("Termux call log", data)


def _parse(record: Any, zone: tzinfo) -> Call:
    if not isinstance(record, dict) or "phone_number" not in record:
        raise InvalidData("record", "be an object with a phone_number", type(record).__name__)
    try:
        kind = CallKind(text_of(record, "type").lower())
    except ValueError:
        raise InvalidData("type", "be " + ", ".join(kind.upper() for kind in CallKind), "another") from None
    at = ISO.read(text_of(record, "date"), zone)
    return Call(known_number(text_of(record, "phone_number")), at, kind, known_name(text_of(record, "name")))


def _sniff(head: bytes) -> bool:
    text = head_text(head)
    return text.startswith("[") and ('"phone_number"' in text or _NO_CALLS.fullmatch(text) is not None)


def _render(calls: Sequence[Call], zone: tzinfo) -> bytes:
    import json

    records = [
        {
            "name": call.name or "UNKNOWN_CALLER",
            "phone_number": call.number,
            "type": call.kind.upper(),
            "date": ISO.write(call.at, zone),
            "duration": "00:00",
            "sim_id": "1",
        }
        for call in calls
    ]
    return json.dumps(records, indent=2, ensure_ascii=False).encode() + b"\n"


TERMUX = FileReader(
    name="termux",
    local=True,
    title="Termux call log",
    files=("termux-call-log*", "call*log*.json"),
    sniff=_sniff,
    split=_split,
    parse=_parse,
    render=_render,
    kinds=frozenset(CallKind),
)
