"""``hushcall learn``: archived rounds come in, the numbers to list leave; no server needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.addresses import Where, address_of
from hushcall.cli.server.archive import RoundOption
from hushcall.cli.show import Json
from hushcall.errors import MissingExtra
from hushcall.wording import counted


def learn(
    where: Where,
    number: RoundOption = None,
    rounds: Annotated[
        str | None,
        typer.Option(help="Only these take part, 6-12 or 6,8-12 for instance. Default: all that the archive holds."),
    ] = None,
    engine: Annotated[str, typer.Option(help="local (processes), dask or gpu. All give the same bytes.")] = "local",
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler. Default: workers of its own on this machine.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=0, help="Processes to start; 0 works in this one. Default: one a core.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the numbers here, one JSON object a line.")] = None,
    json: Json = False,
) -> None:
    """Learn from an archived round: read, tally, decode and decide every bucket.

    It is decided as a server decides: over the last 1, 2, 4 and 7 rounds, or whatever windows its profile has.

    [bold]Examples[/bold]

      hushcall learn /backup/rounds

      hushcall learn /backup/rounds --round 12 --rounds 6-9,11-12

      hushcall learn s3://bucket/rounds --engine dask --scheduler tcp://scheduler:8786 --out found.jsonl

      hushcall learn /backup/rounds --engine gpu
    """
    address = address_of(where)
    try:
        from hushcall.archive.manifest import newest_of, some_of
        from hushcall.engines import learning
    except ImportError:
        raise MissingExtra("hushcall learn", "scale") from None
    from hushcall.whole_file import write_whole

    if engine == "local":
        show.ready_to_decode()
    chosen = learning.make_engine(engine, scheduler, workers)
    try:
        given = address.rounds() if rounds is None else some_of(address.rounds(), rounds)
        found = newest_of(given, number)
        with show.progress("learn") as bar:
            learnt = learning.learn(
                address, found, chosen, lambda done, total: show.step(bar, "learn", done, total), given
            )
    finally:
        chosen.close()
    if out is not None:
        write_whole(out, learnt.to_bytes(), "out")
    if json:
        facts = {"round": learnt.round, "rounds": list(learnt.rounds), "reports": learnt.reports}
        show.print_json({**facts, "listed": list(learnt.listed)})
        return
    table = Table(
        title=f"Round {learnt.round}: {counted(len(learnt.listed), 'number')} from {counted(learnt.reports, 'report')}"
    )
    for column in ("number", "phones", "from", "to", "p-value", "rounds"):
        table.add_column(column, justify="left" if column == "number" else "right")
    for row in learnt.listed[:50]:
        counts = (f"{row[name]:,.0f}" for name in ("estimate", "low", "high"))
        table.add_row(row["number"], *counts, f"{row['p_value']:.1e}", str(row["length"]))
    show.console.print(table)
    if earlier := len(learnt.rounds) - 1:
        show.console.print(f"Decided together with {counted(earlier, 'earlier round')}.")
    if len(learnt.listed) > 50:
        show.console.print(f"{len(learnt.listed) - 50} more: see --out and --json.")
