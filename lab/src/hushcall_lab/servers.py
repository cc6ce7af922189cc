"""Servers and relays in threads of this process, and random bytes for them, for tests, proofs and the demo."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Thread

import uvicorn

from hushcall.errors import InvalidParameter
from hushcall.protocol.randomness import ByteSource
from hushcall.server import relay
from hushcall.server.http.app import make_app
from hushcall.server.http.connection import limited
from hushcall.server.relay import RelaySettings
from hushcall.server.serve import OPTIONS, bound
from hushcall.server.service import Service

START_SECONDS = 60
"""How long a busy machine may take to start a server in a thread."""
STOP_SECONDS = 30


@contextmanager
def threaded_server(config: uvicorn.Config, listener: socket.socket, name: str) -> Iterator[str]:
    """Runs a server until the block ends. Gives its address."""
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


@contextmanager
def running(service: Service, listener: socket.socket | None = None, *, scheduler: bool = False) -> Iterator[str]:
    """The service. Gives its address, by default on a free port."""
    listener = listener or bound("127.0.0.1", 0)
    options = {key: value for key, value in OPTIONS.items() if key not in ("factory", "timeout_graceful_shutdown")}
    http = limited(service.settings.server.connections)
    config = uvicorn.Config(make_app(service, scheduler), http=http, **options)
    with threaded_server(config, listener, "server") as address:
        yield address


@contextmanager
def running_relay(settings: RelaySettings, listener: socket.socket | None = None) -> Iterator[str]:
    """A relay. Gives its address, by default on a free port."""
    listener = listener or socket.create_server(("127.0.0.1", 0))
    with threaded_server(uvicorn.Config(**relay.server_options(settings)), listener, "relay") as address:
        yield address


def shared(rand: ByteSource) -> ByteSource:
    """A source for threads that draw at once. No two get the same bytes."""
    lock = Lock()

    def draw(count: int) -> bytes:
        with lock:
            return rand(count)

    return draw
