"""The server, between sockets and disk: single uploads come in, batches leave to one thread that commits them.

The event loop never touches the database here. While one batch is being committed the next one gathers; each upload is
answered when its batch is on disk. What may wait is bounded in number and in age: a phone that would be answered too
late is told to come back, and told so before its upload was read. When to come back is spread over a time that grows
for as long as uploads are turned away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from hushcall.server.intake.intake import Announce, Answer, Intake, Upload
from hushcall.server.logs import cause_of, log
from hushcall.server.problems import Problem

LONGEST_SPREAD = 300.0
"""Seconds over which phones are told to come back, at most."""
REFUSAL_SECONDS = 0.5
"""How long an upload that is turned away waits to hear of it."""
LONGEST_LINGER = 0.02
"""Seconds that the first upload of a batch waits for company at most, unless ``linger`` itself is longer."""
_CALM_SECONDS = 10.0
_GOLDEN = 0.6180339887498949
"""Multiples of it, modulo 1, are spread as evenly as any (Weyl): no two phones in a row come back together."""


class Turnstile:
    """When those that are turned away should come back: evenly within a time that grows while there are any."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self.clock, self.turned, self.since, self.last = clock, 0, 0.0, float("-inf")

    def busy(self) -> Problem:
        """The refusal of one more."""
        now = self.clock()
        if now - self.last > _CALM_SECONDS:
            self.since = now
        self.last, self.turned = now, self.turned + 1
        spread = min(max(2 * (now - self.since), 4.0), LONGEST_SPREAD)
        return Problem("busy", retry_after=1 + int(spread * (self.turned * _GOLDEN % 1)))


class GroupCommit:
    """Gathers uploads and has them committed together. Made and used inside one event loop."""

    def __init__(
        self,
        intake: Intake,
        batch: int,
        linger: float,
        queue: int,
        observe: Callable[[int, float], None] = lambda *_: None,
        patience: float = 10.0,
    ) -> None:
        self.intake, self.batch, self.linger, self.queue, self.observe = intake, batch, linger, queue, observe
        self.patience, self.turnstile = patience, Turnstile()
        self._waiting: list[tuple[Announce | Upload, asyncio.Future[Answer], float]] = []
        self._committing: list[tuple[Announce | Upload, asyncio.Future[Answer], float]] = []
        self._something = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._stopping = self._failing = False
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run())
        self._watch = self._loop.create_task(self._turn_away_the_late())

    @property
    def full(self) -> bool:
        """Whether no upload is taken just now."""
        return self.crowded or self._stopping

    @property
    def crowded(self) -> bool:
        """Whether as many wait as may."""
        return len(self._waiting) >= self.queue

    async def refuse_if_full(self) -> None:
        """Turn an upload away while nothing of it was read yet.

        Not at once: a client that does not listen to Retry-After and asks again takes time that uploads could use.
        """
        if self.full:
            await asyncio.sleep(0 if self._stopping else REFUSAL_SECONDS)
            raise self.turnstile.busy()

    async def submit(self, asked: Announce | Upload) -> Answer:
        """The answer, once it is durable; raises the :class:`Problem` if it was refused."""
        if self.full:
            raise self.turnstile.busy()
        future: asyncio.Future[Answer] = self._loop.create_future()
        self._waiting.append((asked, future, self._loop.time()))
        self._something.set()
        return await future

    async def stop(self) -> None:
        """Commit what is waiting, then end."""
        self._stopping = True
        self._something.set()
        await self._task
        self._watch.cancel()
        self._thread.shutdown()

    async def _turn_away_the_late(self) -> None:
        """Answer those that wait for longer than they should, whatever the database is doing.

        One whose batch is being committed may be stored yet: sending the same again is told the same.
        """
        while True:
            await asyncio.sleep(min(1.0, self.patience / 4))
            oldest = self._loop.time() - self.patience
            self._waiting = [one for one in self._waiting if one[2] > oldest or not self._late(one[1])]
            for one in self._committing:
                if one[2] <= oldest:
                    self._late(one[1])

    def _late(self, future: asyncio.Future[Answer]) -> bool:
        if not future.done():
            future.set_exception(self.turnstile.busy())
        return True

    async def _run(self) -> None:
        while not (self._stopping and not self._waiting):
            await self._something.wait()
            await self._gather()
            batch, self._waiting = self._waiting[: self.batch], self._waiting[self.batch :]
            if not self._waiting and not self._stopping:
                self._something.clear()
            if not batch:
                continue
            started, self._committing = perf_counter(), batch
            asked = [one for one, _, _ in batch]
            try:
                answers = await self._loop.run_in_executor(self._thread, self.intake.accept, asked)
            except Exception as error:  # the batch failed as a whole: every waiting phone is told
                self._failed(error)
                continue
            self._failing = False
            self.observe(len(batch), perf_counter() - started)
            for (_, future, _), answer in zip(batch, answers, strict=True):
                if future.done():  # the phone hung up or was turned away; its upload is stored all the same
                    continue
                if isinstance(answer, Problem):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    async def _gather(self) -> None:
        """Wait for company while somebody comes within every ``linger``: a commit costs as much as many uploads.

        A lone upload waits once, so does the last of a crowd that is all here; under load batches are large long before
        there is nothing left of the processor. Whoever waited for the commit before this one has waited already.
        """
        seen = 0
        while self.linger and seen < len(self._waiting) < self.batch and not self._stopping:
            seen, first = len(self._waiting), self._waiting[0][2]
            await asyncio.sleep(self.linger)
            if self._loop.time() - first >= LONGEST_LINGER:
                return

    def _failed(self, error: Exception) -> None:
        """A disk or a database in trouble is a reason to come back, and logged once when it begins."""
        passing = bool(cause_of(error))
        if passing and not self._failing:
            log("uploads cannot be stored", level=logging.ERROR, error=error)
        self._failing = self._failing or passing
        for _, future, _ in self._committing:  # the phone may have hung up
            if not future.done():
                future.set_exception(self.turnstile.busy() if passing else error)
