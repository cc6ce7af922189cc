"""``hushcall prove races``: two servers over one database that act at the same moment."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from hushcall import checks
from hushcall.cli import show
from hushcall.cli.show import Json
from hushcall.errors import MissingExtra

if TYPE_CHECKING:
    from hushcall.lab.prove.races import Raced

BUG_RACES = 200
"""Races within which a planted bug has to be noticed: one in ten or so meets it."""


def races(
    count: Annotated[int, typer.Option("--races", min=1, help="Races of each of the three kinds.")] = 100,
    database: Annotated[
        str, typer.Option(help="URL of an empty PostgreSQL database, or: postgresql, one of its own. Default: SQLite.")
    ] = "",
    seed: Annotated[int, typer.Option(min=0, help="Who does what when; the machine has its say in when.")] = 1,
    plant: Annotated[str, typer.Option(help="Plant one bug in the servers, by its name, and run with it.")] = "",
    bugs: Annotated[bool, typer.Option(help="Plant each bug too, over SQLite, and see that it is noticed.")] = True,
    json: Json = False,
) -> None:
    """Publish a list while its numbers are appealed, allowed and withdrawn; let two operators do the same at once.

    Two servers in one process, over one database. Corrections come at moments drawn over the whole length of
    publishing: before it, while the list is drawn up, inside its transaction, after it. No list may come into force
    with a number on it that is appealed or allowed at that moment. Then two operators force the same round on, which
    must not skip a state, and appeal for the same number, which must leave one appeal open. A tenth of a second for one
    race of each kind. Exits with 1 if a promise was broken, or a planted bug (corrections-read-once,
    forced-whatever-it-is) was not noticed within 200 races.

    [bold]Examples[/bold]

      hushcall prove races

      hushcall prove races --races 1000 --no-bugs --database postgresql --json

      hushcall prove races --plant corrections-read-once
    """
    try:
        from hushcall.lab.live.rig import database_of
        from hushcall.lab.prove import races as proof
    except ImportError:
        raise MissingExtra("hushcall prove", "lab") from None
    if plant:
        checks.one_of("plant", plant, proof.BUGS)
    noticed: dict[str, Raced] = {}
    with show.progress("racing") as bar, database_of(database) as url:
        raced = proof.prove(count, seed, url, plant, partial(show.step, bar, "races"))
        for name in proof.BUGS if bugs and not plant else ():
            progress = partial(show.step, bar, f"with a bug: {name}")
            noticed[name] = proof.prove(BUG_RACES, seed, "", name, progress, to_first=True)
    ok = raced.ok and not any(one.ok for one in noticed.values())
    if json:
        planted = {name: {"races": one.races, "broken": one.broken} for name, one in noticed.items()}
        show.print_json({"ok": ok, **asdict(raced), "planted": planted})
    else:
        _print(raced, noticed)
    if not ok:
        raise typer.Exit(1)


def _print(raced: Raced, noticed: dict[str, Raced]) -> None:
    def say(words: str) -> None:
        show.console.print(words, markup=False, soft_wrap=True)

    say(
        f"{raced.races:,} races of each kind on {raced.database}: {raced.wrong} broke a promise. Publishing took "
        f"{raced.publishing_ms:,.0f} ms at the median. {raced.seconds:,.0f} s."
    )
    for stage, times in raced.stages.items():
        say(f"  {times:>5,} corrections came {stage}")
    say(f"  {raced.redrawn:>5,} lists were drawn up again because of one")
    say(f"  {raced.same_step:>5,} pairs forced the same step")
    if raced.broken:
        say(f"BROKEN: {raced.broken} (seed {raced.seed})")
    for name, one in noticed.items():
        found = f"race {one.races}: {one.broken}" if one.broken else f"NOT NOTICED in {one.races} races"
        say(f"planted: {name}: {found}")
