"""A thread that moves rounds, in the worker that holds the lease.

Its jobs are independent: rounds move even when a signature cannot be renewed. A worker in which a job failed gives the
lease up for a few ticks, so that a healthy one can take it. Decoders on other machines work without it.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from functools import partial

from hushcall.errors import HushcallError
from hushcall.server.logs import log
from hushcall.server.repeating import Repeating
from hushcall.server.service import Service, open_data, open_service
from hushcall.server.settings import Settings

MAX_TICK_SECONDS = 1.0
REFRESH_SECONDS = 300.0
YIELDED_TICKS = 3
"""Ticks for which a failed worker leaves the lease to others. They try every tick."""


class Scheduler(Repeating):
    """With ``leads`` it takes the lease where it is free. With ``helps`` it decodes for another leader.

    Processes of ``hushcall decode`` help. Workers of one server share its cores, and do not.
    """

    def __init__(self, service: Service, *, leads: bool = True, helps: bool = False) -> None:
        self.service, self.leads, self.helps = service, leads, helps
        super().__init__(self._tick, min(MAX_TICK_SECONDS, service.settings.round.period_seconds / 40), "scheduler")
        self._since_refresh_seconds, self._resumed, self._yielded = REFRESH_SECONDS, False, 0
        self._failing: dict[str, str] = {}

    def _tick(self) -> None:
        self._yielded = max(self._yielded - 1, 0)
        if not self._yielded and not self.turn():
            self._yielded = YIELDED_TICKS

    def turn(self) -> bool:
        """Does the due jobs, if this worker holds the lease. False where one failed."""
        if self.leads and not self._job("lease", self.service.term.take):
            return False
        if self.service.term.lease is None:
            return not self.helps or self._job("decode", self.service.rounds.help)
        advance = partial(self.service.rounds.advance, self.service.now)
        jobs: dict[str, Callable[[], object]] = {"signatures": self._refresh, "list": self._resume, "rounds": advance}
        succeeded = [self._job(name, job) for name, job in jobs.items()]
        if all(succeeded):
            return True
        self._job("lease", self.service.term.give_up)
        return False

    def _refresh(self) -> None:
        self._since_refresh_seconds += self.every_seconds
        if self._since_refresh_seconds >= REFRESH_SECONDS:
            self.service.publisher.refresh(self.service.now)
            self.service.imports.expire(self.service.now)
            self._since_refresh_seconds = 0.0

    def _resume(self) -> None:
        """Once, publishes a correction that a killed server logged and did not publish."""
        if not self._resumed:
            self.service.publisher.republish(self.service.now)
            self._resumed = True

    def _job(self, name: str, job: Callable[[], object]) -> bool:
        """Whether a job succeeded. A failure is logged when it begins, not every second."""
        try:
            job()
        except Exception as error:
            kind = type(error).__name__
            if self._failing.get(name) != kind:
                rule = str(error).partition(", got ")[0] if isinstance(error, HushcallError) else ""  # not the value
                log("scheduler failed, will retry", level=logging.ERROR, error=error, job=name, reason=rule)
            self._failing[name] = kind
            return False
        if self._failing.pop(name, None):
            log("scheduler works again", job=name)
        return True


def decoder(settings: Settings, *, leads: bool) -> Service:
    """The service of a process without uploads. One that only decodes needs no keys."""
    return open_service(settings) if leads else Service(settings, open_data(settings))


def run(scheduler: Scheduler) -> None:
    """Works until SIGINT or SIGTERM. Then ends after the step under way, and frees the lease."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    scheduler.start()
    try:
        while not stop.wait(1.0):
            pass
    finally:
        scheduler.stop()
        scheduler.service.term.give_up()
        for number, handler in before.items():
            signal.signal(number, handler)
