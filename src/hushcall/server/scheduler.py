"""The clock's hand: a thread that lets rounds do what is due, in whichever worker holds the lease.

Its jobs are independent: a signature that cannot be renewed, for want of a key, does not keep rounds from moving. A
worker in which something failed gives the lease up for a moment, so that a healthy one takes over; where there
is none, it goes on itself. Decoders on other machines work along without it (``rounds.jobs``).
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable

from hushcall.errors import HushcallError
from hushcall.server.logs import log
from hushcall.server.service import Service, open_data, open_service
from hushcall.server.settings import Settings

LONGEST_TICK = 1.0
REFRESH_EVERY = 300.0
YIELDED_TICKS = 3
"""How long a worker in which something failed leaves the lease to others. They look every tick."""


class Scheduler:
    """Runs until stopped. An error is logged and tried again at the next turn: transitions are idempotent.

    ``leads``: it moves rounds where nobody else does. ``helps``: it decodes along with whoever leads. Workers of one
    server do not, as they share its cores; processes of ``hushcall decode`` do.
    """

    def __init__(self, service: Service, *, leads: bool = True, helps: bool = False) -> None:
        self.service, self.leads, self.helps = service, leads, helps
        self.tick = min(LONGEST_TICK, service.settings.round.period / 40)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)
        self._since_refresh, self._resumed = REFRESH_EVERY, False
        self._failing: dict[str, str] = {}

    def start(self) -> None:
        """Begin, in a thread that ends with the process."""
        self._thread.start()

    def stop(self) -> None:
        """End after the step under way. A long decode is left half done: it resumes where it was."""
        self._stop.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stop.is_set():
            healthy = self.turn()
            self._stop.wait(self.tick if healthy else YIELDED_TICKS * self.tick)

    def turn(self) -> bool:
        """What is due just now, where this worker holds the lease; False where something failed."""
        leads = False

        def lease() -> None:
            nonlocal leads
            leads = self.service.term.take()

        if self.leads and not self._job("lease", lease):
            return False
        if not leads:
            return not self.helps or self._job("decode", self.service.rounds.help)
        done = [self._job(name, job) for name, job in (("signatures", self._refresh), ("list", self._resume))]
        done.append(self._job("rounds", lambda: self.service.rounds.advance(self.service.now)))
        if all(done):
            return True
        self._job("lease", self.service.term.give_up)
        return False

    def _refresh(self) -> None:
        """Sign anew what is about to run out: every few minutes, and at each turn while that fails."""
        self._since_refresh += self.tick
        if self._since_refresh >= REFRESH_EVERY:
            self.service.publisher.refresh(self.service.now)
            self._since_refresh = 0.0

    def _resume(self) -> None:
        """Once: a server that died between an appeal and its list left the list as it was."""
        if not self._resumed:
            self.service.publisher.republish(self.service.now)
            self._resumed = True

    def _job(self, name: str, job: Callable[[], object]) -> bool:
        """Do one thing; whether it went well. What goes wrong is logged when it begins, not every second."""
        try:
            job()
        except Exception as error:
            kind = type(error).__name__
            if self._failing.get(name) != kind:
                rule = str(error) if isinstance(error, HushcallError) else ""
                log("scheduler failed, will retry", level=logging.ERROR, error=error, job=name, reason=_plain(rule))
            self._failing[name] = kind
            return False
        if self._failing.pop(name, None):
            log("scheduler works again", job=name)
        return True


def decoder(settings: Settings, *, leads: bool) -> Service:
    """The service of a process that takes no uploads; one that only decodes needs no keys."""
    return open_service(settings) if leads else Service(settings, open_data(settings))


def run(scheduler: Scheduler) -> None:
    """Work until SIGINT or SIGTERM, then end after the step under way; the lease is another's at once."""
    told = threading.Event()
    before = {one: signal.signal(one, lambda *_: told.set()) for one in (signal.SIGINT, signal.SIGTERM)}
    scheduler.start()
    try:
        while not told.wait(1.0):
            pass
    finally:
        scheduler.stop()
        scheduler.service.term.give_up()
        for one, handler in before.items():
            signal.signal(one, handler)


def _plain(text: str) -> str:
    """The rule that was broken, without the value that broke it."""
    return text.partition(", got ")[0]
