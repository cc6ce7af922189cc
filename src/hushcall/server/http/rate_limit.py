"""At most so many requests a minute: a caller comes in, a refusal leaves where there were too many. In memory.

Most callers come once a minute, and of those one bit is kept: 200,000 phones that were each remembered by name made a
busy server a fifth larger, and the next minute smaller again.
"""

from __future__ import annotations

import time

from hushcall.server.problems import Problem

MOST_CALLERS = 200_000
"""That a limiter remembers by name: strangers with made-up tokens must not fill the memory."""
PLACES = 1 << 23
"""Bits for those who came once, a megabyte: at 400,000 callers a minute one in forty finds its bit taken."""


class RateLimit:
    """At most so many requests a minute and caller; forgets everybody when the minute is over.

    Whose bit another has taken is counted one more than it asked: it may be refused one early, never one late. Which
    callers share a bit changes with every process (Python's salted hash), so that nobody can choose whose to take.
    """

    def __init__(self, most: int) -> None:
        self.most, self.minute = most, -1
        self.once, self.again = bytearray(), dict[bytes, int]()

    def check(self, caller: bytes) -> None:
        """Refuse the one too many."""
        minute, second = divmod(int(time.monotonic()), 60)
        if minute != self.minute or len(self.again) >= MOST_CALLERS:
            self.minute, self.once, self.again = minute, bytearray(PLACES // 8), {}
        byte, bit = divmod(hash(caller) % PLACES, 8)
        if not self.once[byte] >> bit & 1:
            self.once[byte] |= 1 << bit
            return
        count = self.again[caller] = self.again.get(caller, 1) + 1
        if count > self.most:
            raise Problem("too-many", retry_after=60 - second)
