"""``hushcall relay``: an address to carry to comes in, a listening relay runs until it is told to stop."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import uvicorn

from hushcall.errors import InvalidParameter
from hushcall.relay.app import RelaySettings, make_relay

START_SECONDS = 60
"""How long a busy machine may take to start a relay in a thread."""


def run(settings: RelaySettings, host: str, port: int) -> None:
    """Until SIGINT or SIGTERM. Nothing is logged about requests, on purpose."""
    uvicorn.run(make_relay(settings), host=host, port=port, log_config=None, access_log=False, server_header=False)


@contextmanager
def running(settings: RelaySettings, listener: socket.socket | None = None) -> Iterator[str]:
    """A relay in a thread of this process, for tests and the demo; its address. By default on a free port."""
    listener = listener or socket.create_server(("127.0.0.1", 0))
    host, port = listener.getsockname()[:2]
    server = uvicorn.Server(
        uvicorn.Config(make_relay(settings), log_config=None, access_log=False, server_header=False)
    )
    thread = Thread(target=server.run, kwargs={"sockets": [listener]}, name="relay", daemon=True)
    thread.start()
    deadline = time.monotonic() + START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise InvalidParameter("relay", "start", f"port {port}")
        time.sleep(0.01)
    try:
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=30)
