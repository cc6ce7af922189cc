"""A FRITZ!Box's call list over TR-064, the box's programming interface: XML with numbers of kinds of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import tzinfo

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call, CallKind, known_name, known_number
from hushcall.formats.calls.clock import DOTTED
from hushcall.formats.calls.reader import FileReader
from hushcall.formats.calls.safe_xml import records
from hushcall.formats.calls.texts import head_text

_TITLE = "FRITZ!Box TR-064"
_ROOT = re.compile(r"<root>\s*(?:<timestamp>[^<]*</timestamp>\s*)?<Call>|<root>\s*<timestamp>")
_KINDS = {
    "1": CallKind.INCOMING,
    "2": CallKind.MISSED,
    "3": CallKind.OUTGOING,
    "9": CallKind.INCOMING,  # still going on
    "10": CallKind.REJECTED,
    "11": CallKind.OUTGOING,  # still going on
}
_CODES = {
    CallKind.INCOMING: "1",
    CallKind.MISSED: "2",
    CallKind.OUTGOING: "3",
    CallKind.REJECTED: "10",
    CallKind.VOICEMAIL: "1",
}
_ANSWERING_MACHINES = frozenset(("6", *map(str, range(40, 50))))


def _split(data: bytes) -> Iterable[dict[str, str]]:
    return records(_TITLE, data, "root", "Call")


def _parse(record: dict[str, str], zone: tzinfo) -> Call:
    kind = _KINDS.get(record.get("Type", ""))
    if kind is None:
        raise InvalidData("Type", f"be one of {', '.join(_KINDS)}", "another")
    if kind == CallKind.INCOMING and record.get("Port") in _ANSWERING_MACHINES:
        kind = CallKind.VOICEMAIL
    number = record.get("Called" if kind == CallKind.OUTGOING else "Caller", "")
    return Call(
        known_number(number), DOTTED.read(record.get("Date", ""), zone), kind, known_name(record.get("Name", ""))
    )


def _sniff(head: bytes) -> bool:
    return _ROOT.search(head_text(head)) is not None


def _render(calls: Sequence[Call], zone: tzinfo) -> bytes:
    from html import escape

    rows: list[str] = []
    for call in calls:
        outgoing = call.kind == CallKind.OUTGOING
        caller, called = ("5550100", call.number) if outgoing else (call.number, "5550100")
        port = "40" if call.kind == CallKind.VOICEMAIL else "10"
        rows.append(
            f"<Call><Type>{_CODES[call.kind]}</Type><Caller>{escape(caller)}</Caller><Called>{escape(called)}</Called>"
            f"<Name>{escape(call.name)}</Name><Port>{port}</Port><Date>{DOTTED.write(call.at, zone)}</Date></Call>\n"
        )
    document = f'<?xml version="1.0" encoding="utf-8"?>\n<root><timestamp>0</timestamp>\n{"".join(rows)}</root>\n'
    return document.encode()


FRITZBOX_XML = FileReader(
    name="fritzbox-xml",
    local=True,
    title=_TITLE,
    files=("calllist*.xml",),
    sniff=_sniff,
    split=_split,
    parse=_parse,
    render=_render,
    kinds=frozenset(_CODES),
    seconds=60,
)
