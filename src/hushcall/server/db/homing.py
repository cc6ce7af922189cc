"""SQLite's write-ahead log, brought home every second by a thread of its own: no commit stops to do it.

Left to itself SQLite does that in whichever commit makes the log longer than four megabytes: five times a second at
2,600 uploads, each for pages that the next commits change again. Every second such a page is written once, and
those who upload do not wait for it.
"""

from __future__ import annotations

from contextlib import suppress

from hushcall.server.db.store import Store
from hushcall.server.db.trouble import ERRORS
from hushcall.server.repeating import Repeating

EVERY = 1.0


def homing(store: Store, every: float = EVERY) -> Repeating:
    """What does it; where it fails, the next time may succeed. PostgreSQL looks after its own."""

    def once() -> None:
        with suppress(OSError, *ERRORS):
            store.bring_log_home()

    return Repeating(once, every, "homing")
