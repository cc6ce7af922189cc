"""``hushcall-lab audit``: the exact privacy cost of every randomiser."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated

import typer
from rich.progress import Progress
from rich.table import Table

from hushcall import checks
from hushcall.cli import show
from hushcall.cli.show import Json
from hushcall.errors import InvalidParameter
from hushcall.protocol.exact import MAX_EPSILON
from hushcall.protocol.randomness import os_entropy, seeded
from hushcall_lab.audit import examples
from hushcall_lab.audit.blackbox import LowerBound, lower_bound
from hushcall_lab.audit.enumeration import Finding
from hushcall_lab.audit.mutants import MUTANTS, mutant_findings
from hushcall_lab.cli.output import finish, mark, table


def audit(
    epsilon: Annotated[
        list[float] | None, typer.Option(help="A budget to audit at, instead of the grid; may be repeated.")
    ] = None,
    mutants: Annotated[bool, typer.Option(help="Audit deliberately broken randomisers: all must be caught.")] = False,
    blackbox: Annotated[
        bool, typer.Option(help="Add a lower bound on ε from samples of the phone's code (Clopper–Pearson).")
    ] = False,
    samples: Annotated[int, typer.Option(min=100, help="Reports per number for --blackbox.")] = 20_000,
    seed: Annotated[str | None, typer.Option(help="Make --blackbox reproducible; OS entropy otherwise.")] = None,
    json: Json = False,
) -> None:
    """Compute the exact ε of every randomiser by probing the real phone code, beside what it claims.

    Whole reports are audited: two changed channels, collisions, all T rounds, the frequency report. Arithmetic is
    rational. Exits with 1 if a claim does not hold, or if a mutant is not caught.
    """
    if mutants and blackbox:
        raise InvalidParameter("--blackbox", "not go with --mutants", "both")
    grid = tuple(epsilon) if epsilon else examples.GRID
    for budget in grid:
        checks.positive("epsilon", budget)
        if budget > MAX_EPSILON / 2:
            raise InvalidParameter("epsilon", f"be at most {MAX_EPSILON / 2:g} for an audit", budget)
    bounds = []
    with show.progress("auditing") as bar:
        if mutants:
            rows = _collect(bar, mutant_findings(), len(MUTANTS))
        else:
            rows = _collect(bar, examples.findings(grid), examples.rows_per_budget() * len(grid))
        if blackbox:
            rand = os_entropy if seed is None else seeded(seed.encode())
            sampled = examples.reports(grid[0] if epsilon else examples.SAMPLED_EPSILON)
            for place, example in enumerate(sampled):
                show.step(bar, f"sampling {example.mechanism.name}", place, len(sampled))
                bounds.append(lower_bound(example.mechanism, rand, samples))
    ok = all(row.ok != mutants for row in rows) and all(bound.consistent for bound in bounds)
    sampled_rows = [asdict(bound) | {"consistent": bound.consistent} for bound in bounds]
    parts: list[Table | str]
    if mutants:
        parts = [_mutant_table(rows), f"{sum(not row.ok for row in rows)} of {len(rows)} mutants caught."]
    else:
        verdict = f"All {len(rows)} claims hold." if ok else "A claim does not hold: see the rows marked ✗."
        parts = [_claim_table(rows), *([_bound_table(bounds)] if bounds else []), verdict]
    finish(ok, json, {"rows": [asdict(row) for row in rows], "blackbox": sampled_rows}, *parts)


def _collect(bar: Progress, findings: Iterable[Finding], total: int) -> list[Finding]:
    rows = []
    for done, finding in enumerate(findings, 1):
        rows.append(finding)
        show.step(bar, finding.randomiser, done, total)
    return rows


def _cells(row: Finding) -> list[str]:
    paper = "" if row.paper is None else f"{row.paper:.4g}"
    return [row.randomiser, f"{row.epsilon:.4g}", paper, f"{row.claimed:.6g}", f"{row.exact:.6f}"]


def _claim_table(rows: list[Finding]) -> Table:
    columns = ("randomiser", "budget", "paper charges", "claimed", "exact", "ok")
    cells = ([*_cells(row), "✓" if row.ok else f"[red]✗ {row.why}[/]"] for row in rows)
    return table("ε of one report, exactly", columns, cells, left=["ok"])


def _mutant_table(rows: list[Finding]) -> Table:
    columns = ("mutant", "budget", "paper charges", "claimed", "exact", "caught")
    verdicts = (", ".join(filter(None, ("[red]NO[/]" if row.ok else "[green]yes[/]", row.why))) for row in rows)
    cells = ([*_cells(row), verdict] for row, verdict in zip(rows, verdicts, strict=True))
    return table("Mutants: each must be caught", columns, cells, left=["caught"])


def _bound_table(bounds: list[LowerBound]) -> Table:
    title = f"Black box: ε is at least … ({bounds[0].confidence:.1%} confidence, {bounds[0].samples} samples)"
    cells = ((b.randomiser, f"{b.lower:.4f}", f"{b.claimed:.4g}", mark(b.consistent)) for b in bounds)
    return table(title, ("randomiser", "at least", "claimed", "consistent"), cells)
