"""An Asterisk or FreePBX exchange writes this: ``cdr-csv/Master.csv``, a call a line, without a header."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import tzinfo

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call, CallKind, known_number
from hushcall.formats.calls.clock import ISO
from hushcall.formats.calls.exchange import COMES_IN, GOES_OUT, columns, first_rows, outside, outside_call, quoted
from hushcall.formats.calls.reader import LogReader

# accountcode, src, dst, dcontext, clid, channel, dstchannel, lastapp, lastdata, start, answer, end, duration, billsec,
# disposition, amaflags, and where the administrator wants them uniqueid and userfield.
_SOURCE, _TARGET, _CONTEXT, _CHANNEL, _OTHER_CHANNEL, _APPLICATION, _DATA, _START, _DISPOSITION = (
    *range(1, 4),
    *range(5, 10),
    14,
)
_COLUMNS = 16
_UNANSWERED = ("NO ANSWER", "BUSY", "FAILED", "CONGESTION", "CANCEL")
_CALLED_LEG = re.compile(r"App(?:Dial|Queue)", re.IGNORECASE)  # the row is that of a party whom the exchange called
_DESK = re.compile(r"[A-Za-z0-9]+/[0-9]{2,6}[-@;]")  # the channel of an extension: PJSIP/100-0000000a
_DIALLED = re.compile(r"[0-9+]{7,}")


def _parse(line: str, zone: tzinfo) -> Call | None:
    row = columns(line, _COLUMNS)
    if row[_DISPOSITION] != "ANSWERED" and row[_DISPOSITION] not in _UNANSWERED:
        raise InvalidData("disposition", f"be ANSWERED or one of {', '.join(_UNANSWERED)}", "another")
    at = ISO.read(row[_START], zone)
    if _CALLED_LEG.match(row[_APPLICATION]) or GOES_OUT.search(row[_CONTEXT]):
        return _called(row, at)
    return outside_call(row[_SOURCE], row[_TARGET], _came_in(row), at, _incoming(row))


def _called(row: list[str], at: int) -> Call | None:
    """Whom the exchange called: the target, or what it dialled; in the row of a called party, that party itself."""
    leg = _CALLED_LEG.match(row[_APPLICATION]) is not None
    dialled = _DIALLED.findall(row[_DATA])
    parties = [row[_SOURCE], row[_TARGET]] if leg else [row[_TARGET], *dialled]
    found = next(filter(outside, map(known_number, parties)), "")
    return Call(found, at, CallKind.OUTGOING) if found else None


def _came_in(row: list[str]) -> bool:
    """Whether the row shows that a call arrived: by its context, or because an extension or a voicemail box got it."""
    if COMES_IN.search(row[_CONTEXT]):
        return True
    if "internal" in row[_CONTEXT].lower() or _DESK.match(row[_CHANNEL]):
        return False
    return _DESK.match(row[_OTHER_CHANNEL]) is not None or row[_APPLICATION].lower() in ("voicemail", "queue")


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
    local=True,
    title="Asterisk Master.csv",
    files=("Master.csv*", "cdr*.csv"),
    sniff=_sniff,
    parse=_parse,
    render=_render,
    kinds=frozenset((CallKind.INCOMING, CallKind.OUTGOING, CallKind.MISSED, CallKind.VOICEMAIL)),
    names=False,
)
