"""``hushcall prove load``: a real server under more than it can take."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.show import Json
from hushcall.errors import MissingExtra

if TYPE_CHECKING:
    from hushcall.lab.prove.load import Borne


def load(
    seconds: Annotated[float, typer.Option(min=1, help="Of steady load, after half as many of filling.")] = 20.0,
    database: Annotated[
        str, typer.Option(help="URL of an empty PostgreSQL database, or: postgresql, one of its own. Default: SQLite.")
    ] = "",
    most: Annotated[int, typer.Option(min=2000, help="Uploads, at most.")] = 1_000_000,
    json: Json = False,
) -> None:
    """Load a real server over loopback: what it takes, 70 % of that, twice that; and whether it kept its promises.

    Latency counts from when an upload was due. Run it on an idle machine: time that others take counts as the server's.
    Exits with 1 if a promise was not kept.

    [bold]Examples[/bold]

      hushcall prove load

      hushcall prove load --seconds 600 --most 5000000 --database postgresql --json
    """
    try:
        from hushcall.lab.live.rig import database_of
        from hushcall.lab.prove.load import bear
    except ImportError:
        raise MissingExtra("hushcall prove load", "lab") from None
    with database_of(database) as url, show.progress("starting") as bar:
        borne = bear(seconds, url, partial(show.step, bar), most)
    if json:
        show.print_json({"ok": borne.ok, **asdict(borne)})
    else:
        _print(borne)
    if not borne.ok:
        raise typer.Exit(1)


def _print(borne: Borne) -> None:
    takes = f"takes {borne.capacity:,.0f} uploads a second on one core"
    title = f"{borne.database}: {takes}; {borne.steady_seconds:,.0f} s at 70 % of that, {borne.busy:.0%} of a core"
    table = Table(title=title)
    for column in ("promise", "measured", "limit", ""):
        table.add_column(column, justify="left" if column in ("promise", "") else "right")
    for one in borne.promises:
        table.add_row(
            one.what,
            f"{one.measured:,.0f}" if one.measured >= 100 else f"{one.measured:.3g}",
            one.limit,
            "✓" if one.ok else "[red]✗[/]",
        )
    show.console.print(table)
    if borne.stretches_p99_ms:
        show.console.print(borne.in_stretches)
    show.console.print(str(borne.machine))
