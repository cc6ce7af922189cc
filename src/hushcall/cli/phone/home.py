"""What the phone's commands share: which folder is meant, and opening the phone in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from hushcall.phone.home.store import Store
    from hushcall.phone.home.trouble import StoreTrouble
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
def opened(home: Path | None, *, reading: bool = False) -> Iterator[Store]:
    """The store of a phone that was set up: for commands that need no server.

    Those that only read (``reading``) go on where it cannot be written, and say so.
    """
    from hushcall.phone import setup

    store = setup.opened(folder_of(home), reading=reading)
    tell_only_read(store.only_read)
    try:
        yield store
    finally:
        store.close()


def tell_only_read(trouble: StoreTrouble | None) -> None:
    """One line on stderr where a command goes on with a store that it cannot write."""
    if trouble is not None:
        print(f"hushcall: {trouble.words} It is only read here.", file=sys.stderr, flush=True)


def phone_in(home: Path | None) -> Phone:
    """The phone with its server; whoever asks closes it."""
    from hushcall.phone.phone import Phone

    return Phone.open(folder_of(home))
