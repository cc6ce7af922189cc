"""``hushcall prove``: promises tested with the real code: statistics, liars, watchers, crashes, faults, races."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.lab.crash import crash
from hushcall.cli.lab.faults import faults
from hushcall.cli.lab.load import load
from hushcall.cli.lab.pages import pages
from hushcall.cli.lab.poisoning import poisoning
from hushcall.cli.lab.races import races
from hushcall.cli.show import Json
from hushcall.errors import MissingExtra
from hushcall.profiles import WINDOWS

BUG_STEPS = 3000
SPLITS = (1,), (1, 2), (1, 7), WINDOWS
prove = typer.Typer(help="Put promises to the test with the real code. Without a name: the statistics.")
Quick = Annotated[bool, typer.Option(help="A tenth of the repetitions.")]
Runs = Annotated[int, typer.Option(min=10, help="Repetitions of each experiment.")]
prove.command("poisoning")(poisoning)
prove.command("load")(load)
prove.command("pages")(pages)
prove.command("crash")(crash)
prove.command("faults")(faults)
prove.command("races")(races)


@prove.callback(invoke_without_command=True)
def _statistics_by_default(context: typer.Context, runs: Runs = 500, quick: Quick = False, json: Json = False) -> None:
    if context.invoked_subcommand is None:
        statistics(runs, quick, json)


@prove.command("statistics")
def statistics(runs: Runs = 500, quick: Quick = False, json: Json = False) -> None:
    """Measure how often numbers are found and noise is listed, beside what theory promises. Takes some minutes.

    Phone and server code are the real ones, decoding over the whole domain. Exits with 1 if a promise is not kept.

    [bold]Examples[/bold]

      hushcall prove statistics --quick

      hushcall prove statistics --runs 500 --json
    """
    try:
        from hushcall.lab.prove import statistics as proofs
    except ImportError:
        raise MissingExtra("hushcall prove", "lab") from None
    runs = max(runs // 10, 10) if quick else runs
    found: list[proofs.Proof] = []
    show.ready_to_decode()
    with show.progress("proving") as bar:

        def watch(label: str) -> proofs.Progress:
            return lambda done, total: show.step(bar, label, done, total)

        for users, epsilon in ((300, 2.0), (300, 4.0), (1000, 3.0), (1000, 8.0)):
            found.append(proofs.power(users, epsilon, runs, progress=watch(f"power {users}, ε = {epsilon:g}")))
        found.append(proofs.whole_number_power(max(runs // 2, 10), progress=watch("whole numbers")))
        null, spread = proofs.null_behaviour(max(runs * 3 // 5, 10), progress=watch("no heavy hitters"))
        found.append(null)
        for lengths in SPLITS:
            label = f"weeks without a spammer, windows {lengths}"
            found.append(proofs.null_weeks(max(runs * 3 // 5, 10), lengths, progress=watch(label)))
        for budget in (8.8, 7.0):
            found += proofs.list_decoding(budget, max(runs // 2, 10), progress=watch(f"lists, ε_HH = {budget:g}"))
        for kind in ("extended", "basic"):
            for budget in (12.0, 8.8):
                found.append(proofs.hard_decoding(kind, budget, runs, progress=watch(f"{kind}, ε_HH = {budget:g}")))
    kept = all(proof.ok for proof in found) and abs(spread - 1) < 0.01
    if json:
        rows = [asdict(proof) | {"rate": proof.rate, "ok": proof.ok} for proof in found]
        show.print_json({"ok": kept, "rows": rows, "spread_of_absent_estimates": spread})
    else:
        table = Table(title="Promised and measured")
        for column in ("what", "measured (99 % interval)", "promised", "runs", ""):
            table.add_column(column, justify="left" if column in ("what", "") else "right")
        for proof in found:
            promised = f"{proof.low:.1%} … {proof.high:.1%}"
            low, high = proof.interval
            measured = f"{proof.rate:.1%} ({low:.0%} … {high:.0%})"
            table.add_row(proof.name, measured, promised, str(proof.runs), "✓" if proof.ok else "[red]✗[/]")
        show.console.print(table)
        show.console.print(f"Standard deviation of absent estimates: {spread:.4f} times theory.")
    if not kept:
        raise typer.Exit(1)


@prove.command("hostile")
def hostile(
    steps: Annotated[int, typer.Option(min=100, help="Steps of the lying server.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same lies.")] = 1,
    bugs: Annotated[bool, typer.Option(help="Plant bugs in the phone too, and see that each is noticed.")] = True,
    json: Json = False,
) -> None:
    """Let a server lie to a real phone: any answer, any order, any clock. Promises are checked at every step.

    Exits with 1 if a promise was broken, or a planted bug was not noticed.

    [bold]Examples[/bold]

      hushcall prove hostile

      hushcall prove hostile --steps 100000 --no-bugs --json
    """
    try:
        from hushcall.lab.prove.hostile import attack
        from hushcall.lab.prove.planted import BUGS
    except ImportError:
        raise MissingExtra("hushcall prove", "lab") from None
    found: dict[str, str] = {}
    with show.progress("lying") as bar:
        survived = attack(steps, seed)
        for done, (name, plant) in enumerate(BUGS.items() if bugs else (), 1):
            show.step(bar, f"with a bug: {name}", done, len(BUGS))
            with plant():
                found[name] = attack(min(steps, BUG_STEPS), seed).broken
    ok = not survived.broken and all(found.values())
    if json:
        show.print_json({"ok": ok, **asdict(survived), "planted": found})
    else:
        show.console.print(
            f"{survived.steps:,} steps of a lying server, {survived.uploads:,} uploads, {survived.reports:,} reports: "
            + (f"BROKEN: {survived.broken}" if survived.broken else "every promise was kept."),
            markup=False,
        )
        for name, noticed in found.items():
            show.console.print(f"  planted: {name}: {noticed or 'NOT NOTICED'}", markup=False, soft_wrap=True)
    if not ok:
        raise typer.Exit(1)


@prove.command("indistinguishable")
def indistinguishable(
    phones: Annotated[int, typer.Option(min=10, help="Phones with calls, and as many without.")] = 300,
    days: Annotated[int, typer.Option(min=1, max=30, help="Days that they are watched.")] = 7,
    data: Annotated[
        Path | None, typer.Option(help="Complaints as published: how well one announcement is guessed on real calls.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    json: Json = False,
) -> None:
    """Tell phones with calls from phones without, as the network sees them and as the server does.

    [bold]Examples[/bold]

      hushcall prove indistinguishable

      hushcall prove indistinguishable --phones 10000 --workers 2 --data complaints.csv.gz
    """
    try:
        from hushcall.lab.data import datasets
        from hushcall.lab.prove import indistinguishable as eyes
    except ImportError:
        raise MissingExtra("hushcall prove", "lab") from None
    with show.progress("watching") as bar:
        rows = eyes.measure(phones, days, workers, lambda done, of: show.step(bar, "phones watched", done, of))
    guess = None
    if data is not None:
        calls = datasets.load([data])
        pairs = [(int(a), int(h)) for a, h in zip(calls.area, calls.reporter, strict=True) if int(h) in eyes.CODES]
        guess = eyes.guess(pairs)
    ok = all(row.ok for row in rows)
    if json:
        plain = [asdict(row) | {"ok": row.ok} for row in rows]
        show.print_json({"ok": ok, "phones": 2 * phones, "rows": plain, "guess": guess and asdict(guess)})
    else:
        table = Table(title=f"{2 * phones:,} phones, half of them with calls, {days} days")
        for column in ("who looks", "advantage", "by the law", "σ", ""):
            table.add_column(column, justify="left" if column in ("who looks", "") else "right")
        for row in rows:
            cells = (f"{row.measured:+.3f}", f"{row.predicted:.3f}", f"{row.sigma:.3f}")
            table.add_row(row.eye, *cells, "✓" if row.ok else "[red]✗[/]")
        show.console.print(table)
        if guess:
            show.console.print(
                f"{guess.pairs:,} real calls: 'call or made up' is guessed right from one announcement, the owner's "
                f"area code known, in {guess.call_like:.1%} (uniform ones: {guess.uniform:.1%}; a guess: 50 %).",
                markup=False,
            )
    if not ok:
        raise typer.Exit(1)


@prove.command("all")
def everything(quick: Quick = False) -> None:
    """All proofs in a row; the last two, of load and pages, want an idle machine.

    [bold]Example[/bold]

      hushcall prove all --quick
    """
    statistics(500, quick, False)
    hostile(2000 if quick else 20_000, 1, True, False)
    indistinguishable(50 if quick else 300, 7, None, 1, False)
    poisoning(quick=quick)
    crash(7 if quick else 21)
    faults(20 if quick else 100)
    races(20 if quick else 100)
    load(4 if quick else 20)
    if quick:
        pages(entries=10_000, page=["/", "/docs", "/api/blocklist"])
    else:
        pages()
