"""``hushcall prove pages``: uploads while many look at one public page after the other."""

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
    from hushcall.lab.prove.pages import Looked


def pages(
    entries: Annotated[int, typer.Option(min=1, help="Numbers on the list that is in force.")] = 100_000,
    uploads: Annotated[int, typer.Option(min=16, help="For each page; half of them while nobody looks.")] = 1600,
    page: Annotated[list[str] | None, typer.Option(help="Only this one. Repeatable. Default: all of them.")] = None,
    database: Annotated[
        str, typer.Option(help="URL of an empty PostgreSQL database, or: postgresql, one of its own. Default: SQLite.")
    ] = "",
    json: Json = False,
) -> None:
    """Ask a real server for its public pages and exports, 32 clients at once, and see what is left for uploads.

    The server is started as 'hushcall serve' starts it. For each page, uploads come as fast as they are taken, in turns
    alone and beside the clients: they must keep 70 % of their own rate, with a p99 of at most 250 ms. Shares are of one
    run, so other work on the machine hits both alike; latencies want an idle one. Exits with 1 if a page takes more.

    [bold]Examples[/bold]

      hushcall prove pages

      hushcall prove pages --page /docs --page /api/blocklist --entries 1000 --json
    """
    try:
        from hushcall.lab.live.rig import database_of
        from hushcall.lab.prove.pages import PAGES, bear_looks
    except ImportError:
        raise MissingExtra("hushcall prove pages", "lab") from None
    with database_of(database) as url, show.progress("starting") as bar:
        looked = bear_looks(entries, uploads, url, partial(show.step, bar), page or PAGES)
    ok = all(one.ok for one in looked)
    if json:
        rows = [asdict(one) | {"share": one.share, "ok": one.ok} for one in looked]
        show.print_json({"ok": ok, "entries": entries, "uploads": uploads, "pages": rows})
    else:
        _print(looked, entries)
    if not ok:
        raise typer.Exit(1)


def _print(looked: list[Looked], entries: int) -> None:
    table = Table(title=f"Uploads while 32 clients look, {entries:,} numbers listed")
    for column in ("page", "MB", "share of rate", "p99 ms (alone)", "pages/s", ""):
        table.add_column(column, justify="left" if column in ("page", "") else "right")
    for one in looked:
        table.add_row(
            *(one.page.removeprefix("/v1/lists/current/"), f"{one.size / 1e6:.1f}", f"{one.share:.0%}"),
            *(f"{one.p99_ms:,.0f} ({one.alone_p99_ms:,.0f})", f"{one.pages_per_second:,.0f}"),
            "✓" if one.ok else "[red]✗[/]",
        )
    show.console.print(table)
