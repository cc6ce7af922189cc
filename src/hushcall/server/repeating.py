"""A thread that repeats a job until it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable

STOP_SECONDS = 5


class Repeating:
    """Runs ``job``, which raises nothing, at once and then at an interval."""

    def __init__(self, job: Callable[[], None], every_seconds: float, name: str) -> None:
        self.job, self.every_seconds = job, every_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends after the step under way. Does nothing before :meth:`start`."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=STOP_SECONDS)

    def _run(self) -> None:
        while not self._stop.is_set():
            self.job()
            self._stop.wait(self.every_seconds)
