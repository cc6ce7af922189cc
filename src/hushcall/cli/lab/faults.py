"""``hushcall prove faults``: a server and its phones on a virtual clock, and everything that can go wrong."""

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
    from hushcall.lab.prove.faults import Survived

BUG_RUNS = 500


def faults(
    runs: Annotated[int, typer.Option(min=1, help="Runs: two days each, with faults, and two quiet ones.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="The number of the first run. The same number is the same run.")] = 1,
    plant: Annotated[str, typer.Option(help="Plant one bug, by its name, and run with it.")] = "",
    jobs: Annotated[int, typer.Option(min=1, help="Processes that play runs.")] = 1,
    bugs: Annotated[bool, typer.Option(help="Plant each bug too, and see that it is noticed.")] = False,
    json: Json = False,
) -> None:
    """Let everything go wrong on a virtual clock: messages, clocks, disk, database, leases, operators at bad moments.

    Two workers of the server and a few phones of the library live in one process; what each run draws follows from its
    number. After each step it is checked that nothing acknowledged is lost, nothing counted twice, no more sent than
    the ledgers say, no appealed number published, no version taken back, and once an hour that a probe is told the
    truth about disk and rounds. A run that breaks a promise is played again by
    its number (--runs 1 --seed N) and is shown with as few faults as do it. Exits with 1 then, or if a planted bug was
    not noticed within 500 runs. Half a second a run.

    [bold]Examples[/bold]

      hushcall prove faults

      hushcall prove faults --runs 10000 --jobs 2 --json

      hushcall prove faults --bugs

      hushcall prove faults --plant "appeals are read once"
    """
    try:
        from hushcall.lab.prove import faults as proof
        from hushcall.lab.prove.planted_world import BUGS
    except ImportError:
        raise MissingExtra("hushcall prove", "lab") from None
    if plant:
        checks.one_of("plant", plant, BUGS)
    noticed: dict[str, Survived] = {}
    show.ready_to_decode()
    with show.progress("failing") as bar:
        survived = proof.prove(runs, seed, partial(show.step, bar, "runs"), plant=plant, jobs=jobs)
        for name in BUGS if bugs and not plant else ():
            noticed[name] = proof.prove(
                BUG_RUNS, seed, partial(show.step, bar, f"with a bug: {name}"), shrink=False, plant=name
            )
    ok = survived.ok and not any(one.ok for one in noticed.values())
    if json:
        planted = {name: {"runs": one.runs, "broken": one.first and one.first.broken} for name, one in noticed.items()}
        show.print_json({"ok": ok, **asdict(survived), "planted": planted})
    else:
        _print(survived, noticed)
    if not ok:
        raise typer.Exit(1)


def _print(survived: Survived, noticed: dict[str, Survived]) -> None:
    def say(words: str) -> None:
        show.console.print(words, markup=False, soft_wrap=True)

    kept = "every promise was kept" if survived.ok else "a promise was BROKEN"
    say(f"{survived.runs:,} runs, {survived.steps:,} steps, {survived.faults:,} faults: {kept}.")
    if survived.first and survived.least:
        say(f"Run {survived.first.seed}, step {survived.first.steps}: {survived.first.broken}")
        say(f"With as few faults as do it, at step {survived.least.steps}: {survived.least.broken}")
        for fault in survived.least.faults:
            say(f"  {fault}")
    for name, one in noticed.items():
        found = f"run {one.runs}: {one.first.broken}" if one.first else f"NOT NOTICED in {one.runs} runs"
        say(f"planted: {name}: {found}")
