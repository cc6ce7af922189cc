"""A FreeSWITCH exchange writes this: ``cdr-csv/Master.csv`` by the template "example", a call a line, no header."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from hushcall.formats.calls.call import Call, CallKind
from hushcall.formats.calls.clock import ISO
from hushcall.formats.calls.exchange import COMES_IN, GOES_OUT, columns, first_rows, outside_call, quoted
from hushcall.formats.calls.reader import LogReader

# caller_id_name, caller_id_number, destination_number, context, start, answer, end, duration, billsec, hangup_cause, …
_SOURCE, _TARGET, _CONTEXT, _START, _ANSWER, _END, _CAUSE = 1, 2, 3, 4, 5, 6, 9
_COLUMNS = 10


def _parse(line: str, zone: tzinfo) -> Call | None:
    row = columns(line, _COLUMNS)
    at = ISO.read(row[_START], zone)
    # Calls arrive in its context "public" and are dialled in "default".
    came_in = COMES_IN.search(row[_CONTEXT]) is not None and not GOES_OUT.search(row[_CONTEXT])
    return outside_call(row[_SOURCE], row[_TARGET], came_in, at, _incoming(row))


def _incoming(row: list[str]) -> CallKind:
    if row[_ANSWER]:
        return CallKind.INCOMING
    return CallKind.REJECTED if row[_CAUSE] == "CALL_REJECTED" else CallKind.MISSED


def _sniff(head: bytes) -> bool:
    return any(ISO.found_in(row[_START]) and ISO.found_in(row[_END]) for row in first_rows(head, _COLUMNS))


def _render(calls: Sequence[Call], zone: tzinfo) -> bytes:
    return "".join(_row(call, ISO.write(call.at, zone)) for call in calls).encode()


def _row(call: Call, date: str) -> str:
    called = call.kind == CallKind.OUTGOING
    source, target, context = ("1000", call.number, "default") if called else (call.number, "1000", "public")
    answer = "" if call.kind in (CallKind.MISSED, CallKind.REJECTED) else date
    cause = {CallKind.REJECTED: "CALL_REJECTED", CallKind.MISSED: "ORIGINATOR_CANCEL"}.get(call.kind, "NORMAL_CLEARING")
    return quoted(("", source, target, context, date, answer, date, "0", "0", cause, "", "", "", "PCMU", "PCMU"))


FREESWITCH = LogReader(
    name="freeswitch",
    local=True,
    title="FreeSWITCH CSV",
    files=("Master.csv*",),
    sniff=_sniff,
    parse=_parse,
    render=_render,
    kinds=frozenset((CallKind.INCOMING, CallKind.OUTGOING, CallKind.MISSED, CallKind.REJECTED)),
    names=False,
)
