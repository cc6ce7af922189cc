"""The upload queue: bounded in number and age, and committed in groups by one thread.

The event loop never touches the database. While one batch is being committed the next one gathers. An upload is
answered when its batch is on disk, and refused when the queue is full or when it has waited for too long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import NamedTuple

from hushcall.server.ingest.ingest import Announce, Answer, Intake, Upload
from hushcall.server.logs import cause_of, log
from hushcall.server.problems import Problem

MAX_SPREAD_SECONDS = 300.0
REFUSAL_SECONDS = 0.5
"""Delay of a refusal: a client that ignores Retry-After and asks again at once would take time from uploads."""
MAX_LINGER_SECONDS = 0.02
"""Longest wait of the first upload of a batch for more, unless the linger itself is longer."""
_CALM_SECONDS = 10.0
_GOLDEN = 0.6180339887498949
"""Multiples of it, modulo 1, are spread evenly however many there are."""


class RetrySpread:
    """Spreads the clients that are refused evenly over a time that grows while there are any."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self.clock, self.refused, self.since, self.last = clock, 0, 0.0, float("-inf")

    def next_seconds(self) -> int:
        now = self.clock()
        if now - self.last > _CALM_SECONDS:
            self.since = now
        self.last, self.refused = now, self.refused + 1
        spread = min(max(2 * (now - self.since), 4.0), MAX_SPREAD_SECONDS)
        return 1 + int(spread * (self.refused * _GOLDEN % 1))


class _Pending(NamedTuple):
    upload: Announce | Upload
    answer: asyncio.Future[Answer]
    since: float


class GroupCommit:
    """Queues uploads and commits them together. Used inside one event loop, from :meth:`start` to :meth:`stop`."""

    def __init__(
        self,
        intake: Intake,
        batch: int,
        linger_seconds: float,
        max_waiting: int,
        observe: Callable[[int, float], None] = lambda *_: None,
        timeout_seconds: float = 10.0,
    ) -> None:
        self.intake, self.batch, self.linger_seconds, self.max_waiting = intake, batch, linger_seconds, max_waiting
        self.observe, self.timeout_seconds, self.spread = observe, timeout_seconds, RetrySpread()
        self._waiting: list[_Pending] = []
        self._committing: list[_Pending] = []
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._stopping = self._failing = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks = [self._loop.create_task(work) for work in (self._commit_batches(), self._refuse_late())]

    @property
    def full(self) -> bool:
        return len(self._waiting) >= self.max_waiting or self._stopping

    def busy(self) -> Problem:
        return Problem("busy", retry_after=self.spread.next_seconds())

    async def refuse_if_full(self) -> None:
        if self.full:
            await asyncio.sleep(0 if self._stopping else REFUSAL_SECONDS)
            raise self.busy()

    async def submit(self, upload: Announce | Upload) -> Answer:
        """The answer, once it is durable. Raises the :class:`Problem` if it was refused."""
        if self.full:
            raise self.busy()
        pending = _Pending(upload, self._loop.create_future(), self._loop.time())
        self._waiting.append(pending)
        self._arrived.set()
        return await pending.answer

    async def stop(self) -> None:
        self._stopping = True
        self._arrived.set()
        committing, late = self._tasks
        await committing
        late.cancel()
        self._thread.shutdown()

    async def _refuse_late(self) -> None:
        """Refuse uploads that wait for longer than the timeout, whatever the database is doing.

        One whose batch is being committed may still be stored. Sending it again gets the same answer.
        """
        while True:
            await asyncio.sleep(min(1.0, self.timeout_seconds / 4))
            oldest = self._loop.time() - self.timeout_seconds
            late = [pending for pending in self._waiting if pending.since <= oldest]
            self._waiting = [pending for pending in self._waiting if pending.since > oldest]
            for pending in (*late, *(pending for pending in self._committing if pending.since <= oldest)):
                if not pending.answer.done():
                    pending.answer.set_exception(self.busy())

    async def _commit_batches(self) -> None:
        while not (self._stopping and not self._waiting):
            await self._arrived.wait()
            await self._gather()
            batch, self._waiting = self._waiting[: self.batch], self._waiting[self.batch :]
            if not self._waiting and not self._stopping:
                self._arrived.clear()
            if not batch:
                continue
            started, self._committing = perf_counter(), batch
            uploads = [pending.upload for pending in batch]
            try:
                answers = await self._loop.run_in_executor(self._thread, self.intake.accept, uploads)
            except Exception as error:  # the batch failed as a whole
                self._fail(error)
                continue
            self._failing = False
            self.observe(len(batch), perf_counter() - started)
            for pending, answer in zip(batch, answers, strict=True):
                if pending.answer.done():  # the client hung up or was refused: its upload is stored all the same
                    continue
                if isinstance(answer, Problem):
                    pending.answer.set_exception(answer)
                else:
                    pending.answer.set_result(answer)

    async def _gather(self) -> None:
        """Waits while an upload arrives in each linger period: a commit costs as much as accepting many uploads.

        A lone upload waits once, and so do uploads that waited for the commit before this one.
        """
        count = 0
        while self.linger_seconds and count < len(self._waiting) < self.batch and not self._stopping:
            count, first = len(self._waiting), self._waiting[0].since
            await asyncio.sleep(self.linger_seconds)
            if self._loop.time() - first >= MAX_LINGER_SECONDS:
                return

    def _fail(self, error: Exception) -> None:
        """Answer the batch. Trouble of the disk or database is a reason to come back, logged once when it begins."""
        transient = bool(cause_of(error))
        if transient and not self._failing:
            log("uploads cannot be stored", level=logging.ERROR, error=error)
        self._failing = self._failing or transient
        for pending in self._committing:
            if not pending.answer.done():
                pending.answer.set_exception(self.busy() if transient else error)
