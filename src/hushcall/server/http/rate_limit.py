"""At most so many requests a minute: a caller comes in, a refusal leaves where there were too many. In memory."""

from __future__ import annotations

import time

from hushcall.server.problems import Problem

MOST_CALLERS = 200_000
"""That a limiter remembers: strangers with made-up tokens must not fill the memory."""


class RateLimit:
    """At most so many requests a minute and caller; forgets everybody when the minute is over."""

    def __init__(self, most: int) -> None:
        self.most, self.minute = most, 0
        self.seen: dict[bytes, int] = {}

    def check(self, caller: bytes) -> None:
        """Refuse the one too many."""
        minute, second = divmod(int(time.monotonic()), 60)
        if minute != self.minute or len(self.seen) >= MOST_CALLERS:
            self.minute, self.seen = minute, {}
        count = self.seen[caller] = self.seen.get(caller, 0) + 1
        if count > self.most:
            raise Problem("too-many", retry_after=60 - second)
