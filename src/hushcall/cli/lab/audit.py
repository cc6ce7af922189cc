"""``hushcall audit``: what every randomiser costs, computed and not claimed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated

import typer
from rich.progress import Progress
from rich.table import Table

from hushcall import checks
from hushcall.audit import mutants as broken
from hushcall.audit import subjects
from hushcall.audit.blackbox import LowerBound, lower_bound, quantiles
from hushcall.audit.enumeration import Finding
from hushcall.cli import show
from hushcall.cli.show import Json
from hushcall.errors import InvalidParameter
from hushcall.privacy.coins import os_entropy, seeded
from hushcall.privacy.exact import MOST_EPSILON

SAMPLES = 20_000


def audit(
    epsilon: Annotated[
        list[float] | None, typer.Option(help="A budget to audit at, instead of the grid; may be repeated.")
    ] = None,
    mutants: Annotated[bool, typer.Option(help="Audit deliberately broken randomisers: all must be caught.")] = False,
    blackbox: Annotated[
        bool, typer.Option(help="Add a lower bound on ε from samples of the phone's code (Clopper–Pearson).")
    ] = False,
    samples: Annotated[int, typer.Option(min=100, help="Reports per number for --blackbox.")] = SAMPLES,
    seed: Annotated[str | None, typer.Option(help="Make --blackbox reproducible; OS entropy otherwise.")] = None,
    json: Json = False,
) -> None:
    """Compute the exact ε of every randomiser by probing the real phone code, beside what it claims.

    Whole reports are audited: two changed channels, collisions, all T rounds, the frequency report. Arithmetic is
    rational. Exits with 1 if a claim does not hold, or if a mutant is not caught.

    [bold]Examples[/bold]

      hushcall audit --epsilon 8.8

      hushcall audit --mutants

      hushcall audit --blackbox --json
    """
    if mutants and blackbox:
        raise InvalidParameter("--blackbox", "not go with --mutants", "both")
    if blackbox:
        quantiles()  # whoever lacks them is told before the work, not after it
    grid = tuple(epsilon) if epsilon else subjects.GRID
    for budget in grid:
        checks.positive("epsilon", budget)
        if budget > MOST_EPSILON / 2:
            raise InvalidParameter("epsilon", f"be at most {MOST_EPSILON / 2:g} for an audit", budget)
    with show.progress("auditing") as bar:
        if mutants:
            rows = _collect(bar, broken.mutant_findings(), len(broken.MUTANTS))
        else:
            rows = _collect(bar, subjects.findings(grid), subjects.rows_per_budget() * len(grid))
        bounds = []
        if blackbox and not mutants:
            coins = os_entropy if seed is None else seeded(seed.encode())
            sampled = subjects.sampled(grid[0] if epsilon else subjects.SAMPLED_EPSILON)
            for place, subject in enumerate(sampled):
                show.step(bar, f"sampling {subject.name}", place, len(sampled))
                bounds.append(lower_bound(subject, coins, samples))
    good = all(row.ok != mutants for row in rows) and all(bound.consistent for bound in bounds)
    if json:
        show.print_json(
            {
                "ok": good,
                "rows": [asdict(row) for row in rows],
                "blackbox": [asdict(bound) | {"consistent": bound.consistent} for bound in bounds],
            }
        )
    else:
        show.console.print(_table(rows, mutants=mutants))
        if bounds:
            show.console.print(_bounds(bounds))
        show.console.print(_verdict(rows, good=good, mutants=mutants))
    if not good:
        raise typer.Exit(1)


def _collect(bar: Progress, findings: Iterable[Finding], total: int) -> list[Finding]:
    rows = []
    for done, finding in enumerate(findings, 1):
        rows.append(finding)
        show.step(bar, finding.randomiser, done, total)
    return rows


def _table(rows: list[Finding], *, mutants: bool) -> Table:
    table = Table(title="Mutants: each must be caught" if mutants else "ε of one report, exactly")
    table.add_column("mutant" if mutants else "randomiser")
    for column in ("budget", "paper charges", "claimed", "exact"):
        table.add_column(column, justify="right")
    table.add_column("caught" if mutants else "ok")
    for row in rows:
        paper = "" if row.paper is None else f"{row.paper:.4g}"
        mark = (
            ("[green]yes[/]" if not row.ok else "[red]NO[/]") if mutants else "✓" if row.ok else f"[red]✗ {row.why}[/]"
        )
        if mutants and row.why:
            mark += f", {row.why}"
        exact = f"{row.exact:.6f}"
        table.add_row(row.randomiser, f"{row.epsilon:.4g}", paper, f"{row.claimed:.6g}", exact, mark)
    return table


def _bounds(bounds: list[LowerBound]) -> Table:
    table = Table(
        title=f"Black box: ε is at least … ({bounds[0].confidence:.1%} confidence, {bounds[0].samples} samples)"
    )
    for column in ("randomiser", "at least", "claimed", "consistent"):
        table.add_column(column, justify="left" if column == "randomiser" else "right")
    for bound in bounds:
        mark = "✓" if bound.consistent else "[red]✗[/]"
        table.add_row(bound.randomiser, f"{bound.lower:.4f}", f"{bound.claimed:.4g}", mark)
    return table


def _verdict(rows: list[Finding], *, good: bool, mutants: bool) -> str:
    if mutants:
        caught = sum(not row.ok for row in rows)
        return f"{caught} of {len(rows)} mutants caught."
    return f"All {len(rows)} claims hold." if good else "[red]A claim does not hold: see the rows marked ✗.[/]"
