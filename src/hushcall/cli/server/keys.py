"""``hushcall keys``: makes the keys that sign the list, replaces them, and shows their state."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from hushcall.cli import show
from hushcall.cli.options import Place, chosen_settings, grouped, in_words, settings_of
from hushcall.cli.show import Json
from hushcall.protocol.blocklist import iso

if TYPE_CHECKING:
    from hushcall.server.db.store import Store
    from hushcall.server.signing.ceremony import KeyStatus

PASSPHRASE = "HUSHCALL_ROOT_PASSPHRASE"  # noqa: S105 - the name of a variable, not its value

keys = typer.Typer(
    help="Make the keys that sign the list, replace one, and see where they stand.", no_args_is_help=True
)


@contextmanager
def _opened(place: Place, *, make: bool = False) -> Iterator[tuple[Store, Path]]:
    """(the store, the folder of its keys). Both must exist, unless ``make``."""
    settings = chosen_settings(place) if make else settings_of(place)
    from hushcall.server.service import open_data

    with in_words(settings), closing(open_data(settings)) as store:
        yield store, settings.keys


@keys.command()
@grouped
def init(
    *,
    place: Place,
    passphrase: Annotated[
        bool, typer.Option(help=f"Lock the root key with a passphrase: asked for, or taken from {PASSPHRASE}.")
    ] = False,
    json: Json = False,
) -> None:
    """Make the root key and the three online keys, and publish the first root.

    Do it once, before the first round. Then move the root key away: the server does not need it.
    """
    with _opened(place, make=True) as (store, folder):
        from hushcall.server.signing import ceremony

        secret = _ask("Passphrase for the root key", confirm=True) if passphrase else None
        root_key = ceremony.init(store, folder, datetime.now(UTC), secret)
        digest = ceremony.root_sha256(store.files())
    text = (
        f"Keys made in {folder}, first root published.\n"
        f"Move {root_key} off this machine: onto two sticks, in two places.\n"
        f"SHA-256 of the root, for phones that want to be sure: {digest}"
    )
    show.say({"keys": str(folder), "root_key": str(root_key), "root_sha256": digest}, json, text)


@keys.command()
@grouped
def rotate(
    *,
    roles: Annotated[list[str], typer.Argument(help="timestamp, snapshot, targets, root; several are done in turn.")],
    root_key: Annotated[Path | None, typer.Option(help="The root key's file, if it is not in keys/offline.")] = None,
    place: Place,
    json: Json = False,
) -> None:
    """Replace a key. Phones follow by themselves at their next sync; the server need not be restarted.

    Needs the root key, and its passphrase if it has one. Also renews the root for another year.

    [bold]Examples[/bold]

      hushcall keys rotate timestamp

      hushcall keys rotate timestamp snapshot targets --root-key /media/stick/root.pem
    """
    ask = cache(lambda path: _ask(f"Passphrase of {path}", confirm=False))
    done = []
    with _opened(place) as (store, folder):
        from hushcall.server.auth.operators import COMMAND_LINE, Audit
        from hushcall.server.signing import ceremony

        for role in roles:
            with Audit(store, lambda: int(time())).act(COMMAND_LINE, getpass.getuser(), "rotate", f"key of {role}"):
                rotated = ceremony.rotate(store, folder, role, datetime.now(UTC), ask, root_key)
            root_key = rotated.saved if role == "root" else root_key  # the roles after it need the new one
            done.append(rotated)
    if json:
        rows = [
            {"role": row.role, "key": row.key_id, "file": str(row.saved), "old": [str(path) for path in row.old]}
            for row in done
        ]
        show.print_json({"rotated": rows})
        return
    for row in done:
        show.console.print(f"New {row.role} key {row.key_id[:8]} in {row.saved}.", soft_wrap=True)
        if row.role == "root":
            show.console.print(f"Keep two copies of it, then destroy {row.old[0]}.", soft_wrap=True)


@keys.command()
@grouped
def status(*, place: Place, json: Json = False) -> None:
    """Show every role's version, expiry and keys. Exits with 1 if something expired or a key is missing."""
    with _opened(place) as (store, folder):
        from hushcall.server.signing import ceremony

        standing = ceremony.status(store, folder, datetime.now(UTC))
    if json:
        rows = [
            {
                "role": row.role,
                "version": row.version,
                "expires": iso(int(row.expires.timestamp())),
                "expired": row.expired,
                "keys": list(row.key_ids),
                "missing": row.role in standing.missing,
            }
            for row in standing.roles
        ]
        facts = {"root_key_here": standing.root_key_here, "root_sha256": standing.root_sha256}
        show.print_json({"ok": standing.ok, "roles": rows, **facts})
    else:
        show.console.print(_table(standing))
        show.console.print(f"SHA-256 of the newest root: {standing.root_sha256}", soft_wrap=True)
        if standing.root_key_here:
            show.console.print("[yellow]The root key is still on this machine: move it away.[/]")
    if not standing.ok:
        raise typer.Exit(1)


def _ask(question: str, *, confirm: bool) -> bytes:
    passphrase = os.environ.get(PASSPHRASE)
    return (passphrase or str(typer.prompt(question, hide_input=True, confirmation_prompt=confirm, err=True))).encode()


def _table(standing: KeyStatus) -> Table:
    table = Table(title="Who signs the list, and until when")
    for column in ("role", "version", "expires", "key", ""):
        table.add_column(column, justify="right" if column == "version" else "left")
    for row in standing.roles:
        troubles = ["expired"] * row.expired + ["key missing"] * (row.role in standing.missing)
        names = ", ".join(key[:8] for key in row.key_ids)
        expires = iso(int(row.expires.timestamp()))
        table.add_row(row.role, str(row.version), expires, names, f"[red]{', '.join(troubles)}[/]" if troubles else "✓")
    return table
