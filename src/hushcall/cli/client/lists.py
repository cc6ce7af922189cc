"""``hushcall phone lists``: signed lists of other servers, and in which order they decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushcall.cli import show
from hushcall.cli.options import Home, client_in, folder_of, opened
from hushcall.cli.show import Json
from hushcall.client.screening import subscriptions
from hushcall.client.screening.subscriptions import Subscription
from hushcall.client.storage.folder import locked
from hushcall.errors import HushcallError
from hushcall.protocol.blocklist import iso
from hushcall.wording import counted

if TYPE_CHECKING:
    from hushcall.client.screening.list_sync import SyncResult

_HELP = (
    "Signed lists of other servers, read only: nothing is reported there. The first list that names a caller decides."
)
lists = typer.Typer(help=_HELP, invoke_without_command=True)
Results = Sequence[tuple[Subscription, "SyncResult | HushcallError"]]


@lists.callback()
def show_all(context: typer.Context, home: Home = None, json: Json = False) -> None:
    if context.invoked_subcommand is not None:
        return
    with opened(home, reading=True) as store:
        _show(subscriptions.in_order(store), store.get("server"), json)


@lists.command()
def add(
    url: Annotated[str, typer.Argument(help="The other server's address, or its QR code.")],
    root_sha256: Annotated[
        str, typer.Option("--root-sha256", "--root", help="The digest of its root. Default: trust what it shows now.")
    ] = "",
    relay: Annotated[str, typer.Option(help="Fetch it through this relay of that server's.")] = "",
    direct: Annotated[
        bool, typer.Option("--direct", help="On a phone with a relay: fetch it without, which shows your address.")
    ] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Subscribe to another server's list, after the lists that are there, and fetch it."""
    with closing(client_in(home)) as client, client.alone():
        row = subscriptions.add(client.store, url, root_sha256, relay, direct=direct)
        others = client.sync_others(force=True, only=row.url)
    trust = "as you gave it" if root_sha256 or "#" in url else "trusted because the server shows it now"
    text = f"Subscribed to {row.url}; root {row.root_sha256[:12]}…, {trust}."
    show.say({"list": asdict(row), **facts(others)}, json, "\n".join([text, *in_words(others)]))


@lists.command()
def remove(
    url: Annotated[str, typer.Argument(help="Its address, or its host.")], home: Home = None, json: Json = False
) -> None:
    """Unsubscribe, and delete that list here."""
    with opened(home) as store, locked(folder_of(home)):
        row = subscriptions.remove(store, url)
    show.say({"removed": row.url}, json, f"Unsubscribed from {row.url}.")


@lists.command()
def order(
    names: Annotated[list[str], typer.Argument(help="Addresses or hosts, and 'own' for your server's list.")],
    home: Home = None,
    json: Json = False,
) -> None:
    """Put these lists first, in this order."""
    with opened(home) as store, locked(folder_of(home)):
        _show(subscriptions.reorder(store, names), store.get("server"), json)


def _show(rows: Sequence[Subscription], server: str, json: bool) -> None:
    lines = [
        f"{place}. {row.url or f'{server} (own)'}{f' through {row.relay}' if row.relay else ''}"
        f"{f'. Last sync: {row.trouble}' if row.trouble else ''}"
        for place, row in enumerate(rows, 1)
    ]
    show.say(
        {"lists": [{**asdict(row), "url": row.url or server, "own": not row.url} for row in rows]},
        json,
        "\n".join(lines),
    )


def result_facts(result: SyncResult) -> dict[str, Any]:
    return {**asdict(result), "expires": iso(int(result.expires.timestamp()))}


def result_in_words(result: SyncResult) -> str:
    expires, cost = iso(int(result.expires.timestamp())), f"{result.how}, {result.bytes:,} bytes"
    return f"List version {result.version}: {counted(result.entries, 'number')} ({cost}); good until {expires}."


def facts(results: Results) -> dict[str, Any]:
    """For JSON: nothing where there are no other lists."""
    rows = [
        {"url": row.url, **({"error": str(result)} if isinstance(result, HushcallError) else result_facts(result))}
        for row, result in results
    ]
    return {"others": rows} if rows else {}


def in_words(results: Results) -> Iterator[str]:
    for row, result in results:
        yield f"{row.name}: {result if isinstance(result, HushcallError) else result_in_words(result)}"
