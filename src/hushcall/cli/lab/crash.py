"""``hushcall prove crash``: a server that is killed again and again, and what became of what it acknowledged."""

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
    from hushcall.lab.prove.crash import Survived

BUG_CYCLES = 5
"""One round with a kill in each phase: enough for every bug."""


def crash(
    cycles: Annotated[int, typer.Option(min=1, help="How often the server dies, at least: rounds are whole.")] = 21,
    database: Annotated[
        str, typer.Option(help="URL of an empty PostgreSQL database, or: postgresql, one of its own. Default: SQLite.")
    ] = "",
    workers: Annotated[int, typer.Option(min=1, max=64, help="Of the server, each of which may be killed.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Where it dies; the machine has its say in when.")] = 1,
    plant: Annotated[str, typer.Option(help="Plant one bug in the server, by its name, and run with it.")] = "",
    bugs: Annotated[bool, typer.Option(help="Plant each bug too, over SQLite, and see that it is noticed.")] = True,
    json: Json = False,
) -> None:
    """Kill a running server again and again while phones report; compare what it acknowledged with what it counted.

    The server is a process of 'hushcall serve', or one with workers, with a 'hushcall relay' before it. They die by
    SIGKILL, right before or after commits and at random moments, also while they start; in some rounds the server
    stands still until another has taken over. Half of the phones report by name, half with blind tokens through the
    relay; all ask again until they are answered. A second or more a cycle.
    Exits with 1 if a report was lost, counted twice or made up, or a planted bug (acknowledged-before-commit,
    retry-counted, lease-without-fencing) was not noticed.

    [bold]Examples[/bold]

      hushcall prove crash

      hushcall prove crash --cycles 1000 --no-bugs --json

      hushcall prove crash --cycles 300 --no-bugs --database postgresql

      hushcall prove crash --cycles 50 --no-bugs --workers 4

      hushcall prove crash --cycles 5 --plant retry-counted
    """
    try:
        from hushcall.lab.live.rig import database_of
        from hushcall.lab.prove import crash as proof
        from hushcall.lab.prove.planted_server import BUGS
    except ImportError:
        raise MissingExtra("hushcall prove", "lab") from None
    if plant:
        checks.one_of("plant", plant, BUGS)
    noticed: dict[str, str] = {}
    show.ready_to_decode()
    with show.progress("killing") as bar, database_of(database) as url:
        survived = proof.prove(cycles, seed, url, plant, partial(show.step, bar, "cycles"), workers=workers)
        for name in BUGS if bugs and not plant else ():
            progress = partial(show.step, bar, f"with a bug: {name}")
            noticed[name] = proof.prove(BUG_CYCLES, seed, "", name, progress, waves=1).broken
    ok = survived.ok and all(noticed.values())
    if json:
        show.print_json({"ok": ok, **asdict(survived), "planted": noticed})
    else:
        _print(survived, noticed)
    if not ok:
        raise typer.Exit(1)


def _print(survived: Survived, noticed: dict[str, str]) -> None:
    say = show.console.print
    say(
        f"{survived.cycles:,} cycles on {survived.database}, {survived.kills:,} kills ({survived.relay_kills:,} of the "
        f"relay), {survived.rounds:,} rounds: {survived.acknowledged:,} reports acknowledged, {survived.nameless:,} of "
        f"them without a name, {survived.lost} lost, {survived.twice} counted twice, "
        f"{survived.foreign} made up. From nothing to serving {survived.restart_median:.1f} s at the median, "
        f"{survived.restart_worst:.1f} s at the most. {survived.seconds:,.0f} s.",
        soft_wrap=True,
    )
    for place, count in survived.places.items():
        say(f"  {count:>5,} × {place}", markup=False)
    if survived.broken:
        say(f"BROKEN: {survived.broken} (seed {survived.seed})", markup=False, soft_wrap=True)
    for name, what in noticed.items():
        say(f"planted: {name}: {what or 'NOT NOTICED'}", markup=False, soft_wrap=True)
