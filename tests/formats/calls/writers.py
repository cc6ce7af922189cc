"""Writes call logs in every format, for tests: what a reader reads back must be the same calls."""

from __future__ import annotations

import codecs
import csv
import io
import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from html import escape

from hushcall.formats.calls.call import Call, CallKind
from hushcall.formats.calls.dates import AMERICAN, DAY_FIRST, DOTTED, ISO, DateLayout

STRFTIME = {ISO: "%Y-%m-%d %H:%M:%S", DOTTED: "%d.%m.%y %H:%M", DAY_FIRST: "%d%m%Y %H%M", AMERICAN: "%m%d%Y %H%M"}
INCOMING, OUTGOING, MISSED, VOICEMAIL, REJECTED, BLOCKED = CallKind


def written(layout: DateLayout, moment: int, zone: tzinfo) -> str:
    """The local date of a moment in this layout."""
    return datetime.fromtimestamp(moment, zone).strftime(STRFTIME[layout])


@dataclass(frozen=True)
class Writer:
    """How a format is written, and what of a call it can hold."""

    render: Callable[[Sequence[Call], tzinfo], bytes]
    kinds: frozenset[CallKind] = field(default_factory=lambda: frozenset(CallKind))
    seconds: int = 1  # its dates are whole multiples of this
    names: bool = True  # whether it shows names from the phone's contacts
    duration_unit: int = 1  # seconds in which it counts durations (0: it has none)


def write(format_name: str, calls: Sequence[Call], zone: tzinfo = UTC) -> bytes:
    """A file in this format that holds these calls."""
    writer = WRITERS[format_name]
    assert writer.kinds.issuperset(call.kind for call in calls), f"{format_name} cannot hold all of these kinds"
    return writer.render(calls, zone)


ANDROID = {INCOMING: "1", OUTGOING: "2", MISSED: "3", VOICEMAIL: "4", REJECTED: "5", BLOCKED: "6"}


def presentation(call: Call) -> str:
    return "2" if call.hidden else "1"


def clock(seconds: int | None, *, hours: bool = False) -> str:
    """As m:ss, or as h:mm:ss."""
    if seconds is None:
        return ""
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def number(seconds: int | None) -> str:
    return "" if seconds is None else str(seconds)


def adb(calls: Sequence[Call], _zone: tzinfo) -> bytes:
    return "".join(
        f"Row: {place} number={call.number}, date={1000 * call.at}, type={ANDROID[call.kind]}, "
        f"presentation={presentation(call)}, duration={number(call.duration_seconds) or 'NULL'}, "
        f"name={call.name or 'NULL'}\n"
        for place, call in enumerate(calls)
    ).encode()


def sms_backup(calls: Sequence[Call], _zone: tzinfo) -> bytes:
    rows = "".join(
        f'  <call number="{escape(call.number)}" duration="{number(call.duration_seconds)}" '
        f'date="{1000 * call.at}" type="{ANDROID[call.kind]}" '
        f'presentation="{presentation(call)}" contact_name="{escape(call.name or "(Unknown)")}" />\n'
        for call in calls
    )
    document = (
        f"<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>\n<calls count=\"{len(calls)}\">\n{rows}</calls>\n"
    )
    return document.encode()


def termux(calls: Sequence[Call], zone: tzinfo) -> bytes:
    records = [
        {
            "name": call.name or "UNKNOWN_CALLER",
            "phone_number": call.number,
            "type": call.kind.upper(),
            "date": written(ISO, call.at, zone),
            "duration": clock(call.duration_seconds, hours=(call.duration_seconds or 0) >= 3600),
            "sim_id": "1",
        }
        for call in calls
    ]
    return json.dumps(records, indent=2, ensure_ascii=False).encode() + b"\n"


def quoted(*values: str) -> str:
    """A row of CSV with every field in quotes, as exchanges write it."""
    return ",".join('"' + value.replace('"', '""') + '"' for value in values) + "\n"


def asterisk(calls: Sequence[Call], zone: tzinfo) -> bytes:
    rows = ""
    for call in calls:
        called, date = call.kind == OUTGOING, written(ISO, call.at, zone)
        source, target = ("100", call.number) if called else (call.number, "100")
        rows += quoted(
            *("", source, target, "from-internal" if called else "from-trunk", f'"" <{source}>', "SIP/a", "SIP/b"),
            *("VoiceMail" if call.kind == VOICEMAIL else "Dial", "", date, "" if call.kind == MISSED else date, date),
            *("0", number(call.duration_seconds), "NO ANSWER" if call.kind == MISSED else "ANSWERED", "DOCUMENTATION"),
        )
    return rows.encode()


def freeswitch(calls: Sequence[Call], zone: tzinfo) -> bytes:
    causes = {REJECTED: "CALL_REJECTED", MISSED: "ORIGINATOR_CANCEL"}
    rows = ""
    for call in calls:
        called, date = call.kind == OUTGOING, written(ISO, call.at, zone)
        parties = ("1000", call.number, "default") if called else (call.number, "1000", "public")
        cause = causes.get(call.kind, "NORMAL_CLEARING")
        answer = "" if call.kind in causes else date
        rows += quoted(
            "", *parties, date, answer, date, "0", number(call.duration_seconds), cause, "", "", "", "PCMU", "PCMU"
        )
    return rows.encode()


def fritzbox_csv(calls: Sequence[Call], zone: tzinfo) -> bytes:
    codes = {INCOMING: "1", MISSED: "2", OUTGOING: "3"}
    rows = "".join(
        f"{codes[call.kind]};{written(DOTTED, call.at, zone)};{call.name};{call.number};;Telefon;5550100;"
        f"{clock(call.duration_seconds and call.duration_seconds // 60)}\n"
        for call in calls
    )
    header = "Typ;Datum;Name;Rufnummer;Landes-/Ortsnetzbereich;Nebenstelle;Eigene Rufnummer;Dauer"
    text = f"sep=;\n{header}\n{rows}"
    return (b"" if text.isascii() else codecs.BOM_UTF8) + text.encode()


def fritzbox_xml(calls: Sequence[Call], zone: tzinfo) -> bytes:
    codes = {INCOMING: "1", MISSED: "2", OUTGOING: "3", REJECTED: "10", VOICEMAIL: "1"}
    rows: list[str] = []
    for call in calls:
        caller, called = ("5550100", call.number) if call.kind == OUTGOING else (call.number, "5550100")
        port = "40" if call.kind == VOICEMAIL else "10"
        rows.append(
            f"<Call><Type>{codes[call.kind]}</Type><Caller>{escape(caller)}</Caller><Called>{escape(called)}</Called>"
            f"<Name>{escape(call.name)}</Name><Port>{port}</Port><Date>{written(DOTTED, call.at, zone)}</Date>"
            f"<Duration>{clock(call.duration_seconds and call.duration_seconds // 60)}</Duration></Call>\n"
        )
    document = f'<?xml version="1.0" encoding="utf-8"?>\n<root><timestamp>0</timestamp>\n{"".join(rows)}</root>\n'
    return document.encode()


def ios(calls: Sequence[Call], _zone: tzinfo) -> bytes:
    epoch = 978_307_200
    rows = [
        (
            *(call.kind == INCOMING, call.kind == OUTGOING, call.at - epoch),
            *(call.number, call.name or None, call.duration_seconds),
        )
        for call in calls
    ]
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(
            "CREATE TABLE ZCALLRECORD (Z_PK INTEGER PRIMARY KEY, ZANSWERED INTEGER, ZORIGINATED INTEGER, "
            "ZDATE TIMESTAMP, ZADDRESS VARCHAR, ZNAME VARCHAR, ZDURATION FLOAT)"
        )
        columns = "ZANSWERED, ZORIGINATED, ZDATE, ZADDRESS, ZNAME, ZDURATION"
        database.executemany(f"INSERT INTO ZCALLRECORD ({columns}) VALUES (?, ?, ?, ?, ?, ?)", rows)  # noqa: S608
        database.commit()
        return database.serialize()


def ncid(layout: DateLayout) -> Callable[[Sequence[Call], tzinfo], bytes]:
    def render(calls: Sequence[Call], zone: tzinfo) -> bytes:
        rows: list[str] = []
        for call in calls:
            date, time = written(layout, call.at, zone).split()
            number = call.number or "NO-NUMBER"
            rows.append(f"{NCID[call.kind]}: *DATE*{date}*TIME*{time}*LINE*-*NMBR*{number}*MESG*NONE*NAME*NO NAME*\n")
        return "".join(rows).encode()

    return render


NCID = {INCOMING: "CID", OUTGOING: "OUT", BLOCKED: "HUP"}


def named_columns(calls: Sequence[Call], zone: tzinfo) -> bytes:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("number", "date", "type", "name", "duration"))
    table.writerows(
        (call.number, written(ISO, call.at, zone), call.kind.value, call.name, number(call.duration_seconds))
        for call in calls
    )
    return text.getvalue().encode()


WRITERS = {
    "termux": Writer(termux),
    "sms-backup": Writer(sms_backup),
    "adb": Writer(adb),
    "ios": Writer(ios, frozenset((INCOMING, OUTGOING, MISSED))),
    "asterisk": Writer(asterisk, frozenset((INCOMING, OUTGOING, MISSED, VOICEMAIL)), names=False),
    "freeswitch": Writer(freeswitch, frozenset((INCOMING, OUTGOING, MISSED, REJECTED)), names=False),
    "fritzbox-csv": Writer(fritzbox_csv, frozenset((INCOMING, OUTGOING, MISSED)), seconds=60, duration_unit=60),
    "fritzbox-xml": Writer(
        fritzbox_xml, frozenset((INCOMING, OUTGOING, MISSED, REJECTED, VOICEMAIL)), seconds=60, duration_unit=60
    ),
    "ncid": Writer(ncid(AMERICAN), frozenset(NCID), seconds=60, names=False, duration_unit=0),
    "ncid-day-first": Writer(ncid(DAY_FIRST), frozenset(NCID), seconds=60, names=False, duration_unit=0),
    "csv": Writer(named_columns),
}
