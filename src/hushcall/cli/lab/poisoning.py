"""``hushcall prove poisoning``: fakes that say the best a liar can, against the server's decisions."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.show import Json
from hushcall.errors import MissingExtra

if TYPE_CHECKING:
    from hushcall.lab.prove.poisoned_server import Outcome
    from hushcall.lab.prove.poisoning import Evidence


def poisoning(
    runs: Annotated[
        int, typer.Option(min=10, help="Rounds attacked for each figure; five times as many in vain.")
    ] = 200,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same lies.")] = 1,
    tolerance: Annotated[int, typer.Option(min=1, max=1000, help="f: lies that a listing withstands.")] = 20,
    epsilon: Annotated[float, typer.Option(min=0.5, max=16, help="Budget of one report.")] = 4.0,
    http: Annotated[bool, typer.Option(help="Attack a running server over HTTP, too.")] = True,
    bugs: Annotated[bool, typer.Option(help="Plant bugs in the decision too, and see that each is noticed.")] = True,
    quick: Annotated[bool, typer.Option(help="A tenth of the rounds, and buckets of up to 1,000 phones.")] = False,
    json: Json = False,
) -> None:
    """Let fakes list a victim, or hide a spammer, by the best reports there are; count how many it takes.

    Counts stand beside those that follow from the law and must be within a tenth of them. As many lies as are tolerated
    must never list anybody. Exits with 1 if a promise was broken, or a planted bug was not noticed.

    [bold]Examples[/bold]

      hushcall prove poisoning

      hushcall prove poisoning --tolerance 5 --epsilon 6 --no-http --json
    """
    try:
        from hushcall.lab.prove import planted_rules, poisoned_server
        from hushcall.lab.prove import poisoning as proof
    except ImportError:
        raise MissingExtra("hushcall prove", "lab") from None
    runs, sizes = (max(runs // 10, 10), proof.SIZES[:-1]) if quick else (runs, proof.SIZES)
    live: list[Outcome] = []
    noticed: dict[str, str] = {}
    with show.progress("lying") as bar:

        def watch(label: str) -> Any:
            return lambda done, total: show.step(bar, label, done, total)

        evidence = proof.measure(runs, seed, tolerance, epsilon, sizes, watch=watch)
        if http:
            live = poisoned_server.attack(seed, tolerance, epsilon, progress=watch("over HTTP"))
        for done, (name, plant) in enumerate(planted_rules.BUGS.items() if bugs else (), 1):
            show.step(bar, f"with a bug: {name}", done, len(planted_rules.BUGS))
            with plant():
                noticed[name] = planted_rules.noticed(seed)
    ok = not evidence.broken and all(one.ok for one in live) and all(noticed.values())
    if json:
        show.print_json(
            {"ok": ok, **_plain(evidence), "http": [asdict(o) | {"ok": o.ok} for o in live], "planted": noticed}
        )
    else:
        _print(evidence, live, noticed)
    if not ok:
        raise typer.Exit(1)


def _plain(evidence: Evidence) -> dict[str, Any]:
    rows = []
    for row in evidence.needed:
        plain = asdict(row) | {"runs": row.runs, "off": row.off, "ok": row.ok}
        del plain["counts"]
        rows.append(plain)
    return {
        "broken": evidence.broken,
        "needed": rows,
        "never": [asdict(one) | {"ok": one.ok} for one in evidence.never],
        "found": [asdict(one) | {"rate": one.rate, "ok": one.ok} for one in evidence.found],
    }


def _print(evidence: Evidence, live: list[Outcome], noticed: dict[str, str]) -> None:
    table = Table(title="Fakes that it takes, measured and (by the law)")
    for column in ("to", "honest phones", "f", "days", "chance 50 %", "90 %", ""):
        table.add_column(column, justify="left" if column in ("to", "") else "right")
    for row in evidence.needed:
        counts = f"{row.half:,} ({row.half_by_law:,})", f"{row.most:,} ({row.most_by_law:,})"
        size = "" if row.what.startswith("hide") else f"{row.honest:,}"
        table.add_row(row.what, size, str(row.tolerance), str(row.window), *counts, _mark(row.ok))
    show.console.print(table)
    for one in evidence.never:
        lies = f"{one.fakes} fakes" + (f" on each of {one.window} days" if one.window > 1 else "")
        text = (
            f"{lies} beside {one.honest:,} honest phones, f = {one.tolerance}: listed in {one.listed} of {one.runs:,}"
        )
        show.console.print(f"{_mark(one.ok)} {text}", soft_wrap=True)
    for proof in evidence.found:
        show.console.print(f"{_mark(proof.ok)} {proof.name}: {proof.rate:.1%} of {proof.runs:,}", soft_wrap=True)
    for outcome in live:
        scene = outcome.scene
        said = "listed" if outcome.listed else "not listed" if outcome.runs else "skipped, nothing listed"
        show.console.print(f"{_mark(outcome.ok)} over HTTP: {scene.what}: {said}", soft_wrap=True)
    for name, what in noticed.items():
        show.console.print(f"planted: {name}: {what or 'NOT NOTICED'}", markup=False, soft_wrap=True)


def _mark(ok: bool) -> str:
    return "✓" if ok else "[red]✗[/]"
