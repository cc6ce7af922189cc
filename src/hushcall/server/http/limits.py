"""Limits on callers: requests a minute, and reads beside uploads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from hushcall.server.problems import Problem

MAX_CALLERS = 200_000
"""Callers that a limit counts one by one: made-up tokens must not fill the memory."""
FIRST_CALL_BITS = 1 << 23
"""One megabyte. At 400,000 callers a minute one in forty shares a bit with another."""

READS_AT_ONCE = 4
PAUSE_FACTOR = 2.0
"""Pause of a place after a read while uploads arrive, as a multiple of the read's time."""
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.01, 0.25
RECENT_SECONDS = 0.5
"""An upload counts as arriving for so long: longer than a commit takes, while all clients wait for it."""
BYTES_PER_SECOND = 32e6
"""Of all long answers together, while uploads arrive: about a tenth of one processor."""
MAX_WAITING = 1000
TIMEOUT_SECONDS = 10.0


class RateLimit:
    """Most callers come once a minute, and of those one bit is kept.

    Callers that share a bit may be refused one request early, never one late.
    """

    def __init__(self, per_minute: int) -> None:
        self.per_minute, self.minute = per_minute, -1
        self.first_calls, self.counts = bytearray(), dict[bytes, int]()

    def check(self, caller: bytes) -> None:
        minute, second = divmod(int(time.monotonic()), 60)
        if minute != self.minute or len(self.counts) >= MAX_CALLERS:
            self.minute, self.first_calls, self.counts = minute, bytearray(FIRST_CALL_BITS // 8), {}
        byte, bit = divmod(hash(caller) % FIRST_CALL_BITS, 8)
        if not self.first_calls[byte] >> bit & 1:
            self.first_calls[byte] |= 1 << bit
            return
        count = self.counts[caller] = self.counts.get(caller, 1) + 1
        if count > self.per_minute:
            raise Problem("too-many", retry_after=60 - second)


class ReadThrottle:
    """Uploads go first: reads take turns, and pause between turns while uploads arrive.

    A turn ends where the answer begins, so a slow reader delays nobody.
    """

    def __init__(self) -> None:
        self.turns, self.waiting, self.last_upload = asyncio.Semaphore(READS_AT_ONCE), 0, float("-inf")
        self._next_piece = 0.0

    @property
    def uploads_arrive(self) -> bool:
        return time.monotonic() - self.last_upload <= RECENT_SECONDS

    def note_upload(self) -> None:
        self.last_upload = time.monotonic()

    async def begin_turn(self) -> Callable[[], None]:
        """Wait for a turn. Returns what ends it, which may be called more than once."""
        await self._acquire()
        loop, ended = asyncio.get_running_loop(), False
        started = loop.time()

        def end() -> None:
            nonlocal ended
            if ended:
                return
            ended = True
            if self.uploads_arrive:
                pause = PAUSE_FACTOR * (loop.time() - started)
                loop.call_later(min(max(pause, MIN_PAUSE_SECONDS), MAX_PAUSE_SECONDS), self.turns.release)
            else:
                self.turns.release()

        return end

    async def pace(self, size: int) -> None:
        if self.uploads_arrive:
            now = asyncio.get_running_loop().time()
            due = max(now, self._next_piece)
            self._next_piece = due + size / BYTES_PER_SECOND
            await asyncio.sleep(due - now)

    async def _acquire(self) -> None:
        if self.waiting >= MAX_WAITING:
            raise Problem("busy", retry_after=5)
        self.waiting += 1
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await self.turns.acquire()
        except TimeoutError:
            raise Problem("busy", retry_after=5) from None
        finally:
            self.waiting -= 1
