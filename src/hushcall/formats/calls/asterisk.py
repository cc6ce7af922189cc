"""An Asterisk or FreePBX exchange writes this: ``cdr-csv/Master.csv``, a call a line, without a header."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import tzinfo

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call, CallKind
from hushcall.formats.calls.clock import ISO
from hushcall.formats.calls.exchange import columns, first_rows, outside_call, quoted
from hushcall.formats.calls.reader import LogReader

# accountcode, src, dst, dcontext, clid, channel, dstchannel, lastapp, lastdata, start, answer, end, duration, billsec,
# disposition, amaflags, and where the administrator wants them uniqueid and userfield.
_SOURCE, _TARGET, _CONTEXT, _APPLICATION, _START, _DISPOSITION = 1, 2, 3, 7, 9, 14
_COLUMNS = 16
_UNANSWERED = ("NO ANSWER", "BUSY", "FAILED", "CONGESTION")
_INNER = re.compile(r"internal|outbound|outgoing", re.IGNORECASE)


def _parse(line: str, zone: tzinfo) -> Call | None:
    row = columns(line, _COLUMNS)
    if row[_DISPOSITION] != "ANSWERED" and row[_DISPOSITION] not in _UNANSWERED:
        raise InvalidData("disposition", f"be ANSWERED or one of {', '.join(_UNANSWERED)}", "another")
    at = ISO.read(row[_START], zone)
    inner = _INNER.search(row[_CONTEXT]) is not None
    return outside_call(row[_SOURCE], row[_TARGET], inner, at, _incoming(row))


def _incoming(row: list[str]) -> CallKind:
    if row[_DISPOSITION] in _UNANSWERED:
        return CallKind.MISSED
    return CallKind.VOICEMAIL if row[_APPLICATION].lower() == "voicemail" else CallKind.INCOMING


def _sniff(head: bytes) -> bool:
    return any(ISO.found_in(row[_START]) and row[_DISPOSITION].isupper() for row in first_rows(head, _COLUMNS))


def _render(calls: Sequence[Call], zone: tzinfo) -> bytes:
    return "".join(_row(call, ISO.write(call.at, zone)) for call in calls).encode()


def _row(call: Call, date: str) -> str:
    called = call.kind == CallKind.OUTGOING
    source, target, context = ("100", call.number, "from-internal") if called else (call.number, "100", "from-trunk")
    application = "VoiceMail" if call.kind == CallKind.VOICEMAIL else "Dial"
    disposition = "NO ANSWER" if call.kind == CallKind.MISSED else "ANSWERED"
    times = (date, "" if call.kind == CallKind.MISSED else date, date, "0", "0")
    head = ("", source, target, context, f'"" <{source}>', "SIP/a", "SIP/b", application, "")
    return quoted((*head, *times, disposition, "DOCUMENTATION"))


ASTERISK = LogReader(
    name="asterisk",
    title="Asterisk Master.csv",
    files=("Master.csv*", "cdr*.csv"),
    sniff=_sniff,
    parse=_parse,
    render=_render,
    kinds=frozenset((CallKind.INCOMING, CallKind.OUTGOING, CallKind.MISSED, CallKind.VOICEMAIL)),
    names=False,
)
