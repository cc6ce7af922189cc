"""A web server in a thread of this process, for tests, the demo and the lab: its configuration comes in, it serves.

Needs an extra that brings uvicorn; nothing of a phone comes here.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import uvicorn

from hushcall.errors import InvalidParameter

START_SECONDS = 60
"""How long a busy machine may take to start a server in a thread."""
STOP_SECONDS = 30


@contextmanager
def in_a_thread(config: uvicorn.Config, listener: socket.socket, name: str) -> Iterator[str]:
    """The server at work; its address. It ends with the block."""
    host, port = listener.getsockname()[:2]
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": [listener]}, name=name, daemon=True)
    thread.start()
    deadline = time.monotonic() + START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise InvalidParameter(name, "start", f"port {port}")
        time.sleep(0.01)
    try:
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=STOP_SECONDS)
