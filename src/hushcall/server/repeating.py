"""Something that a server does again and again beside its work, in a thread of its own, until it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable

STOP_SECONDS = 5


class Repeating:
    """Does ``job`` every so many seconds, for the first time after that long. ``job`` raises nothing."""

    def __init__(self, job: Callable[[], None], every: float, name: str) -> None:
        self.job, self.every = job, every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin, in a thread that ends with the process."""
        self._thread.start()

    def stop(self) -> None:
        """End after the step under way; one that never began has ended."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=STOP_SECONDS)

    def _run(self) -> None:
        while not self._stop.wait(self.every):
            self.job()
