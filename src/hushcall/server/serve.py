"""``hushcall serve``: runs the application in one or several processes, or in a thread."""

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
from contextlib import closing, contextmanager, suppress
from multiprocessing.connection import wait
from pathlib import Path
from threading import Thread
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn import _subprocess

from hushcall.errors import InvalidParameter
from hushcall.server import metrics
from hushcall.server.auth.devices import SCOPES
from hushcall.server.http.app import make_app
from hushcall.server.http.connection import KEEP_ALIVE_SECONDS, limited
from hushcall.server.logs import log, set_up
from hushcall.server.service import open_service
from hushcall.server.settings import Settings

_SETTINGS = "HUSHCALL_WORKER_SETTINGS"
_METRICS = "metrics"
_FACTORY = "hushcall.server.serve:worker_app"
OPTIONS: dict[str, Any] = {
    "factory": True,
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "date_header": True,
    "timeout_graceful_shutdown": 10,
    "timeout_keep_alive": KEEP_ALIVE_SECONDS,
    "proxy_headers": False,  # nothing is counted by an address that the caller names
}
GC_THRESHOLD = 50_000
"""New objects before Python looks for cycles, of which uploads make none. With its default of 700, looking through the
uploads that wait took an eighth of an upload's time."""
ORPHAN_SECONDS = 2.0
"""How long a worker whose supervisor was killed may finish, while it keeps the port from the next start."""
STARTUP_FAILURE = 3
"""uvicorn's exit status of a server that could not start."""


def worker_app() -> FastAPI:
    set_up()
    _end_with_the_supervisor()
    app = make_app(open_service(Settings.model_validate_json(os.environ[_SETTINGS])))
    gc.collect()
    gc.freeze()  # half a million objects that stay: looking through them stops intake for 70 ms
    gc.set_threshold(GC_THRESHOLD)
    return app


def first_admin(settings: Settings) -> str | None:
    """Make the data folder. Returns a token for the operator on the very first start, to be shown once."""
    with closing(open_service(settings)) as service:
        if service.devices.admins():
            return None
        return service.devices.new_admin(frozenset(SCOPES), "made at the first start", service.now)


def bound(host: str, port: int) -> socket.socket:
    """A socket bound to a port. Port 0 is a free one, which nobody else can take meanwhile."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise InvalidParameter("port", f"be free on {host} ({error.strerror}); try --port 0", port) from None
    return listener


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def serve(settings: Settings, listener: socket.socket) -> None:
    """Run until SIGINT or SIGTERM. Uploads that wait are committed first."""
    set_up()
    os.environ[_SETTINGS] = settings.model_dump_json()
    with compiling(settings):
        if settings.server.workers > 1:
            _serve_in_processes(settings, listener)
            return
        server = uvicorn.Server(uvicorn.Config(_FACTORY, http=limited(settings.server.connections), **OPTIONS))
        with suppress(KeyboardInterrupt):  # raised again by uvicorn once everything is closed
            server.run(sockets=[listener])
        if not server.started:
            sys.exit(STARTUP_FAILURE)


_COMPILE = """
import os, threading
os.nice(10)
threading.Thread(target=lambda: os.read(0, 1) or os._exit(1), daemon=True).start()
from hushcall.mechanisms.kernels.warm_up import main
main()
"""
"""Ends with the process that started it, however that ended: nobody then holds the other end of its input."""


@contextmanager
def compiling(settings: Settings) -> Iterator[None]:
    """Compiles the decoders meanwhile, in a process of low priority."""
    if not settings.round.scheduler or settings.round.dask:
        yield
        return
    began = time.monotonic()
    command = [sys.executable, "-c", _COMPILE]
    pipe = subprocess.PIPE
    child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)  # noqa: S603

    def follow() -> None:
        compiled = child.stdout.read() if child.stdout else ""
        if child.wait() == 0:
            log("decoders ready", compiled=int(compiled), seconds=round(time.monotonic() - began, 1))
        elif child.returncode > 0:
            log("decoders not compiled yet", level=logging.WARNING, reason="the first decode compiles them")

    Thread(target=follow, name="compiling", daemon=True).start()
    try:
        yield
    finally:
        child.terminate()


def _serve_in_processes(settings: Settings, listener: socket.socket) -> None:
    """Run several workers, which share metrics in a folder. uvicorn's supervisor takes only the number of a port."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # imported once for all workers, which is most of their start
    _subprocess.spawn = context  # type: ignore[assignment]
    port, shared = port_of(listener), metrics_folder(settings.data)
    os.environ[metrics.SHARED] = str(shared)
    listener.close()
    try:
        options = {**OPTIONS, "http": limited(settings.server.connections), "workers": settings.server.workers}
        uvicorn.run(_FACTORY, host=settings.server.host, port=port, **options)
    finally:
        shutil.rmtree(shared, ignore_errors=True)


def metrics_folder(data: Path) -> Path:
    """The folder in which this server's workers share metrics. Folders of servers that are gone are deleted."""
    for old in data.glob(f"{_METRICS}-*"):
        try:
            os.kill(int(old.name.rpartition("-")[2]), 0)
        except (ValueError, ProcessLookupError):
            shutil.rmtree(old, ignore_errors=True)
        except OSError:
            continue  # another user's process
    folder = data / f"{_METRICS}-{os.getpid()}"
    with suppress(OSError):  # without it each worker has its own metrics only
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _end_with_the_supervisor() -> None:
    """End this worker if its supervisor is killed: otherwise it would keep the port."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def follow() -> None:
            wait([parent.sentinel])
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(ORPHAN_SECONDS)
            os.kill(os.getpid(), signal.SIGKILL)  # a slow phone keeps its connection: what is acknowledged is on disk

        Thread(target=follow, name="follow", daemon=True).start()
