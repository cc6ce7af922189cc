"""``hushcall phone backup``, ``restore`` and ``forget``: what a phone keeps is put into a file, put back, or erased."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushcall.cli import show
from hushcall.cli.phone.home import LOCK_PATIENCE, Home, folder_of, opened
from hushcall.cli.show import Json
from hushcall.errors import InvalidData, InvalidParameter
from hushcall.wording import counted

if TYPE_CHECKING:
    from hushcall.phone.saving import Restored

Yes = Annotated[bool, typer.Option("--yes", help="Don't ask.")]


def backup(
    file: Annotated[Path, typer.Argument(help="Where to write it; an older backup there is replaced.")],
    home: Home = None,
    json: Json = False,
) -> None:
    """Write this phone into one file: its ledger, its calls and contacts, its settings and its secrets.

    It is written whole or not at all, read back, and readable by you only. Keep it where you would keep a password. The
    signed list is not in it: 'hushcall phone sync' fetches that again, from the server that this phone believes.

    [bold]Examples[/bold]

      hushcall phone backup /media/stick/phone.backup
    """
    from hushcall.phone.saving import back_up

    saved = back_up(folder_of(home), file, int(time.time()))
    if json:
        facts = {"file": str(saved.path), "bytes": saved.bytes, "reports": saved.reports}
        show.print_json(facts | {"epsilon": float(saved.epsilon)})
        return
    show.console.print(
        f"{saved.path}: {saved.bytes:,} bytes, read back; {counted(saved.reports, 'report')}, ε = "
        f"{float(saved.epsilon):g} in the ledger. It holds your callers and this phone's secrets: keep it to yourself.",
        markup=False,
        soft_wrap=True,
    )


def restore(
    file: Annotated[Path, typer.Argument(help="What 'hushcall phone backup' wrote.")],
    stopped: Annotated[
        str | None,
        typer.Option(
            metavar="DATE", help="The last day on which the phone may have taken part. Default: today is one."
        ),
    ] = None,
    yes: Yes = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Put a backup back: on a new machine, in place of a damaged store, or into the phone that is here.

    A restored phone never says less than it spent. Where the newer ledger is here, the two are merged, and settings are
    the backup's. Where it is lost, every report that your limits allowed since the backup is charged: at most your
    number of rounds a day, each at your cap, and the ledger shows them as assumed. Until one horizon has passed it
    reports made-up callers only. --stopped says that it took no part after a day, so that less is charged. A damaged
    store is kept beside the restored one.

    [bold]Examples[/bold]

      hushcall phone restore /media/stick/phone.backup

      hushcall phone restore phone.backup --stopped 2026-11-02
    """
    from hushcall.phone.saving import restore as put_back
    from hushcall.phone.setup import is_set_up

    until, folder = _end_of(stopped), folder_of(home)
    if not yes and is_set_up(folder):
        typer.confirm(
            f"There is a phone in {folder} already. Its settings become the backup's; spends of both are kept. Go on?",
            abort=True,
            err=True,
        )
    done = put_back(folder, file, int(time.time()), until, LOCK_PATIENCE)
    if json:
        facts = {"saved_at": _day(done.saved_at), "reports": done.reports, "assumed": done.assumed}
        kept = None if done.kept is None else str(done.kept)
        show.print_json(facts | {"epsilon": float(done.epsilon), "merged": done.merged, "damaged_store": kept})
        return
    show.console.print(_in_words(done), markup=False, soft_wrap=True)


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

    [bold]Examples[/bold]

      hushcall phone forget

      hushcall phone forget --all --yes
    """
    from hushcall.phone.home.erasing import erase_all
    from hushcall.phone.home.lock import locked
    from hushcall.phone.setup import is_set_up

    folder = folder_of(home)
    there = is_set_up(folder)
    if not yes and (there or not everything):
        typer.confirm(f"{_what_goes(home, everything=everything)} Erase it?", abort=True, err=True)
    if everything and there:
        with locked(folder, LOCK_PATIENCE):
            erase_all(folder)
    elif not everything:
        with opened(home) as store, locked(folder, LOCK_PATIENCE):
            store.forget()
    if json:
        show.print_json({"forgotten": "everything" if everything else "numbers"})
    elif everything and not there:
        show.console.print("There was nothing to forget.")
    else:
        show.console.print("Forgotten." if everything else "Forgotten; the ledger and the settings stay.")


def _what_goes(home: Path | None, *, everything: bool) -> str:
    """What is lost, counted."""
    from hushcall.phone.reporting import ledger

    try:
        with opened(home) as store:
            callers, contacts, reported = (
                int(store.row(query)[0])
                for query in (
                    "SELECT count(*) FROM callers",
                    "SELECT count(*) FROM contacts",
                    "SELECT count(*) FROM reported",
                )
            )
            reports, spent = len(ledger.spends(store)), float(ledger.spent(store))
    except InvalidData as error:
        if not everything:
            raise
        return f"{error}\nWhat is in it cannot be read, so it cannot be said what is lost."
    numbers = (
        f"{counted(callers, 'caller')}, {counted(contacts, 'contact')}, and which {counted(reported, 'number')} "
        f"{'was' if reported == 1 else 'were'} reported"
    )
    if not everything:
        return f"This erases {numbers}; the ledger stays."
    return (
        f"This erases {numbers}; the ledger of {counted(reports, 'report')} (ε = {spent:g}: the caps start from zero "
        "then, though nothing that was sent is taken back); the enrolment; your own list; and the signed list."
    )


def _end_of(text: str | None) -> int | None:
    """The last second of a day, by UTC as the ledger counts; None where no day is given."""
    if text is None:
        return None
    try:
        return int(datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()) + 86_399
    except ValueError:
        raise InvalidParameter("--stopped", "be a day like 2026-11-02", text) from None


def _day(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).date().isoformat()


def _in_words(done: Restored) -> str:
    known = f"{counted(done.reports, 'report')} in the ledger"
    if done.merged:
        words = (
            f"Merged with the backup of {_day(done.saved_at)}: {known}, ε = {float(done.epsilon):g}. Nothing was lost."
        )
    else:
        words = (
            f"Restored as of {_day(done.saved_at)}: {known}. What was spent since then is not known, so "
            f"{counted(done.assumed, 'more report')} {'is' if done.assumed == 1 else 'are'} charged, as many as the "
            f"backup's limits allow: ε = {float(done.epsilon):g} in all. For one horizon made-up callers only are "
            "reported. Next: hushcall phone sync"
        )
    return words if done.kept is None else f"{words}\nThe damaged store is kept: {done.kept}"
