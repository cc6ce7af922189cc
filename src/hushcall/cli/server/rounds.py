"""``hushcall round``: shows rounds and moves them by hand, from cron or from a systemd timer."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.options import audited, on_service
from hushcall.cli.show import Json
from hushcall.protocol.states import HELD

if TYPE_CHECKING:
    from hushcall.server.service import Service

rounds = typer.Typer(help="Rounds, by hand. The server moves them by itself unless told not to.", no_args_is_help=True)
RoundOption = Annotated[int | None, typer.Option("--round", min=1, help="Which one. Default: the newest.")]


@rounds.command("open")
@on_service
def open_round(service: Service, json: Json = False) -> None:
    """Open the next round now; a round that is open already stays."""
    _say(service, service.rounds.open(service.now), json)


@rounds.command("status")
@on_service
def status(service: Service, round_id: RoundOption = None, json: Json = False) -> None:
    """Show a round: its phase and deadlines, who took part, buckets, how far decoding is, what was found."""
    _say(service, round_id, json)


@rounds.command("advance")
@on_service
def advance(
    service: Service,
    force: Annotated[bool, typer.Option(help="The newest round's next step is due, whatever its deadlines.")] = False,
    json: Json = False,
) -> None:
    """Do everything that is due: open, decide, close, decode, publish. Safe to run again, and twice at once."""
    from hushcall.server.rounds.round_status import status as status_of

    with show.progress("rounds") as bar:
        compiled = cache(show.ready_to_decode)

        def beat() -> None:
            compiled()  # at the first beat only: mostly there is nothing to decode
            status = status_of(service.store)
            show.step(bar, "decode", status["parts_decoded"], status["parts"] or 1)

        service.rounds.beat = beat
        try:  # first: signatures must not run out because a round is stuck
            service.publisher.refresh(service.now)
        finally:  # nor does a round wait because a key is missing
            with audited(service, "force") if force else nullcontext():
                done = service.rounds.advance(service.now, force=force)
    show.say({"done": done}, json, "\n".join(done) or "Nothing is due.")


@rounds.command("hold")
@on_service
def hold(
    service: Service,
    why: Annotated[str, typer.Option(help="The reason, for the next operator.")],
    round_id: RoundOption = None,
    json: Json = False,
) -> None:
    """Stop a round where it is: it takes no uploads and is not decoded."""
    _change(service, round_id, "hold", json, why)


@rounds.command("release")
@on_service
def release(service: Service, round_id: RoundOption = None, json: Json = False) -> None:
    """Let a held round go on from where it was."""
    _change(service, round_id, "release", json)


@rounds.command("discard")
@on_service
def discard(
    service: Service,
    why: Annotated[str, typer.Option(help="The reason, for the next operator.")],
    round_id: RoundOption = None,
    json: Json = False,
) -> None:
    """End a held round for good: nothing is learned from it, and its reports are deleted."""
    _change(service, round_id, "discard", json, why)


def _change(service: Service, round_id: int | None, name: str, json: bool, *why: str) -> None:
    """Changes a round (the newest by default) on record, and shows it."""
    from hushcall.server.rounds import holding

    newest = service.rounds.newest()
    chosen = round_id or (newest.id if newest else 0)
    with audited(service, name, f"round {chosen}", *why):
        holding.CHANGES[name](service.store, chosen, *why)
    _say(service, chosen, json)


def _say(service: Service, round_id: int | None, json: bool) -> None:
    from hushcall.server.rounds.round_status import status as status_of

    if round_id is None and service.rounds.newest() is None:
        text = "No round yet: 'hushcall serve' or 'hushcall round open' opens the first one."
        show.say({"round": None}, json, text)
        return
    status = status_of(service.store, round_id)
    if json:
        show.print_json(status)
        return
    share = status["parts_decoded"] / status["parts"] if status["parts"] else 0.0
    table = Table(title=f"Round {status['round']}: {status['state']}", show_header=False)
    for label, value in (
        ("held because" if status["state"] == HELD else "note", status["reason"]),
        ("announcing", f"{status['opens']} … {status['collects']}"),
        ("collecting", f"{status['collects']} … {status['closes']}"),
        ("next round", status["next"]),
        ("run with", f"{status['profile']} ({status['mechanism']}, ε = {status['epsilon']:g})"),
        ("devices that announced", f"{status['announced']:,}"),
        ("reports", f"{status['reports']:,}"),
        ("buckets", f"{status['buckets_run']} run, {status['buckets_skipped']} skipped"),
        ("decoded", f"{status['parts_decoded']} of {status['parts']} {show.blocks(share, 16)}"),
        ("numbers found", f"{status['found']:,}"),
        ("refused", ", ".join(f"{name} {count}" for name, count in status["refused"].items())),
    ):
        if value:
            table.add_row(label, escape(str(value)))
    show.console.print(table)
