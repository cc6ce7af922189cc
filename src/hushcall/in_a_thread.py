"""A web server in a thread of this process, for tests, the demo and the lab: its configuration comes in, it serves.

Needs an extra that brings uvicorn; nothing of a phone comes here.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

import uvicorn

from hushcall.errors import InvalidParameter

START_SECONDS = 60
"""How long a busy machine may take to start a server in a thread."""
STOP_SECONDS = 30
TICK_SECONDS = 0.1


class _Prompt(uvicorn.Server):
    """Ends when it is told to: uvicorn itself looks ten times a second whether it was."""

    async def main_loop(self) -> None:
        """A tick as often as ever, or as soon as somebody calls :meth:`stop`."""
        self._told, self._loop, ticks = asyncio.Event(), asyncio.get_running_loop(), 0
        while not await self.on_tick(ticks):
            ticks += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), TICK_SECONDS)

    def stop(self) -> None:
        """From any thread, once it has started."""
        self.should_exit = True
        with suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._told.set)


@contextmanager
def in_a_thread(config: uvicorn.Config, listener: socket.socket, name: str) -> Iterator[str]:
    """The server at work; its address. It ends with the block."""
    host, port = listener.getsockname()[:2]
    server = _Prompt(config)
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
        server.stop()
        thread.join(timeout=STOP_SECONDS)
