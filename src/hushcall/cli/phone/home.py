"""What the phone's commands share: which folder is meant, and opening the phone in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from hushcall.phone.home.store import Store
    from hushcall.phone.phone import Phone

Home = Annotated[
    Path | None,
    typer.Option("--home", help="The phone's folder. Default: HUSHCALL_HOME, or ~/.hushcall.", show_default=False),
]
LOCK_PATIENCE = 5.0


def folder_of(home: Path | None) -> Path:
    """The folder that a command works in."""
    from hushcall.phone.home.store import default_home

    return home or default_home()


@contextmanager
def opened(home: Path | None) -> Iterator[Store]:
    """The store of a phone that was set up: for commands that need no server."""
    from hushcall.phone import setup

    store = setup.opened(folder_of(home))
    try:
        yield store
    finally:
        store.close()


def phone_in(home: Path | None) -> Phone:
    """The phone with its server; whoever asks closes it."""
    from hushcall.phone.phone import Phone

    return Phone.open(folder_of(home))
