"""``hushcall decode``: a process that decodes for a server, on the same machine or another one."""

from __future__ import annotations

from typing import Annotated

import typer

from hushcall.cli import show
from hushcall.cli.server.on_service import ConfigOption, DatabaseOption, DataOption, in_words, settings_of


def decode(
    config: ConfigOption = None,
    data: DataOption = None,
    database: DatabaseOption = None,
    lead: Annotated[
        bool, typer.Option("--lead", help="Also move rounds and publish, where no other process does. Needs the keys.")
    ] = False,
) -> None:
    """Decode along with a server, bucket by bucket, until Ctrl-C. Any number of these share one database.

    Each takes the next free bucket under a lease of 30 seconds; what a dead one had in hand the others do, and one that
    comes too late writes nothing. The findings are the same, byte for byte, however many there are.

    [bold]Examples[/bold]

      hushcall decode --database postgresql://hushcall@db.example.net/hushcall

      hushcall decode --lead     beside servers that run with --intake-only
    """
    settings = settings_of(config, data, database)
    from hushcall.server import scheduler, serve
    from hushcall.server.logs import set_up

    set_up()
    with in_words(settings), serve.compiling(settings):
        service = scheduler.decoder(settings, leads=lead)
        show.console.print("[bold]hushcall[/bold] decodes" + (" and leads" if lead else "") + "   Ctrl-C to stop")
        scheduler.run(scheduler.Scheduler(service, leads=lead, helps=True))
        service.close()
