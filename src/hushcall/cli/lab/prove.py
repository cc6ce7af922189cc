"""``hushcall prove``: the promised statistics, put to the test with the real code."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.show import Json
from hushcall.errors import MissingExtra


def prove(
    runs: Annotated[int, typer.Option(min=10, help="Repetitions of each experiment.")] = 500,
    quick: Annotated[bool, typer.Option(help="A tenth of the repetitions.")] = False,
    json: Json = False,
) -> None:
    """Measure how often numbers are found and noise is listed, beside what theory promises. Takes some minutes.

    Phone and server code are the real ones, decoding over the whole domain. Exits with 1 if a promise is not kept.

    [bold]Examples[/bold]

      hushcall prove --quick

      hushcall prove --runs 500 --json
    """
    try:
        from hushcall.lab.prove import statistics
    except ImportError:
        raise MissingExtra("hushcall prove", "lab") from None
    runs = max(runs // 10, 10) if quick else runs
    found: list[statistics.Proof] = []
    with show.progress("proving") as bar:

        def watch(label: str) -> statistics.Progress:
            return lambda done, total: show.step(bar, label, done, total)

        for users, epsilon in ((300, 2.0), (300, 4.0), (1000, 3.0), (1000, 8.0)):
            found.append(statistics.power(users, epsilon, runs, progress=watch(f"power {users}, ε = {epsilon:g}")))
        found.append(statistics.whole_number_power(max(runs // 2, 10), progress=watch("whole numbers")))
        null, spread = statistics.null_behaviour(max(runs * 3 // 5, 10), progress=watch("no heavy hitters"))
        found.append(null)
        for budget in (8.8, 7.0):
            found += statistics.list_decoding(budget, max(runs // 2, 10), progress=watch(f"lists, ε_HH = {budget:g}"))
        for kind in ("extended", "basic"):
            for budget in (12.0, 8.8):
                found.append(statistics.hard_decoding(kind, budget, runs, progress=watch(f"{kind}, ε_HH = {budget:g}")))
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
