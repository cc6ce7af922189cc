"""``hushcall phone backup``, ``restore`` and ``forget``."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from hushcall.cli import show
from hushcall.cli.options import Home, client_in, folder_of, opened, warn_only_read
from hushcall.cli.show import Json
from hushcall.client import saving
from hushcall.client.reporting import ledger
from hushcall.client.saving import Restored
from hushcall.client.setup import is_set_up
from hushcall.client.storage.folder import erase_all, locked
from hushcall.client.storage.store import DAY_SECONDS
from hushcall.errors import InvalidData
from hushcall.protocol.blocklist import iso
from hushcall.wording import counted

Yes = Annotated[bool, typer.Option("--yes", help="Don't ask.")]


def backup(
    file: Annotated[Path, typer.Argument(help="Where to write it; an older backup there is replaced.")],
    home: Home = None,
    json: Json = False,
) -> None:
    """Write this phone into one file: its ledger, its calls and contacts, its settings and its secrets.

    It is written whole or not at all, read back, and readable by you only. Keep it where you would keep a password. The
    signed list is not in it: 'hushcall phone sync' fetches that again, from the server that this phone believes.
    """
    saved = saving.back_up(folder_of(home), file, int(time.time()))
    warn_only_read(saved.only_read)
    facts = {"file": str(saved.path), "bytes": saved.bytes, "reports": saved.reports, "epsilon": float(saved.epsilon)}
    text = (
        f"{saved.path}: {saved.bytes:,} bytes, read back; {counted(saved.reports, 'report')}, ε = "
        f"{float(saved.epsilon):g} in the ledger. It holds your callers and this phone's secrets: keep it to yourself."
    )
    show.say(facts, json, text)


def restore(
    file: Annotated[Path, typer.Argument(help="What 'hushcall phone backup' wrote.")],
    stopped: Annotated[
        datetime | None,
        typer.Option(
            metavar="DATE",
            formats=["%Y-%m-%d"],
            help="The last day (by UTC) on which the phone may have taken part. Default: today is one.",
        ),
    ] = None,
    yes: Yes = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Put a backup back: on a new machine, in place of a damaged store, or into the phone that is here.

    Where the newer ledger is here, the two are merged, and settings are the backup's. Where it is lost, every report
    that your limits allowed since the backup is charged, and until one horizon has passed the phone reports made-up
    callers only. A damaged store is kept beside the restored one.

    [bold]Examples[/bold]

      hushcall phone restore /media/stick/phone.backup

      hushcall phone restore phone.backup --stopped 2026-11-02
    """
    until = None if stopped is None else int(stopped.replace(tzinfo=UTC).timestamp()) + DAY_SECONDS - 1
    folder = folder_of(home)
    if not yes and is_set_up(folder):
        typer.confirm(
            f"There is a phone in {folder} already. Its settings become the backup's; spends of both are kept. Go on?",
            abort=True,
            err=True,
        )
    result = saving.restore(folder, file, int(time.time()), until)
    facts = {"saved_at": iso(result.saved_at)[:10], "reports": result.reports, "assumed": result.assumed}
    damaged = None if result.kept is None else str(result.kept)
    facts |= {"epsilon": float(result.epsilon), "merged": result.merged, "damaged_store": damaged}
    show.say(facts, json, _in_words(result))


def leave(yes: Yes = False, home: Home = None, json: Json = False) -> None:
    """Have this device deleted on its server, with every row that names it. The phone takes no part any more.

    It keeps its ledger, and may still sync the list. Sealed tallies stay: nobody can tell which report is its own.
    Then 'hushcall phone forget --all' removes the phone from this machine.
    """
    with closing(client_in(home)) as client:
        url = client.transport.url
        if not yes:
            typer.confirm(f"Delete device {client.store.get('device')} on {url}?", abort=True, err=True)
        with client.alone():
            client.leave()
    show.say({"left": url}, json, f"Deleted on {url}. Sealed tallies and its operator's earlier backups stay.")


def forget(
    everything: Annotated[bool, typer.Option("--all", help="The ledger, the settings and the list as well.")] = False,
    yes: Yes = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Erase what this phone knows of calls: callers, contacts, what was reported. The ledger keeps its totals.

    It says what will be lost, and asks. Your own list stays (hushcall phone own). The phone also forgets which numbers
    it has reported. If it reads a call log with them again, they may be reported again, even within the window. Nothing
    that was sent can be called back.
    """
    folder = folder_of(home)
    exists = is_set_up(folder)
    if not yes and (exists or not everything):
        typer.confirm(f"{_loss_in_words(home, everything=everything)} Erase it?", abort=True, err=True)
    text = "Forgotten." if exists else "There was nothing to forget."
    if everything and exists:
        with locked(folder):
            erase_all(folder)
    elif not everything:
        text = "Forgotten; the ledger and the settings stay."
        with opened(home) as store, locked(folder):
            store.forget()
    show.say({"forgotten": "everything" if everything else "numbers"}, json, text)


def _loss_in_words(home: Path | None, *, everything: bool) -> str:
    try:
        with opened(home) as store:
            callers = store.count("SELECT count(*) FROM callers")
            contacts = store.count("SELECT count(*) FROM contacts")
            reported = store.count("SELECT count(*) FROM reported")
            reports, spent = len(ledger.spends(store)), float(ledger.spent(store))
    except InvalidData as error:
        if not everything:
            raise
        return f"{error}\nWhat is in it cannot be read, so it cannot be said what is lost."
    words = (
        f"This erases {counted(callers, 'caller')}, {counted(contacts, 'contact')}, and which "
        f"{counted(reported, 'number')} {'was' if reported == 1 else 'were'} reported; the ledger"
    )
    if not everything:
        return f"{words} stays."
    return (
        f"{words} of {counted(reports, 'report')} (ε = {spent:g}: the caps start from zero then, though nothing that "
        "was sent is taken back); the enrolment here (hushcall phone leave: on the server); your own list; and the "
        "signed list."
    )


def _in_words(result: Restored) -> str:
    reports, epsilon = f"{counted(result.reports, 'report')} in the ledger", f"ε = {float(result.epsilon):g}"
    if result.merged:
        words = f"Merged with the backup of {iso(result.saved_at)[:10]}: {reports}, {epsilon}. Nothing was lost."
    else:
        words = (
            f"Restored as of {iso(result.saved_at)[:10]}: {reports}. What was spent since then is not known, so "
            f"{counted(result.assumed, 'more report')} {'is' if result.assumed == 1 else 'are'} charged, as many as "
            f"the backup's limits allow: {epsilon} in all. For one horizon made-up callers only are reported. "
            "Next: hushcall phone sync"
        )
    return words if result.kept is None else f"{words}\nThe damaged store is kept: {result.kept}"
