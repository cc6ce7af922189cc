"""``hushcall phone ingest``."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from datetime import tzinfo
from pathlib import Path
from typing import Annotated, Any

import typer

from hushcall.cli import show
from hushcall.cli.options import Home, opened
from hushcall.cli.show import Json
from hushcall.client.calls.ingest import ingest_contacts, ingest_log, zone_of_logs
from hushcall.client.setup import plan_of
from hushcall.client.storage.store import Store
from hushcall.errors import InvalidParameter
from hushcall.wording import counted

_LEFT_OUT = {"hidden": "with no number", "foreign": "short or foreign", "malformed": "malformed"}


def ingest(
    files: Annotated[list[str] | None, typer.Argument(help="Call logs; - reads one from standard input.")] = None,
    format: Annotated[  # noqa: A002  (what the user calls it)
        str | None, typer.Option(help="The log's format. Default: recognised by its content.")
    ] = None,
    contacts: Annotated[
        list[Path] | None, typer.Option(help="Contacts (.vcf, Termux JSON, one number a line), never reported.")
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option(help="Time zone of logs in local time, like Europe/Berlin; remembered. Default: this machine's."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="date=…,number=…,direction=…",
            help="Of a CSV table: which column is what, by their titles (also time=, name=); or 'guess', to take the"
            " guess that is shown without it. Remembered for tables with the same header.",
        ),
    ] = None,
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
    with opened(home) as store, show.progress("reading") as bar:
        log_zone, rows = zone_of_logs(store, zone), []
        for done, name in enumerate(files or (), 1):
            rows.append(_ingest(store, name, format, log_zone, columns, again=again))
            show.step(bar, "reading", done, len(files or ()))
        added = [(path, ingest_contacts(store, path, plan_of(store))) for path in contacts or ()]
    lines = [_words(row) for row in rows]
    for path, counts in added:
        malformed = f" {counted(counts['malformed'], 'entry')} could not be read." if counts["malformed"] else ""
        lines.append(f"{path}: {counted(counts['numbers'], 'contact')}, never reported.{malformed}")
    facts = {"logs": rows, "contacts": [{"file": str(path), **counts} for path, counts in added]}
    show.say(facts, json, "\n".join(lines))


def _ingest(
    store: Store, name: str, form: str | None, zone: tzinfo, columns: str | None, *, again: bool = False
) -> dict[str, Any]:
    source = sys.stdin.buffer.read() if name == "-" else Path(name)
    log = ingest_log(store, source, plan_of(store), int(time.time()), form, zone, columns=columns, again=again)
    problems = {"malformed": log.malformed, "first_problem": log.first_problem}
    read_as = {"zone": str(zone), "zone_is_this_machines": not store.get("zone")} if log.local else {"zone": None}
    return {"file": name, "format": log.format, **asdict(log.counts), **problems, **read_as}


def _words(row: dict[str, Any]) -> str:
    left_out = ", ".join(f"{row[name]} {words}" for name, words in _LEFT_OUT.items() if row[name])
    problem = f" First problem: {row['first_problem']}." if row["first_problem"] else ""
    zone = ""
    if row.get("zone_is_this_machines"):  # one that the owner has not chosen: a wrong one shifts every call
        zone = f" Its times have no zone: read as {row['zone']}, this machine's (--zone says another)."
    if not row["calls"] and not left_out:
        return f"{row['file']} ({row['format'] or 'empty'}): no new calls."
    return (
        f"{row['file']} ({row['format'] or 'empty'}): {counted(row['calls'], 'call')}; "
        f"{counted(row['callers'], 'number')} called, {row['strangers']} of them unknown"
        f"{'; left out: ' + left_out if left_out else ''}.{problem}{zone}"
    )
