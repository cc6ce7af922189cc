"""The server, between sockets and disk: single uploads come in, batches leave to one thread that commits them.

The event loop never touches the database here. While one batch is being committed the next one gathers; each upload is
answered when its batch is on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from hushcall.server.intake.intake import Announce, Answer, Intake, Upload
from hushcall.server.problems import Problem


class GroupCommit:
    """Gathers uploads and has them committed together. Made and used inside one event loop."""

    def __init__(
        self,
        intake: Intake,
        batch: int,
        linger: float,
        queue: int,
        observe: Callable[[int, float], None] = lambda *_: None,
    ) -> None:
        self.intake, self.batch, self.linger, self.queue, self.observe = intake, batch, linger, queue, observe
        self._waiting: list[tuple[Announce | Upload, asyncio.Future[Answer]]] = []
        self._something = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._stopping = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def submit(self, asked: Announce | Upload) -> Answer:
        """The answer, once it is durable; raises the :class:`Problem` if it was refused."""
        if len(self._waiting) >= self.queue or self._stopping:
            raise Problem("busy", retry_after=2)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, future))
        self._something.set()
        return await future

    async def stop(self) -> None:
        """Commit what is waiting, then end."""
        self._stopping = True
        self._something.set()
        await self._task
        self._thread.shutdown()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while not (self._stopping and not self._waiting):
            await self._something.wait()
            if self.linger and len(self._waiting) < self.batch and not self._stopping:
                await asyncio.sleep(self.linger)
            batch, self._waiting = self._waiting[: self.batch], self._waiting[self.batch :]
            if not self._waiting and not self._stopping:
                self._something.clear()
            if not batch:
                continue
            started = perf_counter()
            try:
                answers = await loop.run_in_executor(self._thread, self.intake.accept, [asked for asked, _ in batch])
            except Exception as error:  # the batch failed as a whole: every waiting phone is told
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            self.observe(len(batch), perf_counter() - started)
            for (_, future), answer in zip(batch, answers, strict=True):
                if future.done():  # the phone hung up meanwhile; its upload is stored all the same
                    continue
                if isinstance(answer, Problem):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
