"""``hushcall serve``: settings come in, a listening service runs until it is told to stop."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from pathlib import Path
from threading import Thread
from typing import Any

import uvicorn
from fastapi import FastAPI

from hushcall.errors import InvalidParameter
from hushcall.in_a_thread import in_a_thread
from hushcall.server import metrics
from hushcall.server.access.devices import SCOPES
from hushcall.server.http.app import make_app
from hushcall.server.http.connection import KEEP_ALIVE_SECONDS, bounded
from hushcall.server.logs import log, set_up
from hushcall.server.service import Service, open_service
from hushcall.server.settings import Settings

_SETTINGS = "HUSHCALL_WORKER_SETTINGS"
_METRICS = "metrics"
_FACTORY = "hushcall.server.serve:worker_app"
_OPTIONS: dict[str, Any] = {
    "factory": True,
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "date_header": True,
    "timeout_graceful_shutdown": 10,
    "timeout_keep_alive": KEEP_ALIVE_SECONDS,
    "proxy_headers": False,  # what a caller says about its own address is nothing to count by
}
SELDOM = 50_000
"""Objects more than there were before Python looks for cycles, of which uploads make none. By itself it does at 700,
which a few uploads that wait are: to look through all that wait again and again took an eighth of an upload's time."""
STARTUP_FAILURE = 3
"""The exit status of a server that could not start, as uvicorn has it."""


def worker_app() -> FastAPI:
    """The application of a worker process, over the settings that the process which started it left for it."""
    set_up()
    _end_with_the_supervisor()
    app = make_app(open_service(Settings.model_validate_json(os.environ[_SETTINGS])))
    gc.collect()
    gc.freeze()  # half a million objects that stay: looking through them again and again stops intake for 70 ms
    gc.set_threshold(SELDOM)
    return app


def first_admin(settings: Settings) -> str | None:
    """Make the data if need be; on the very first start, a token for the operator (to be shown once)."""
    service = open_service(settings)
    try:
        if service.devices.has_admin():
            return None
        return service.devices.new_admin(frozenset(SCOPES), "made at the first start", service.now)
    finally:
        service.close()


def bound(host: str, wanted: int) -> socket.socket:
    """A socket at that port (0: a free one); a port that is taken is an error before anything is started.

    Whoever serves gets the socket and not its number: between asking for a free port and taking it, others ask too.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, wanted))
    except OSError as error:
        listener.close()
        raise InvalidParameter("port", f"be free on {host} ({error.strerror}); try --port 0", wanted) from None
    return listener


def port_of(listener: socket.socket) -> int:
    """Where a socket listens: port 0 was replaced by a free one."""
    return int(listener.getsockname()[1])


def serve(settings: Settings, listener: socket.socket) -> None:
    """Run until SIGINT or SIGTERM; what was accepted is committed first."""
    set_up()
    os.environ[_SETTINGS] = settings.model_dump_json()
    with compiling(settings):
        _serve(settings, listener)


def _serve(settings: Settings, listener: socket.socket) -> None:
    if settings.server.workers == 1:
        server = uvicorn.Server(uvicorn.Config(_FACTORY, http=bounded(settings.server.connections), **_OPTIONS))
        with suppress(KeyboardInterrupt):  # raised again by uvicorn once everything is closed
            server.run(sockets=[listener])
        if not server.started:
            sys.exit(STARTUP_FAILURE)
    else:
        _serve_in_processes(settings, listener)


_COMPILE = """
import os, threading
os.nice(10)
threading.Thread(target=lambda: os.read(0, 1) or os._exit(1), daemon=True).start()
from hushcall.learn.kernels import main
main()
"""
"""Ends with whoever started it, however that ended: then nobody holds the other end of its input."""


@contextmanager
def compiling(settings: Settings) -> Iterator[None]:
    """The decoders are compiled meanwhile, in a process of its own that lets others go first: uploads do not wait.

    Once a machine and a version that takes half a minute; afterwards they are on disk, and it ends within a second.
    """
    if not settings.round.scheduler or settings.round.dask:
        yield
        return
    began = time.monotonic()
    command = [sys.executable, "-c", _COMPILE]
    pipe = subprocess.PIPE
    child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)  # noqa: S603

    def follow() -> None:
        words = child.stdout.read() if child.stdout else ""
        if child.wait() == 0:
            log("decoders ready", compiled=int(words), seconds=round(time.monotonic() - began, 1))
        elif child.returncode > 0:
            log("decoders not compiled yet", level=logging.WARNING, reason="the first decode compiles them")

    Thread(target=follow, name="compiling", daemon=True).start()
    try:
        yield
    finally:
        child.terminate()


def _serve_in_processes(settings: Settings, listener: socket.socket) -> None:
    """Several workers, whose metrics meet in a folder. uvicorn's supervisor takes only a number for the port."""
    port, shared = port_of(listener), metrics_folder(settings.data)
    os.environ[metrics.SHARED] = str(shared)
    listener.close()
    try:
        options = {**_OPTIONS, "http": bounded(settings.server.connections), "workers": settings.server.workers}
        uvicorn.run(_FACTORY, host=settings.server.host, port=port, **options)
    finally:
        shutil.rmtree(shared, ignore_errors=True)


def metrics_folder(data: Path) -> Path:
    """Where this server's workers leave their figures; what servers left that ended without a word is swept away."""
    for old in data.glob(f"{_METRICS}-*"):
        try:
            os.kill(int(old.name.rpartition("-")[2]), 0)
        except (ValueError, ProcessLookupError):
            shutil.rmtree(old, ignore_errors=True)
        except OSError:
            continue  # somebody else's, and alive
    folder = data / f"{_METRICS}-{os.getpid()}"
    with suppress(OSError):  # without it each worker tells of itself alone
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _end_with_the_supervisor() -> None:
    """A worker whose supervisor was killed ends too, as if it had been asked to: otherwise it would keep the port."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def follow() -> None:
            wait([parent.sentinel])
            os.kill(os.getpid(), signal.SIGTERM)

        Thread(target=follow, name="follow", daemon=True).start()


@contextmanager
def running(service: Service, listener: socket.socket | None = None, *, scheduler: bool = False) -> Iterator[str]:
    """The service in a thread of this process, for tests and the demo; its address. By default on a free port."""
    listener = listener or bound("127.0.0.1", 0)
    options = {key: value for key, value in _OPTIONS.items() if key not in ("factory", "timeout_graceful_shutdown")}
    http = bounded(service.settings.server.connections)
    config = uvicorn.Config(make_app(service, scheduler), http=http, **options)
    with in_a_thread(config, listener, "server") as address:
        yield address
