"""``hushcall phone allow``, ``block``, ``own``: the owner's own list, which never leaves the phone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hushcall.cli import show
from hushcall.cli.phone.home import Home, opened
from hushcall.cli.show import Json

if TYPE_CHECKING:
    from pathlib import Path

    from hushcall.phone.home.action import Action

Entries = Annotated[
    list[str], typer.Argument(metavar="NUMBER|PREFIX*...", help="A number, or its beginning: '+1900*'.")
]


def allow(entries: Entries, home: Home = None, json: Json = False) -> None:
    """Always let these callers through, whatever the list says, and never report them.

    [bold]Examples[/bold]

      hushcall phone allow "(202) 555-0143"

      hushcall phone allow "+1202555*"
    """
    from hushcall.phone.home.action import Action

    _change(entries, Action.ALLOW, home, json)


def block(entries: Entries, home: Home = None, json: Json = False) -> None:
    """Always block these callers, whatever the list says.

    [bold]Examples[/bold]

      hushcall phone block +19005550143 "+882*"
    """
    from hushcall.phone.home.action import Action

    _change(entries, Action.BLOCK, home, json)


def own(
    remove: Annotated[list[str] | None, typer.Option(metavar="NUMBER|PREFIX*", help="Take an entry off.")] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Show your own list: it stays on this phone, and counts before the shared one.

    [bold]Examples[/bold]

      hushcall phone own

      hushcall phone own --remove "+882*"
    """
    _change(remove or [], None, home, json)


def _change(entries: list[str], action: Action | None, home: Path | None, json: bool) -> None:
    """Put entries on the list, or take them off; then show it."""
    from hushcall.phone.home.personal import Personal, pattern_of
    from hushcall.phone.setup import plan_of

    with opened(home, reading=not entries) as store:
        kept = Personal.load(store)
        for text in entries:
            kept = kept.with_entry(pattern_of(text, plan_of(store)), action)
        if entries:
            kept.save(store)
    if json:
        show.print_json({"own": {pattern: what.value for pattern, what in sorted(kept.entries.items())}})
        return
    for pattern, what in sorted(kept.entries.items()):
        show.console.print(f"{what.value:5} {pattern}", markup=False)
    if not kept.entries:
        show.console.print("Your own list is empty.")
