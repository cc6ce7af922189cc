"""``hushcall round``: look at rounds, and move them by hand, under cron or a systemd timer."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.server.on_service import acting, on_service
from hushcall.cli.show import Json
from hushcall.protocol.states import HELD

if TYPE_CHECKING:
    from hushcall.server.service import Service

rounds = typer.Typer(help="Rounds, by hand. The server moves them by itself unless told not to.", no_args_is_help=True)
RoundOption = Annotated[int | None, typer.Option("--round", min=1, help="Which one. Default: the newest.")]


@rounds.command("open")
@on_service
def open_round(
    service: Service,
    json: Json = False,
) -> None:
    """Open the next round now; a round that is open already stays.

    [bold]Example[/bold]

      hushcall round open
    """
    _say(service, service.rounds.open(service.now), json)


@rounds.command("status")
@on_service
def status(
    service: Service,
    round_id: RoundOption = None,
    json: Json = False,
) -> None:
    """Show a round: its phase and deadlines, who took part, buckets, how far decoding is, what was found.

    [bold]Examples[/bold]

      hushcall round status

      hushcall round status --round 12 --json
    """
    _say(service, round_id, json)


@rounds.command("advance")
@on_service
def advance(
    service: Service,
    force: Annotated[bool, typer.Option(help="The newest round's next step is due, whatever its deadlines.")] = False,
    json: Json = False,
) -> None:
    """Do everything that is due: open, decide, close, decode, publish. Safe to run again, and twice at once.

    [bold]Examples[/bold]

      hushcall round advance

      hushcall round advance --force
    """
    with show.progress("rounds") as bar:
        compiled = cache(show.ready_to_decode)

        def beat() -> None:
            compiled()  # at the first beat: most of the time nothing is to be decoded
            _show_progress(service, bar)

        service.rounds.beat = beat
        try:  # first: signatures must not run out because a round is stuck
            service.publisher.refresh(service.now)
        finally:  # nor does a round wait because a key is missing
            with acting(service, "force") if force else nullcontext():
                done = service.rounds.advance(service.now, force=force)
    if json:
        show.print_json({"done": done})
    else:
        show.console.print("\n".join(done) or "Nothing is due.")


def _show_progress(service: Any, bar: Any) -> None:
    from hushcall.server.rounds.round_status import status as status_of

    at = status_of(service.store)
    show.step(bar, "decode", at["parts_decoded"], at["parts"] or 1)


@rounds.command("hold")
@on_service
def hold(
    service: Service,
    why: Annotated[str, typer.Option(help="For whoever looks at it next.")],
    round_id: RoundOption = None,
    json: Json = False,
) -> None:
    """Stop a round where it is: it takes no uploads and is not decoded.

    [bold]Example[/bold]

      hushcall round hold --why "too many devices from one place"
    """
    chosen = round_id or _newest(service)
    with acting(service, "hold", f"round {chosen}", why):
        service.rounds.hold(chosen, why)
    _say(service, chosen, json)


@rounds.command("release")
@on_service
def release(
    service: Service,
    round_id: RoundOption = None,
    json: Json = False,
) -> None:
    """Let a held round go on from where it was.

    [bold]Example[/bold]

      hushcall round release --round 12
    """
    chosen = round_id or _newest(service)
    with acting(service, "release", f"round {chosen}"):
        service.rounds.release(chosen)
    _say(service, chosen, json)


@rounds.command("discard")
@on_service
def discard(
    service: Service,
    why: Annotated[str, typer.Option(help="For whoever looks at it next.")],
    round_id: RoundOption = None,
    json: Json = False,
) -> None:
    """End a held round for good: nothing is learned from it, and its reports are deleted.

    [bold]Example[/bold]

      hushcall round discard --round 12 --why "flooded"
    """
    chosen = round_id or _newest(service)
    with acting(service, "discard", f"round {chosen}", why):
        service.rounds.discard(chosen, why)
    _say(service, chosen, json)


def _newest(service: Any) -> int:
    row = service.rounds.newest()
    return int(row.id) if row is not None else 0


def _say(service: Any, round_id: int | None, json: bool) -> None:
    from hushcall.server.rounds.round_status import status as status_of

    if round_id is None and service.rounds.newest() is None:
        if json:
            show.print_json({"round": None})
        else:
            show.console.print("No round yet: 'hushcall serve' or 'hushcall round open' opens the first one.")
        return
    shown = status_of(service.store, round_id)
    if json:
        show.print_json(shown)
        return
    table = Table(title=f"Round {shown['round']}: {shown['state']}", show_header=False)
    for label, value in (
        ("held because" if shown["state"] == HELD else "note", shown["reason"]),
        ("announcing", f"{shown['opens']} … {shown['collects']}"),
        ("collecting", f"{shown['collects']} … {shown['closes']}"),
        ("next round", shown["next"]),
        ("run with", f"{shown['profile']} ({shown['mechanism']}, ε = {shown['epsilon']:g})"),
        ("devices that announced", f"{shown['announced']:,}"),
        ("reports", f"{shown['reports']:,}"),
        ("buckets", f"{shown['buckets_run']} run, {shown['buckets_skipped']} skipped"),
        ("decoded", f"{shown['parts_decoded']} of {shown['parts']} {show.blocks(_share(shown), 16)}"),
        ("numbers found", f"{shown['found']:,}"),
        ("refused", ", ".join(f"{name} {count}" for name, count in shown["refused"].items())),
    ):
        if value:
            table.add_row(label, escape(str(value)))
    show.console.print(table)


def _share(shown: dict[str, Any]) -> float:
    return float(shown["parts_decoded"] / shown["parts"]) if shown["parts"] else 0.0
