"""A FastAGI server: Asterisk asks about a caller, two channel variables leave, and the caller is noted for the report.

The dialplan runs ``AGI(agi://127.0.0.1:4573)`` and then looks at ``HUSHCALL_ACTION`` (allow, warn or block) and
``HUSHCALL_WHY``. A verdict never waits for the disk: callers are noted in batches by a thread of its own, so a power
cut costs at most the last second of *notes*, and a store that is locked or slow delays nothing but them. Nothing that a
client sends ends the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from hushcall.errors import HushcallError
from hushcall.numbers import Number
from hushcall.phone.calls import candidates
from hushcall.phone.home.action import Action
from hushcall.phone.screening.screen import Screen
from hushcall.phone.screening.watchdog import tell_systemd

MOST_LINES = 200
MOST_LINE_BYTES = 4096
PATIENCE_SECONDS = 5.0
FLUSH_SECONDS = 1.0
REFRESH_SECONDS = 30.0
MOST_NOTES = 100_000


class Malformed(Exception):
    """What came over the connection is not AGI; only the connection ends."""


@dataclass
class AgiServer:
    """Answers calls. ``say`` gets one line now and then for an administrator; never a phone number."""

    screen: Screen
    clock: Callable[[], float] = time.time
    say: Callable[[str], None] = lambda _: None
    answered: int = field(default=0, init=False)
    blocked: int = field(default=0, init=False)
    malformed: int = field(default=0, init=False)
    _notes: dict[Number, int] = field(default_factory=dict, init=False, repr=False)  # the event loop's
    _unwritten: dict[Number, int] = field(default_factory=dict, init=False, repr=False)  # the disk thread's
    _trouble: str = field(default="", init=False, repr=False)  # why notes were not written the last time
    _disk: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1), init=False, repr=False)

    async def start(self, host: str, port: int) -> asyncio.Server:
        """Listen; the returned server ends it."""
        return await asyncio.start_server(self.serve, host, port, limit=MOST_LINE_BYTES, backlog=1024)

    async def run(self, host: str, port: int, started: Callable[[int], None] = lambda _: None) -> None:
        """Listen until cancelled; what was noted is kept."""
        server = await self.start(host, port)
        started(server.sockets[0].getsockname()[1])
        tell_systemd("READY=1")
        try:
            async with server:
                await self._keep_house()
        finally:
            self.flush()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the PBX, which is one call: read what it says about the caller, answer, hang up."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._answer(await read_header(reader), reader, writer)
        except (Malformed, TimeoutError, OSError, ValueError, asyncio.IncompleteReadError):
            self.malformed += 1
        finally:
            writer.close()
            with contextlib.suppress(OSError):  # the other end may be gone already
                await writer.wait_closed()

    def flush(self) -> None:
        """Write the noted callers into the store, and wait for it."""
        self._hand_over().result()

    def _hand_over(self) -> Future[None]:
        """Give the notes to the disk thread: one thread, so that writes follow each other."""
        notes, self._notes = self._notes, {}
        return self._disk.submit(self._write, notes)

    def _write(self, notes: dict[Number, int]) -> None:
        """In one transaction; what cannot be written waits for the next time."""
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
        """Take over a newer list and new contacts; also the disk thread's."""
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
        if number is not None and len(self._notes) + len(self._unwritten) < MOST_NOTES:
            self._notes[number] = now
        for name, value in (("HUSHCALL_ACTION", action.value), ("HUSHCALL_WHY", why)):
            writer.write(f'SET VARIABLE {name} "{_quoted(value)}"\n'.encode())
            reply = await reader.readline()
            if not reply.startswith(b"200 "):
                raise Malformed("reply")
        self.answered += 1
        self.blocked += action is Action.BLOCK

    async def _keep_house(self) -> None:
        refreshed = time.monotonic()
        while True:
            tell_systemd("WATCHDOG=1")
            await asyncio.sleep(FLUSH_SECONDS)
            # Shielded: whoever stops the server must not take back notes that the thread has not begun to write.
            await asyncio.shield(asyncio.wrap_future(self._hand_over()))
            if time.monotonic() - refreshed >= REFRESH_SECONDS:
                refreshed = time.monotonic()
                await asyncio.shield(asyncio.wrap_future(self._disk.submit(self._refresh)))


async def read_header(reader: asyncio.StreamReader) -> dict[str, str]:
    """The ``agi_name: value`` lines up to the empty one."""
    found: dict[str, str] = {}
    for _ in range(MOST_LINES):
        line = await reader.readline()
        if not line.endswith(b"\n"):
            raise Malformed("the connection ended within the header")
        text = line.decode("utf-8", "replace").strip()
        if not text:
            return found
        name, colon, value = text.partition(":")
        if not colon or not name.startswith("agi_"):
            raise Malformed("a header line that is none")
        found[name] = value.strip()
    raise Malformed("a header without end")


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
