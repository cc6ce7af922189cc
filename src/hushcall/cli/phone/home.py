"""What the phone's commands share: where the phone lives, and opening it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushcall.errors import InvalidParameter

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


def is_set_up(home: Path | None) -> bool:
    """Whether there is a store at all; a command that only looks makes none."""
    from hushcall.phone.home.store import FILE

    return (folder_of(home) / FILE).is_file()


@contextmanager
def opened(home: Path | None) -> Iterator[Store]:
    """The store of a phone that was set up, or an error that says how to."""
    from hushcall.phone.home.store import Store

    if not is_set_up(home):
        raise InvalidParameter("phone", "be set up first (hushcall phone init --server URL)", str(folder_of(home)))
    store = Store.open(folder_of(home))
    try:
        yield store
    finally:
        store.close()


def phone_of(store: Store) -> Phone:
    """The phone with its server."""
    from hushcall.phone.phone import Phone
    from hushcall.phone.reporting.transport import HttpServer

    if not store.get("server"):
        raise InvalidParameter("phone", "be enrolled first (hushcall phone init --server URL)", "no server yet")
    return Phone(store, HttpServer(store.get("server"), store.get("token")))
