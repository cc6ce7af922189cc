"""The caller-ID server NCID writes this: ``cidcall.log``, a call a line, fields between stars.

``CID: *DATE*03152024*TIME*1011*LINE*POTS*NMBR*2025550143*MESG*NONE*NAME*ACME SALES*``

Servers outside North America may be told to write the day first. Nothing in a line says so: a day after the 12th does.
So there are two formats, and a log in which no such day occurs is neither until somebody says which.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import tzinfo
from functools import partial

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call, CallKind, known_number
from hushcall.formats.calls.clock import AMERICAN, DAY_FIRST, DateLayout, day_comes_first
from hushcall.formats.calls.reader import LogReader
from hushcall.formats.calls.texts import first_lines, head_text

# A plus is for lines that another server forwarded; LOG is added when a server sends its log to a client.
_LABEL = re.compile(r"\+?([A-Z]{3,}?)(?:LOG)?:")
_DATE = re.compile(r"\*DATE\*(\d\d)(\d\d)\d{4}\*")
_COMMENT = re.compile(r"#|\d{3} ")
_LABELS = {
    "CID": CallKind.INCOMING,
    "WID": CallKind.INCOMING,  # while another call was going on
    "PID": CallKind.INCOMING,  # seen by a mobile phone
    "OUT": CallKind.OUTGOING,
    "HUP": CallKind.BLOCKED,  # the server hung up
    "BLK": CallKind.BLOCKED,
}
_WRITTEN = {CallKind.INCOMING: "CID", CallKind.OUTGOING: "OUT", CallKind.BLOCKED: "HUP"}


def _parse(line: str, zone: tzinfo, layout: DateLayout = AMERICAN) -> Call | None:
    label = _LABEL.match(line)
    if label is None and not _COMMENT.match(line):
        raise InvalidData("line", "start with a label such as CID:", f"{len(line)} characters")
    kind = _LABELS.get(label[1]) if label else None
    if kind is None or label is None:
        return None  # a message
    body = line[label.end() :].strip()
    if len(body) < 2 or not body.startswith("*") or not body.endswith("*"):
        raise InvalidData("line", "be fields between stars, to the last star", f"{len(line)} characters")
    parts = body[1:-1].split("*")
    fields = dict(zip(parts[::2], parts[1::2], strict=False))
    if "NMBR" not in fields:
        raise InvalidData("NMBR", "be there", "none")
    at = layout.read(f"{fields.get('DATE', '')} {fields.get('TIME', '')}", zone)
    return Call(known_number(fields["NMBR"]), at, kind)


def _may_be(day_first: bool, head: bytes) -> bool:
    """Whether it is such a log, and no date in it tells that it is the other one."""
    text = head_text(head)
    if not any(_LABEL.match(line) and "*DATE*" in line for line in first_lines(head, 40)):
        return False
    told = day_comes_first((int(found[1]), int(found[2])) for found in _DATE.finditer(text))
    return told is None or told == day_first


def _render(calls: Sequence[Call], zone: tzinfo, layout: DateLayout = AMERICAN) -> bytes:
    rows: list[str] = []
    for call in calls:
        date, time = layout.write(call.at, zone).split()
        number = call.number or "NO-NUMBER"
        rows.append(f"{_WRITTEN[call.kind]}: *DATE*{date}*TIME*{time}*LINE*-*NMBR*{number}*MESG*NONE*NAME*NO NAME*\n")
    return "".join(rows).encode()


NCID = LogReader(
    name="ncid",
    local=True,
    title="NCID log",
    files=("cidcall*.log*",),
    sniff=partial(_may_be, False),
    parse=_parse,
    render=_render,
    kinds=frozenset(_WRITTEN),
    seconds=60,
    names=False,
)
NCID_DAY_FIRST = replace(
    NCID,
    name="ncid-day-first",
    sniff=partial(_may_be, True),
    parse=partial(_parse, layout=DAY_FIRST),
    render=partial(_render, layout=DAY_FIRST),
)
