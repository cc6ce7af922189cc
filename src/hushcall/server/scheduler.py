"""The clock's hand: a thread that lets rounds do what is due, in whichever worker holds the lease."""

from __future__ import annotations

import logging
import threading

from hushcall.errors import HushcallError
from hushcall.server.logs import log
from hushcall.server.service import Service

LONGEST_TICK = 1.0
REFRESH_EVERY = 300.0


class Scheduler:
    """Runs until stopped. An error is logged and tried again at the next tick: transitions are idempotent."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.tick = min(LONGEST_TICK, service.settings.round.period / 40)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)
        self._last = ""

    def start(self) -> None:
        """Begin, in a thread that ends with the process."""
        self._thread.start()

    def stop(self) -> None:
        """End after the step under way. A long decode is left half done: it resumes where it was."""
        self._stop.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        since_refresh, resumed = REFRESH_EVERY, False
        while not self._stop.is_set():
            try:
                if self.service.take_lease():
                    since_refresh += self.tick
                    if since_refresh >= REFRESH_EVERY:  # first: signatures must not run out because a round is stuck
                        self.service.publisher.refresh(self.service.now)
                        since_refresh = 0.0
                    if not resumed:  # a server that died between an appeal and its list left the list as it was
                        self.service.publisher.republish(self.service.now)
                        resumed = True
                    self.service.rounds.advance(self.service.now)
                self._last = ""
            except Exception as error:
                kind = type(error).__name__
                if kind != self._last:  # once, not every second
                    rule = str(error) if isinstance(error, HushcallError) else ""
                    log("scheduler failed, will retry", level=logging.ERROR, error=error, reason=_plain(rule))
                self._last = kind
            self._stop.wait(self.tick)


def _plain(text: str) -> str:
    """The rule that was broken, without the value that broke it."""
    return text.partition(", got ")[0]
