"""``hushcall phone ingest`` and ``watch``: call logs and contacts come in, and stay on the phone."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushcall.cli import show
from hushcall.cli.phone.home import Home, opened
from hushcall.cli.show import Json
from hushcall.errors import InvalidData, InvalidParameter
from hushcall.wording import counted

if TYPE_CHECKING:
    from hushcall.formats.calls.reader import Reader
    from hushcall.phone.home.store import Store

_LEFT_OUT = {
    "hidden": "with no number",
    "foreign": "short or foreign",
    "ignored": "blocked already",
    "malformed": "malformed",
}
Format = Annotated[str | None, typer.Option("--format", help="The log's format. Default: recognised by its content.")]
Zone = Annotated[
    str | None,
    typer.Option(help="Time zone of logs in local time, like Europe/Berlin; remembered. Default: this machine's."),
]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="date=…,number=…,direction=…",
        help="Of a CSV table: which column is what, by their titles (also time=, name=); or 'guess', to take the guess"
        " that is shown without it. Remembered for tables with the same header.",
    ),
]


def ingest(
    files: Annotated[list[str] | None, typer.Argument(help="Call logs; - reads one from standard input.")] = None,
    format: Format = None,  # noqa: A002  (what the user calls it)
    contacts: Annotated[
        list[Path] | None, typer.Option(help="Contacts (.vcf, Termux JSON, one number a line), never reported.")
    ] = None,
    zone: Zone = None,
    columns: Columns = None,
    again: Annotated[bool, typer.Option("--again", help="Read logs from their start, not only what is new.")] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Read call logs and contacts. Only what is new is read; the same calls twice change nothing. Nothing is sent.

    [bold]Examples[/bold]

      termux-call-log -l 500 | hushcall phone ingest -

      hushcall phone ingest calls.xml --contacts contacts.vcf

      hushcall phone ingest /var/log/asterisk/cdr-csv/Master.csv --zone America/New_York

      hushcall phone ingest bill.csv --columns "date=Call Date,number=Other party,direction=Type"
    """
    if not files and not contacts:
        raise InvalidParameter("ingest", "be given call logs, --contacts, or both", "neither")
    from hushcall.phone.calls.ingest import zone_of_logs

    with opened(home) as store, show.progress("reading") as bar:
        where, rows = zone_of_logs(store, zone), []
        for done, name in enumerate(files or (), 1):
            rows.append(_take(store, name, format, where, columns, again=again, ask=not json))
            show.step(bar, "reading", done, len(files or ()))
        added = [_contacts(store, path) for path in contacts or ()]
    if json:
        show.print_json({"logs": rows, "contacts": added})
        return
    for row in rows:
        show.console.print(_words(row), markup=False, soft_wrap=True)
    for row in added:
        spoilt = f" {counted(row['malformed'], 'entry')} could not be read." if row["malformed"] else ""
        show.console.print(
            f"{row['file']}: {counted(row['numbers'], 'contact')}, never reported.{spoilt}",
            markup=False,
            soft_wrap=True,
        )


def watch(
    file: Annotated[Path, typer.Argument(help="A call log that grows, like Asterisk's Master.csv.")],
    format: Format = None,  # noqa: A002
    zone: Zone = None,
    columns: Columns = None,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between looks.")] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and stop.")] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Follow a growing call log, through rotation too, until stopped. With --json one document a line.

    [bold]Examples[/bold]

      hushcall phone watch /var/log/asterisk/cdr-csv/Master.csv

      hushcall phone watch /var/log/cidcall.log --format ncid --once
    """
    import json as text

    from hushcall.phone.calls.ingest import stamp, zone_of_logs

    with opened(home) as store:
        where, last, looks = zone_of_logs(store, zone), None, 0
        while True:
            now = stamp(file)
            if once or (now is not None and now != last):
                row = _look(store, file, format, where, columns, patient=looks > 0)
                if row and (once or row["calls"] or row["malformed"]):
                    print(text.dumps(row) if json else _words(row), flush=True)
                last, looks = now, looks + 1
            elif not looks:
                _say(f"{file} is not there yet: waiting for it")
                looks = 1
            if once:
                return
            try:
                time.sleep(every)
            except KeyboardInterrupt:  # how a person ends it
                return


def _look(
    store: Store, file: Path, form: str | None, zone: tzinfo, columns: str | None, *, patient: bool
) -> dict[str, Any] | None:
    """One look at a followed log. Later looks are patient: a file may vanish between two looks, or be half written."""
    try:
        return _take(store, str(file), form, zone, columns)
    except InvalidData as error:
        if not patient:
            raise
        _say(f"{error}; will look again")
        return None


def _say(words: str) -> None:
    print(f"hushcall: {words}", file=sys.stderr, flush=True)


def _take(
    store: Store,
    name: str,
    form: str | None,
    zone: tzinfo,
    columns: str | None = None,
    *,
    again: bool = False,
    ask: bool = False,
) -> dict[str, Any]:
    from hushcall.phone.calls.ingest import take_bytes, take_log
    from hushcall.phone.setup import plan_of

    now, data = int(time.time()), sys.stdin.buffer.read() if name == "-" else None
    how = _table(store, name, data, form, zone, columns, ask=ask) or form
    if data is not None:
        taken = take_bytes(store, data, plan_of(store), now, how, zone)
    else:
        taken = take_log(store, Path(name), plan_of(store), now, how, zone, again=again)
    rest = {"malformed": taken.malformed, "first_problem": taken.first_problem}
    read_as = {"zone": str(zone), "zone_is_this_machines": not store.get("zone")} if taken.local else {"zone": None}
    return {"file": name, "format": taken.format, **asdict(taken.counts), **rest, **read_as}


def _table(
    store: Store, name: str, data: bytes | None, form: str | None, zone: tzinfo, columns: str | None, *, ask: bool
) -> Reader | None:
    """The reader of a table that its owner has agreed to; None where the log is no table. A person is asked."""
    from hushcall.formats.calls.texts import HEAD_BYTES
    from hushcall.phone.calls.tables import GUESS, NotAgreed, table_for

    if data is None:
        try:
            with Path(name).open("rb") as file:
                data = file.read(HEAD_BYTES)
        except OSError:
            return None  # whoever reads it says so
    elif sys.stdin.isatty():
        ask = False
    filename = "" if name == "-" else Path(name).name
    try:
        return table_for(store, data[:HEAD_BYTES], zone, form, filename, columns)
    except NotAgreed as unknown:
        if not (ask and sys.stdin.isatty()):
            raise
        typer.confirm(f"{name} is a table, and {unknown.guess}. Is that right?", abort=True, err=True)
        return table_for(store, data[:HEAD_BYTES], zone, form, filename, GUESS)


def _contacts(store: Store, path: Path) -> dict[str, Any]:
    from hushcall.phone.calls.ingest import take_contacts
    from hushcall.phone.setup import plan_of

    return {"file": str(path), **asdict(take_contacts(store, path, plan_of(store)))}


def _words(row: dict[str, Any]) -> str:
    out = {name: row[name] for name in _LEFT_OUT if row[name]}
    rest = ", ".join(f"{count} {_LEFT_OUT[name]}" for name, count in out.items())
    problem = f" First problem: {row['first_problem']}." if row["first_problem"] else ""
    if not row["calls"] and not rest:
        return f"{row['file']} ({row['format'] or 'empty'}): no new calls."
    return (
        f"{row['file']} ({row['format'] or 'empty'}): {counted(row['calls'], 'call')}; "
        f"{counted(row['callers'], 'number')} called, {row['strangers']} of them unknown"
        f"{'; left out: ' + rest if rest else ''}.{problem}{_read_as(row)}"
    )


def _read_as(row: dict[str, Any]) -> str:
    """A zone that nobody has chosen is named: a wrong one moves every call."""
    if not row.get("zone_is_this_machines"):
        return ""
    return f" Its times have no zone: read as {row['zone']}, this machine's (--zone says another)."
