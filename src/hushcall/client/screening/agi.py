"""A FastAGI server: answers Asterisk with a verdict on each caller, and notes the caller for a report.

The dialplan runs ``AGI(agi://127.0.0.1:4573)`` and then reads ``HUSHCALL_ACTION`` (allow, warn or block) and
``HUSHCALL_WHY``. A verdict never waits for the disk: a separate thread writes the notes of each second.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from hushcall.client.calls import candidates
from hushcall.client.screening.screen import Screen
from hushcall.client.storage.personal import Action
from hushcall.errors import HushcallError
from hushcall.protocol.numbers import Number

MAX_LINES = 200
MAX_LINE_BYTES = 4096
TIMEOUT_SECONDS = 5.0
FLUSH_SECONDS = 1.0
REFRESH_SECONDS = 30.0
MAX_NOTES = 100_000


class Malformed(Exception):
    pass


@dataclass
class AgiServer:
    """Answers calls. ``say`` gets a line now and then for an administrator, never with a phone number."""

    screen: Screen
    clock: Callable[[], float] = time.time
    say: Callable[[str], None] = lambda _: None
    answered: int = field(default=0, init=False)
    blocked: int = field(default=0, init=False)
    malformed: int = field(default=0, init=False)
    _notes: dict[Number, int] = field(default_factory=dict, init=False, repr=False)  # the event loop's
    _unwritten: dict[Number, int] = field(default_factory=dict, init=False, repr=False)  # the disk thread's
    _trouble: str = field(default="", init=False, repr=False)  # why the last notes were not written
    _disk: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1), init=False, repr=False)

    async def start(self, host: str, port: int) -> asyncio.Server:
        return await asyncio.start_server(self.serve, host, port, limit=MAX_LINE_BYTES, backlog=1024)

    async def run(self, host: str, port: int, started: Callable[[int], None] = lambda _: None) -> None:
        server = await self.start(host, port)
        started(server.sockets[0].getsockname()[1])
        tell_systemd("READY=1")
        try:
            async with server:
                await self._maintain()
        finally:
            self.flush()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection of the PBX, which is one call."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self._answer(await read_header(reader), reader, writer)
        except (Malformed, TimeoutError, OSError, ValueError, asyncio.IncompleteReadError):
            self.malformed += 1
        finally:
            writer.close()
            with contextlib.suppress(OSError):  # the other end may have closed it
                await writer.wait_closed()

    def flush(self) -> None:
        """Write the noted callers into the store, and wait for it."""
        self._submit_notes().result()

    def _submit_notes(self) -> Future[None]:
        """Give the notes to the disk thread. It is one thread, so writes are in order."""
        notes, self._notes = self._notes, {}
        return self._disk.submit(self._write, notes)

    def _write(self, notes: dict[Number, int]) -> None:
        """Write notes in one transaction. Those that cannot be written wait for the next time."""
        self._unwritten |= notes
        try:
            candidates.note(self.screen.store, self._unwritten.items())
        except HushcallError as error:
            if str(error) != self._trouble:  # once, not every second: a log may be on the same full disk
                self.say(f"callers could not be noted, will try again: {error}")
            self._trouble = str(error)
        else:
            self._unwritten, self._trouble = {}, ""

    def _refresh(self) -> None:
        try:
            self.screen.store.try_writing()
            self.screen.refresh()
        except HushcallError as error:
            self.say(f"the old list stays in use: {error}")

    async def _answer(self, header: dict[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        now = int(self.clock())
        caller = header.get("agi_callerid", "")
        number = self.screen.parse(caller)
        verdict = self.screen.verdict(number or caller, now)  # a foreign number may be on the owner's own list
        action, why = verdict.action, verdict.why
        if number is not None and len(self._notes) + len(self._unwritten) < MAX_NOTES:
            self._notes[number] = now
        for name, value in (("HUSHCALL_ACTION", action.value), ("HUSHCALL_WHY", why)):
            writer.write(f'SET VARIABLE {name} "{_quoted(value)}"\n'.encode())
            reply = await reader.readline()
            if not reply.startswith(b"200 "):
                raise Malformed("reply")
        self.answered += 1
        self.blocked += action is Action.BLOCK

    async def _maintain(self) -> None:
        refreshed = time.monotonic()
        while True:
            tell_systemd("WATCHDOG=1")
            await asyncio.sleep(FLUSH_SECONDS)
            # Shielded: cancelling must not drop notes that the thread has not begun to write.
            await asyncio.shield(asyncio.wrap_future(self._submit_notes()))
            if time.monotonic() - refreshed >= REFRESH_SECONDS:
                refreshed = time.monotonic()
                await asyncio.shield(asyncio.wrap_future(self._disk.submit(self._refresh)))


async def read_header(reader: asyncio.StreamReader) -> dict[str, str]:
    """The ``agi_name: value`` lines up to the empty one."""
    header: dict[str, str] = {}
    for _ in range(MAX_LINES):
        line = await reader.readline()
        if not line.endswith(b"\n"):
            raise Malformed("the connection ended within the header")
        text = line.decode("utf-8", "replace").strip()
        if not text:
            return header
        name, colon, value = text.partition(":")
        if not colon or not name.startswith("agi_"):
            raise Malformed("a header line that is none")
        header[name] = value.strip()
    raise Malformed("a header without end")


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def tell_systemd(message: str) -> None:
    """Send a message such as ``READY=1`` to systemd, by sd_notify(3). Does nothing without ``NOTIFY_SOCKET``."""
    name = os.environ.get("NOTIFY_SOCKET", "")
    if not name.startswith(("/", "@")):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        datagrams.setblocking(False)
        try:  # @ stands for a name outside the file system
            datagrams.sendto(message.encode(), "\0" + name[1:] if name.startswith("@") else name)
        except OSError:
            return  # systemd stopped or is busy: the next message is a second away
