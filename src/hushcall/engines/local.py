"""Decoding in processes of this machine: the default, and what the others are measured against."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import get_context
from typing import TypeVar

from hushcall.engines.evidence import Evidence, Findings, find

T = TypeVar("T")
R = TypeVar("R")
LIVES = 3
"""How often a job may lose its process before its error is believed to be the job's."""


class LocalEngine:
    """``workers`` processes; 0 works in this one, with as many threads as the kernels like."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = (os.cpu_count() or 1) if workers is None else workers
        self._pool: ProcessPoolExecutor | None = None

    @property
    def width(self) -> int:
        """One part a process."""
        return max(self.workers, 1)

    def find(self, evidence: Iterable[Evidence]) -> Iterator[Findings]:
        """Decode every part, as many at a time as there are processes."""
        return self.each(find, evidence)

    def each(self, work: Callable[[T], R], jobs: Iterable[T]) -> Iterator[R]:
        """Any work, one job a process; a job whose process died is done again by another."""
        if self.workers == 0:
            yield from map(work, jobs)
            return
        waiting, running, lives = iter(jobs), dict[Future[R], T](), LIVES
        again: list[T] = []
        while True:
            try:
                again += islice(waiting, max(2 * self.workers - len(running) - len(again), 0))
                while again:
                    future = self._start().submit(work, again[-1])  # may raise: the job stays until it is in hand
                    running[future] = again.pop()
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield future.result()
                    del running[future]
            except BrokenProcessPool:
                lives -= 1
                if lives == 0:
                    raise
                again += running.values()
                running, self._pool = {}, None

    def _start(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # Fresh processes: a forked one would inherit the compiled kernels' threads, and stop.
            self._pool = ProcessPoolExecutor(self.workers, mp_context=get_context("spawn"), initializer=alone)
        return self._pool

    def close(self) -> None:
        """End the processes and wait for them; what they had not begun is dropped."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


def alone() -> None:
    """In each worker, once: leave the other cores to the other workers."""
    import numba

    numba.set_num_threads(1)
