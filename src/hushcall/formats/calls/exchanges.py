"""Logs of telephone exchanges: ``Master.csv`` of Asterisk (and FreePBX) and FreeSWITCH, ``cidcall.log`` of NCID.

A ``Master.csv`` has no header. It says who called whom, but not which of the two is outside. An internal extension has
few digits. Where both numbers are long, the dialplan context or the channels decide. Where nothing decides, the call
counts as one that somebody inside made: the other mistake would take the exchange's own number, or a person whom a desk
called, for a spammer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import tzinfo
from functools import partial

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call, CallKind, clean_number
from hushcall.formats.calls.dates import AMERICAN, DAY_FIRST, ISO, day_comes_first, duration_seconds
from hushcall.formats.calls.reader import LogReader
from hushcall.formats.calls.text import first_lines, head_text

MIN_OUTSIDE_DIGITS = 7
# Contexts, by the names that administrators give them. In an outgoing one the source is always inside.
_INBOUND = re.compile(r"trunk|pstn|did|inbound|incoming|outside|external|public|ingress|(?:^|[-_])in$", re.IGNORECASE)
_OUTBOUND = re.compile(r"outbound|outgoing|dialout|outrt|(?:^|[-_])out$", re.IGNORECASE)


def _row(line: str, columns: tuple[str, ...]) -> dict[str, str]:
    import csv

    try:
        fields = next(csv.reader([line], strict=True), [])
    except csv.Error:
        raise InvalidData("line", "be well-formed CSV", f"{len(line)} characters") from None
    if len(fields) < len(columns):
        raise InvalidData("line", f"have at least {len(columns)} columns", len(fields))
    return dict(zip(columns, fields, strict=False))


def _first_rows(head: bytes, columns: tuple[str, ...]) -> Iterable[dict[str, str]]:
    for line in first_lines(head):
        try:
            yield _row(line, columns)
        except InvalidData:
            continue


def _is_outside(number: str) -> bool:
    """Extensions are shorter, and named extensions have no digits."""
    return sum(char.isdecimal() for char in number) >= MIN_OUTSIDE_DIGITS


def outside_party(source: str, target: str, inbound: bool) -> tuple[str, bool] | None:
    """The outside number and whether it was called (rather than calling). None for a call from desk to desk.

    >>> outside_party("2025550143", "100", False), outside_party("100", "2025550143", True)
    (('2025550143', False), ('2025550143', True))
    >>> outside_party("100", "101", False)
    """
    caller = clean_number(source)
    from_inside = bool(caller) and not _is_outside(caller)
    if _is_outside(target) and (from_inside or not inbound):
        return clean_number(target), True
    return None if from_inside else (caller, False)


def _outside_call(party: tuple[str, bool] | None, start: int, kind: CallKind, billsec: str) -> Call | None:
    """``kind``: unless the party was called. ``billsec`` counts from the answer on."""
    if party is None:
        return None
    number, called = party
    return Call(number, start, CallKind.OUTGOING if called else kind, duration_seconds=duration_seconds(billsec))


_ASTERISK = (
    *("accountcode", "src", "dst", "dcontext", "clid", "channel", "dstchannel", "lastapp", "lastdata"),
    *("start", "answer", "end", "duration", "billsec", "disposition", "amaflags"),
)
_UNANSWERED = ("NO ANSWER", "BUSY", "FAILED", "CONGESTION", "CANCEL")
_CALLED_LEG = re.compile(r"App(?:Dial|Queue)", re.IGNORECASE)  # the row of a party whom the exchange called
_EXTENSION = re.compile(r"[A-Za-z0-9]+/[0-9]{2,6}[-@;]")  # the channel of an extension: PJSIP/100-0000000a
_DIALLED = re.compile(r"[0-9+]{7,}")


def _parse_asterisk(line: str, zone: tzinfo) -> Call | None:
    row = _row(line, _ASTERISK)
    disposition = row["disposition"]
    if disposition != "ANSWERED" and disposition not in _UNANSWERED:
        raise InvalidData("disposition", f"be ANSWERED or one of {', '.join(_UNANSWERED)}", "another")
    start = ISO.read(row["start"], zone)
    if _CALLED_LEG.match(row["lastapp"]) or _OUTBOUND.search(row["dcontext"]):
        return _called(row, start)
    kind = CallKind.VOICEMAIL if row["lastapp"].lower() == "voicemail" else CallKind.INCOMING
    if disposition in _UNANSWERED:
        kind = CallKind.MISSED
    # Without a second channel the exchange itself answered: a menu, an announcement, a voicemail box.
    seconds = row["billsec"] if row["dstchannel"] else "0"
    return _outside_call(outside_party(row["src"], row["dst"], _is_inbound(row)), start, kind, seconds)


def _called(row: dict[str, str], start: int) -> Call | None:
    """The number that the exchange called: the target or what it dialled. In a called party's row, that party."""
    leg = _CALLED_LEG.match(row["lastapp"])
    parties = [row["src"], row["dst"]] if leg else [row["dst"], *_DIALLED.findall(row["lastdata"])]
    number = next(filter(_is_outside, map(clean_number, parties)), "")
    return Call(number, start, CallKind.OUTGOING) if number else None


def _is_inbound(row: dict[str, str]) -> bool:
    """Whether the context shows that a call arrived, or an extension or a voicemail box answered it."""
    if _INBOUND.search(row["dcontext"]):
        return True
    if "internal" in row["dcontext"].lower() or _EXTENSION.match(row["channel"]):
        return False
    return _EXTENSION.match(row["dstchannel"]) is not None or row["lastapp"].lower() in ("voicemail", "queue")


def _sniff_asterisk(head: bytes) -> bool:
    return any(ISO.matches(row["start"]) and row["disposition"].isupper() for row in _first_rows(head, _ASTERISK))


ASTERISK = LogReader("asterisk", "Asterisk Master.csv", _sniff_asterisk, _parse_asterisk, local=True)


# The columns of the template "example".
_FREESWITCH = (
    *("caller_id_name", "caller_id_number", "destination_number", "context"),
    *("start", "answer", "end", "duration", "billsec", "hangup_cause"),
)


def _parse_freeswitch(line: str, zone: tzinfo) -> Call | None:
    row = _row(line, _FREESWITCH)
    start = ISO.read(row["start"], zone)
    # Calls arrive in the context "public" and are dialled in "default".
    inbound = _INBOUND.search(row["context"]) is not None and not _OUTBOUND.search(row["context"])
    kind = CallKind.REJECTED if row["hangup_cause"] == "CALL_REJECTED" else CallKind.MISSED
    if row["answer"]:
        kind = CallKind.INCOMING
    party = outside_party(row["caller_id_number"], row["destination_number"], inbound)
    return _outside_call(party, start, kind, row["billsec"])


def _sniff_freeswitch(head: bytes) -> bool:
    return any(ISO.matches(row["start"]) and ISO.matches(row["end"]) for row in _first_rows(head, _FREESWITCH))


FREESWITCH = LogReader("freeswitch", "FreeSWITCH CSV", _sniff_freeswitch, _parse_freeswitch, local=True)


# NCID's line of a call: CID: *DATE*03152024*TIME*1011*LINE*POTS*NMBR*2025550143*MESG*NONE*NAME*ACME SALES*
# Its servers outside North America may be set to write the day first, which only a day after the 12th shows. So there
# are two formats, and a log without such a day needs --format.
# A plus marks lines that another server forwarded. LOG is added when a server sends its log to a client.
_NCID_LABEL = re.compile(r"\+?([A-Z]{3,}?)(?:LOG)?:")
_NCID_DATE = re.compile(r"\*DATE\*(\d\d)(\d\d)\d{4}\*")
_NCID_COMMENT = re.compile(r"#|\d{3} ")
_NCID_KINDS = {
    "CID": CallKind.INCOMING,
    "WID": CallKind.INCOMING,  # while another call was going on
    "PID": CallKind.INCOMING,  # seen by a mobile phone
    "OUT": CallKind.OUTGOING,
    "HUP": CallKind.BLOCKED,  # the server hung up
    "BLK": CallKind.BLOCKED,
}


def _parse_ncid(line: str, zone: tzinfo, *, day_first: bool) -> Call | None:
    label = _NCID_LABEL.match(line)
    if label is None and not _NCID_COMMENT.match(line):
        raise InvalidData("line", "start with a label such as CID:", f"{len(line)} characters")
    kind = _NCID_KINDS.get(label[1]) if label else None
    if kind is None or label is None:
        return None  # a message
    body = line[label.end() :].strip()
    if len(body) < 2 or not body.startswith("*") or not body.endswith("*"):
        raise InvalidData("line", "be fields between stars, to the last star", f"{len(line)} characters")
    parts = body[1:-1].split("*")
    fields = dict(zip(parts[::2], parts[1::2], strict=False))
    if "NMBR" not in fields:
        raise InvalidData("NMBR", "be there", "none")
    start = (DAY_FIRST if day_first else AMERICAN).read(f"{fields.get('DATE', '')} {fields.get('TIME', '')}", zone)
    return Call(clean_number(fields["NMBR"]), start, kind)


def _sniff_ncid(head: bytes, *, day_first: bool) -> bool:
    """Whether it is such a log, and no date shows that it is the other format."""
    text = head_text(head)
    if not any(_NCID_LABEL.match(line) and "*DATE*" in line for line in first_lines(head, 40)):
        return False
    shows = day_comes_first((int(match[1]), int(match[2])) for match in _NCID_DATE.finditer(text))
    return shows is None or shows == day_first


def _ncid(name: str, *, day_first: bool) -> LogReader:
    sniff, parse = partial(_sniff_ncid, day_first=day_first), partial(_parse_ncid, day_first=day_first)
    return LogReader(name, "NCID log", sniff, parse, local=True)


NCID, NCID_DAY_FIRST = _ncid("ncid", day_first=False), _ncid("ncid-day-first", day_first=True)
