"""``hushcall serve``: settings come in, a listening service runs until it is told to stop."""

from __future__ import annotations

import gc
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import uvicorn
from fastapi import FastAPI

from hushcall.errors import InvalidParameter
from hushcall.server.access.devices import SCOPES
from hushcall.server.http.app import make_app
from hushcall.server.logs import set_up
from hushcall.server.service import Service, open_service
from hushcall.server.settings import Settings

_SETTINGS = "HUSHCALL_WORKER_SETTINGS"
_METRICS = "PROMETHEUS_MULTIPROC_DIR"
_FACTORY = "hushcall.server.serve:worker_app"


def worker_app() -> FastAPI:
    """The application of a worker process, over the settings that the process which started it left for it."""
    set_up()
    app = make_app(open_service(Settings.model_validate_json(os.environ[_SETTINGS])))
    gc.collect()
    gc.freeze()  # half a million objects that stay: looking through them again and again stops intake for 70 ms
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


def free_port(host: str, wanted: int) -> int:
    """The port to listen on; one that is taken is an error that says so before anything is started."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, wanted))
        except OSError as error:
            raise InvalidParameter("port", f"be free on {host} ({error.strerror}); try --port 0", wanted) from None
        return int(probe.getsockname()[1])


def serve(settings: Settings, port: int) -> None:
    """Run until SIGINT or SIGTERM; what was accepted is committed first."""
    set_up()
    os.environ[_SETTINGS] = settings.model_dump_json()
    shared = None
    if settings.server.workers > 1:
        shared = os.environ[_METRICS] = tempfile.mkdtemp(prefix="hushcall-metrics-")
    try:
        uvicorn.run(
            _FACTORY,
            factory=True,
            host=settings.server.host,
            port=port,
            workers=settings.server.workers,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            timeout_graceful_shutdown=10,
        )
    finally:
        if shared:
            shutil.rmtree(shared, ignore_errors=True)


@contextmanager
def running(service: Service, *, scheduler: bool = False, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """The service in a thread of this process, for tests and the demo; yields its address. Port 0: a free one."""
    port = free_port(host, port)
    config = uvicorn.Config(
        make_app(service, scheduler), host=host, port=port, log_config=None, access_log=False, server_header=False
    )
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, name="server", daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise InvalidParameter("server", "start", f"port {port}")
        time.sleep(0.01)
    try:
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=30)
