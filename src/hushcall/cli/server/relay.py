"""``hushcall relay``: carry sealed requests to one gateway, see no content, keep nothing."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

import typer

from hushcall.errors import InvalidParameter, MissingExtra


def relay(
    gateway: Annotated[str, typer.Option(help="The server's gateway: https://SERVER/.well-known/ohttp-gateway.")],
    host: Annotated[
        str, typer.Option(help="Address to listen on; put a proxy with TLS before any other.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8760,
    per_address: Annotated[int, typer.Option(min=1, help="Requests a minute that one address may send.")] = 60,
    in_all: Annotated[int, typer.Option(min=1, help="Requests a minute, all together.")] = 60_000,
) -> None:
    """Run a relay for a server that somebody else runs: it sees who sends, never what. docs/operating.md has the rest.

    [bold]Examples[/bold]

      hushcall relay --gateway https://calls.example.org/.well-known/ohttp-gateway
    """
    if urlsplit(gateway).scheme not in ("http", "https") or not urlsplit(gateway).hostname:
        raise InvalidParameter(
            "gateway", "be an address like https://calls.example.org/.well-known/ohttp-gateway", gateway
        )
    try:
        from hushcall.relay.app import RelaySettings
        from hushcall.relay.run import run
    except ImportError:
        raise MissingExtra("hushcall relay", "server") from None
    print(f"hushcall: relaying from {host}:{port} to {gateway}; nothing about requests is logged", flush=True)
    run(RelaySettings(gateway, per_address, in_all), host, port)
