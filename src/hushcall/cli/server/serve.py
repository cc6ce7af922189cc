"""``hushcall serve``, ``decode`` and ``relay``: the processes of a deployment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from hushcall.cli import show
from hushcall.cli.options import Place, chosen_settings, grouped, in_words, settings_of, where_set
from hushcall.errors import InvalidParameter, MissingExtra


@grouped
def serve(
    *,
    place: Place,
    host: Annotated[str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port; 0 takes a free one. Default: 8750.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes. Default: 1.")] = None,
    profile: Annotated[str | None, typer.Option(help="What rounds are run with. Default: balanced.")] = None,
    period: Annotated[int | None, typer.Option(min=1, help="Seconds from round to round. Default: a day.")] = None,
    enrolment: Annotated[str | None, typer.Option(help="open, invite or operator. Default: invite.")] = None,
    intake_only: Annotated[
        bool, typer.Option("--intake-only", help="Only take uploads: another process leads ('hushcall decode --lead').")
    ] = False,
) -> None:
    """Run the service: take reports, decode rounds, publish a signed list. Ctrl-C ends it cleanly.

    The first start makes the data folder, the database, the signing keys and an operator's token (shown once). The
    effective settings are written to the folder (settings.json, without passwords), so other commands need only
    --data. The next start does not use that file, but shows which settings differ from it. Put permanent settings in
    the settings' file.

    [bold]Examples[/bold]

      hushcall serve --database postgresql://hushcall@localhost/hushcall --workers 4

      hushcall serve --period 600 --enrolment open     a round every ten minutes, to try it out
    """
    settings = chosen_settings(
        place,
        server=where_set(host=host, port=port, workers=workers),
        round=where_set(profile=profile, period=period, scheduler=False if intake_only else None),
        enrol=where_set(mode=enrolment),
    )
    from hushcall.server import effective_settings, serve

    changed = effective_settings.changes(settings)
    listener = serve.bound(settings.server.host, settings.server.port)
    with in_words(settings):
        token = serve.first_admin(settings)
    effective_settings.record(settings)
    chosen, say = settings.profile, show.console.print
    address = f"http://{settings.server.host}:{serve.port_of(listener)}"
    say(f"[bold]hushcall[/bold] serves {address}   dashboard {address}/   API {address}/docs   Ctrl-C to stop")
    mechanism = f"profile {chosen.name}: {chosen.mechanism}, ε = {chosen.epsilon:g}"
    say(f"Rounds every {settings.round.period_seconds:,} s, {mechanism}.")
    for line in changed:
        say(line, markup=False, highlight=False, soft_wrap=True)
    if any(line.endswith("(the default)") for line in changed):
        say("A start uses its options, HUSHCALL_* and the settings' file. Put permanent settings in that file.")
    if settings.round.scheduler and not settings.round.dask:
        say("Decoders are compiled in the background: half a minute at the first start on a machine.")
    if token:
        say("\n[bold]First start.[/bold] Keep this operator's token, it is not shown again:")
        say(f"  {token}", soft_wrap=True)
        say("Next:")
        say(f"  1. Move {settings.keys / 'offline'} to a safe place: the root key is not needed to run the service.")
        invite = " --invite CODE     (a code: hushcall admin invite)" if settings.enrol.mode == "invite" else ""
        say(f"  2. Connect a phone:  hushcall phone init --server {address}{invite}")
        say("  3. See the round:    hushcall round status" + (f" --data {settings.data}" if place.data else ""))
    with in_words(settings):
        serve.serve(settings, listener)


@grouped
def decode(
    *,
    place: Place,
    lead: Annotated[
        bool, typer.Option("--lead", help="Also move rounds and publish, where no other process does. Needs the keys.")
    ] = False,
) -> None:
    """Decode along with a server, bucket by bucket, until Ctrl-C. Any number of these share one database.

    Each takes the next free bucket under a lease of 30 seconds. When a process dies, the others take over its bucket.
    A process that comes too late writes nothing. The findings are the same, byte for byte, however many there are.

    [bold]Examples[/bold]

      hushcall decode --database postgresql://hushcall@db.example.net/hushcall

      hushcall decode --lead     beside servers that run with --intake-only
    """
    settings = settings_of(place)
    from hushcall.server import scheduler, serve
    from hushcall.server.logs import set_up

    set_up()
    with in_words(settings), serve.compiling(settings):
        service = scheduler.decoder(settings, leads=lead)
        show.console.print("[bold]hushcall[/bold] decodes" + (" and leads" if lead else "") + "   Ctrl-C to stop")
        scheduler.run(scheduler.Scheduler(service, leads=lead, helps=True))
        service.close()


def relay(
    gateway: Annotated[str, typer.Option(help="The server's gateway: https://SERVER/.well-known/ohttp-gateway.")],
    host: Annotated[
        str, typer.Option(help="Address to listen on; put a proxy with TLS before any other.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8760,
    per_address: Annotated[int, typer.Option(min=1, help="Requests a minute that one address may send.")] = 60,
    in_all: Annotated[int, typer.Option(min=1, help="Requests a minute, all together.")] = 60_000,
    log: Annotated[
        Path | None, typer.Option(help="Keep a public log of the rounds and lists that the server shows, at /log.")
    ] = None,
) -> None:
    """Run an Oblivious HTTP relay for another operator's server: it sees who sends, never what, and stores nothing.

    docs/operating.md has more.
    """
    if urlsplit(gateway).scheme not in ("http", "https") or not urlsplit(gateway).hostname:
        rule = "be an address like https://calls.example.org/.well-known/ohttp-gateway"
        raise InvalidParameter("gateway", rule, gateway)
    try:
        from hushcall.server.relay import RelaySettings, run
    except ImportError:
        raise MissingExtra("hushcall relay", "server") from None
    print(f"hushcall: relaying from {host}:{port} to {gateway}; nothing about requests is logged", flush=True)
    run(RelaySettings(gateway, per_address, in_all, log=log), host, port)
