"""``hushcall serve``: the service, from an empty folder to a signed list."""

from __future__ import annotations

from typing import Annotated

import typer

from hushcall.cli import show
from hushcall.cli.server.on_service import ConfigOption, DatabaseOption, DataOption, chosen_settings, in_words


def serve(
    config: ConfigOption = None,
    data: DataOption = None,
    database: DatabaseOption = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port; 0 takes a free one. Default: 8750.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes. Default: 1.")] = None,
    profile: Annotated[str | None, typer.Option(help="What rounds are run with. Default: balanced.")] = None,
    period: Annotated[int | None, typer.Option(min=1, help="Seconds from round to round. Default: a day.")] = None,
    intake_only: Annotated[
        bool, typer.Option("--intake-only", help="Only take uploads: another process leads ('hushcall decode --lead').")
    ] = False,
) -> None:
    """Run the service: take reports, decode rounds, publish a signed list. Ctrl-C ends it cleanly.

    The first start makes the data folder, the database, the signing keys and an operator's token (shown once). What it
    runs with is kept in the folder (settings.json, without passwords): other commands need only --data. The next start
    does not go by it, but says what is no longer as it was: what is to stay belongs into the settings' file.

    [bold]Examples[/bold]

      hushcall serve

      hushcall serve --data /var/lib/hushcall --port 8080

      hushcall serve --database postgresql://hushcall@localhost/hushcall --workers 4

      hushcall serve --period 600     a round every ten minutes, to try it out
    """
    listening = {"host": host, "port": port, "workers": workers}
    rounds = {"profile": profile, "period": period, "scheduler": False if intake_only else None}
    settings = chosen_settings(
        config,
        data,
        database,
        server={key: value for key, value in listening.items() if value is not None},
        round={key: value for key, value in rounds.items() if value is not None},
    )
    from hushcall.server import in_force, serve

    in_force.same_database(settings)
    listener = serve.bound(settings.server.host, settings.server.port)
    with in_words(settings):
        token = serve.first_admin(settings)
    changed = in_force.changes(settings)
    in_force.record(settings)
    chosen, say = settings.profile, show.console.print
    address = f"http://{settings.server.host}:{serve.port_of(listener)}"
    say(f"[bold]hushcall[/bold] serves {address}   dashboard {address}/   API {address}/docs   Ctrl-C to stop")
    say(f"Rounds every {settings.round.period:,} s, profile {chosen.name}: {chosen.mechanism}, ε = {chosen.epsilon:g}.")
    for line in changed:
        say(line, markup=False, highlight=False, soft_wrap=True)
    if any(line.endswith("(the default)") for line in changed):
        say("A start goes by its options, HUSHCALL_* and the settings' file: what is to stay belongs into that file.")
    if chosen.windows != (1,) or chosen.tolerance:
        lengths = ", ".join(str(length) for length in chosen.windows)
        say(f"Evidence of {lengths} rounds; a listing withstands {chosen.tolerance} lying phones: see 'hushcall plan'.")
    if settings.round.scheduler and not settings.round.dask:
        say("Decoders are compiled in the background: half a minute at the first start on a machine.")
    if token:
        say("\n[bold]First start.[/bold] Keep this operator's token, it is not shown again:")
        say(f"  {token}", soft_wrap=True)
        say("Next:")
        say(f"  1. Move {settings.keys / 'offline'} to a safe place: the root key is not needed to run the service.")
        say(f"  2. Connect a phone:  hushcall phone init --server {address}")
        say("  3. See the round:    hushcall round status" + (f" --data {settings.data}" if data else ""))
    with in_words(settings):
        serve.serve(settings, listener)
