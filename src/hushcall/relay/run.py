"""``hushcall relay``: an address to carry to comes in, a listening relay runs until it is told to stop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import uvicorn

from hushcall.errors import InvalidParameter
from hushcall.relay.app import RelaySettings, make_relay


def run(settings: RelaySettings, host: str, port: int) -> None:
    """Until SIGINT or SIGTERM. Nothing is logged about requests, on purpose."""
    uvicorn.run(make_relay(settings), host=host, port=port, log_config=None, access_log=False, server_header=False)


@contextmanager
def running(settings: RelaySettings, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """A relay in a thread of this process, for tests and the demo; yields its address."""
    config = uvicorn.Config(
        make_relay(settings), host=host, port=port, log_config=None, access_log=False, server_header=False
    )
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, name="relay", daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise InvalidParameter("relay", "start", f"port {port}")
        time.sleep(0.01)
    bound = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://{host}:{bound}"
    finally:
        server.should_exit = True
        thread.join(timeout=30)
