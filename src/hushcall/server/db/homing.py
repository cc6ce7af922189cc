"""SQLite's write-ahead log, brought home every other second by a thread of its own: no commit stops to do it.

Left to itself SQLite does that in whichever commit makes the log longer than four megabytes: five times a second at
2,600 uploads, each for pages that the next commits change again. Every other second it is a sixth of the disk's writes,
and those who upload do not wait for them.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from hushcall.server.db.store import Store
from hushcall.server.db.trouble import ERRORS

EVERY = 2.0


class Homing:
    """Works until it is stopped; where it fails, the next time may succeed. PostgreSQL looks after its own."""

    def __init__(self, store: Store, every: float = EVERY) -> None:
        self.store, self.every = store, every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="homing", daemon=True)

    def start(self) -> None:
        """Begin, in a thread that ends with the process."""
        if not self.store.postgres:
            self._thread.start()

    def stop(self) -> None:
        """End after the step under way."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stop.wait(self.every):
            with suppress(OSError, *ERRORS):
                self.store.bring_log_home()
