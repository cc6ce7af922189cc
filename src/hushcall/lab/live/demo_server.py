"""A real server in a process of its own, whose clock the demo moves: settings come in, an address leaves."""

from __future__ import annotations

import multiprocessing
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from typing import Any

from hushcall.errors import InvalidParameter
from hushcall.privacy.coins import seeded

START_SECONDS = 60


class SharedClock:
    """A clock that stands still until it is moved, in every process that has it; at the end it is let go."""

    def __init__(self, now: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._now: Synchronized[float] = context.Value("d", now)
        self._since: Synchronized[float] = context.Value("d", 0.0)

    def __call__(self) -> float:
        """Unix seconds."""
        since = self._since.value
        return self._now.value + (time.time() - since if since else 0.0)

    @property
    def now(self) -> float:
        """Unix seconds; can be set."""
        return self()

    @now.setter
    def now(self, value: float) -> None:
        self._now.value = value

    def let_go(self) -> None:
        """From now on it runs like any other."""
        self._since.value = time.time()


@dataclass(frozen=True)
class Running:
    """Where the server is, and the operator's token."""

    url: str
    token: str


@contextmanager
def server(settings: Any, port: int, clock: SharedClock, seed: int) -> Iterator[Running]:
    """The server, until this ends. ``seed`` makes rounds' seeds and devices' numbers: a run can be repeated."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    listener = _listener(settings.server.host, port)
    url = "http://{}:{}".format(*listener.getsockname()[:2])
    process = context.Process(
        target=_serve, args=(settings.model_dump_json(), listener, clock, seed, theirs), name="server", daemon=False
    )
    with _deaf_to_ctrl_c(), listener:  # the terminal sends it to everybody; who ends the server is the demo
        process.start()
    theirs.close()
    try:
        token = _token(process, ours)
        yield Running(url, token)
    finally:
        process.terminate()
        process.join(15)
        if process.is_alive():
            process.kill()
            process.join()


def _listener(host: str, wanted: int) -> socket.socket:
    """At the port that was wanted; where it is taken, at another one."""
    from hushcall.server.serve import bound

    try:
        return bound(host, wanted)
    except InvalidParameter:
        return bound(host, 0)


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """What is started meanwhile ignores Ctrl-C, from its first moment on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _token(process: Any, pipe: Any) -> str:
    deadline = time.monotonic() + START_SECONDS
    while not pipe.poll(0.05):
        if not process.is_alive() or time.monotonic() > deadline:
            raise InvalidParameter("server", f"start within {START_SECONDS} s", f"exit status {process.exitcode}")
    return str(pipe.recv())


def _serve(given: str, listener: socket.socket, clock: SharedClock, seed: int, pipe: Any) -> None:
    """In the server's process."""
    from hushcall.server.access.devices import SCOPES
    from hushcall.server.logs import set_up
    from hushcall.server.serve import running
    from hushcall.server.service import open_service
    from hushcall.server.settings import Settings

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    set_up("WARNING")
    settings = Settings.model_validate_json(given)
    service = open_service(settings, clock=clock)
    service.rounds.coins = seeded(b"demo %d" % seed)
    token = service.devices.new_admin(frozenset(SCOPES), "the demo's operator", service.now)
    # What a phone sends follows from its ticket, and its ticket from its device's number: a run is repeated only if
    # the numbers are. Tokens and keys stay the system's entropy's.
    service.devices.numbers = seeded(b"demo devices %d" % seed)
    with running(service, listener):
        pipe.send(token)
        stop.wait()
