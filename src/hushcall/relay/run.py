"""``hushcall relay``: an address to carry to comes in, a listening relay runs until it is told to stop."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from hushcall.in_a_thread import in_a_thread
from hushcall.relay.app import RelaySettings, make_relay


def run(settings: RelaySettings, host: str, port: int) -> None:
    """Until SIGINT or SIGTERM. Nothing is logged about requests, on purpose."""
    uvicorn.run(make_relay(settings), host=host, port=port, log_config=None, access_log=False, server_header=False)


@contextmanager
def running(settings: RelaySettings, listener: socket.socket | None = None) -> Iterator[str]:
    """A relay in a thread of this process, for tests and the demo; its address. By default on a free port."""
    listener = listener or socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(make_relay(settings), log_config=None, access_log=False, server_header=False)
    with in_a_thread(config, listener, "relay") as address:
        yield address
