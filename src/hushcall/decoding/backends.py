"""Backends: decoding in processes of this machine, on a Dask cluster, or on a graphics card (``gpu_backend``)."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from itertools import islice
from multiprocessing.connection import wait as wait_for
from typing import Any, TypeVar

from hushcall import checks
from hushcall.decoding.gpu_backend import GpuBackend
from hushcall.decoding.task import Backend, BucketSpec, DecodeTask, Findings, Shard
from hushcall.decoding.window import decode
from hushcall.errors import InvalidParameter, MissingExtra, Unreachable
from hushcall.mechanisms.tallies import Tally

T = TypeVar("T")
R = TypeVar("R")
BACKENDS = ("local", "dask", "gpu")


def make_backend(
    name: str,
    scheduler: str | None = None,
    workers: int | None = None,
    start: Callable[[], None] | None = None,
    gpu_blocks: int | None = None,
) -> Backend:
    """A backend by its name.

    ``scheduler`` is a Dask scheduler's address, ``workers`` the processes to start, each of which calls ``start``.
    """
    checks.one_of("engine", name, BACKENDS)
    if scheduler is not None and name != "dask":
        raise InvalidParameter("scheduler", "go with the engine dask", name)
    if name == "dask":
        return DaskBackend(scheduler, 2 if workers is None else workers)
    processes = ProcessBackend(workers, start or single_threaded)
    return GpuBackend(blocks=gpu_blocks, readers=processes) if name == "gpu" else processes


def follow_parent() -> None:
    """In a worker: end with the server that started it, however that ended. Ctrl-C is for the server to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (wait_for([parent.sentinel]), os._exit(1)), daemon=True).start()


def single_threaded() -> None:
    import numba

    numba.set_num_threads(1)


class ProcessBackend:
    """``workers`` processes, each of which calls ``start`` first. With 0 it works in this process, in many threads."""

    MAX_LOSSES = 3
    """How often processes may die before it is believed to be the job's own fault."""

    def __init__(self, workers: int | None = None, start: Callable[[], None] = single_threaded) -> None:
        self.workers = (os.cpu_count() or 1) if workers is None else workers
        self._start = start
        self._pool: ProcessPoolExecutor | None = None

    @property
    def width(self) -> int:
        return max(self.workers, 1)

    @property
    def ahead(self) -> int:
        return max(2 * self.workers, 1)

    def decode(self, tasks: Iterable[DecodeTask]) -> Iterator[Findings]:
        return self.each(decode, tasks)

    def each(self, work: Callable[[T], R], jobs: Iterable[T]) -> Iterator[R]:
        """Any work, one job a process. A job whose process died is done again by another."""
        if self.workers == 0:
            yield from map(work, jobs)
            return
        jobs, again, losses = iter(jobs), list[T](), 0
        running: dict[Future[R], T] = {}
        while True:
            try:
                again += islice(jobs, max(self.ahead - len(running) - len(again), 0))
                while again:
                    future = self._running_pool().submit(work, again[-1])  # may raise: the job stays until it runs
                    running[future] = again.pop()
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield future.result()
                    del running[future]
            except BrokenProcessPool:
                self._pool, losses = None, losses + 1
                if losses == self.MAX_LOSSES:
                    raise
                again += running.values()
                running = {}

    def _running_pool(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # Fresh processes: a forked one would inherit the compiled kernels' threads, and stop.
            self._pool = ProcessPoolExecutor(
                self.workers, mp_context=multiprocessing.get_context("spawn"), initializer=self._start
            )
        return self._pool

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


class DaskBackend:
    """A Dask cluster: the scheduler at ``address`` (``tcp://host:8786``), or ``workers`` processes started here.

    A bucket is one task, or a tree of them where it has shards, with sums of two where branches meet. The scheduler
    gives the tasks of a worker that dies to another.
    """

    AHEAD = 4
    """Tasks in the scheduler's hands, by worker: enough that none waits, few enough that not all exist at once."""
    RETRIES = 3

    def __init__(self, address: str | None = None, workers: int = 2) -> None:
        distributed = _distributed()
        self._cluster: Any = None
        if address is None:
            self._cluster = distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
            )
        try:
            self.client: Any = distributed.Client(address or self._cluster, timeout=20)
        except (OSError, TimeoutError, ValueError) as error:
            raise Unreachable(f"no Dask scheduler answers at {address} ({error})") from None

    @property
    def dashboard(self) -> str:
        return str(self.client.dashboard_link)

    @property
    def width(self) -> int:
        return max(len(self.client.scheduler_info(n_workers=-1)["workers"]), 1)

    @property
    def ahead(self) -> int:
        return self.AHEAD * self.width

    def decode(self, tasks: Iterable[DecodeTask]) -> Iterator[Findings]:
        tasks, running = iter(tasks), _distributed().as_completed()
        for task in islice(tasks, self.ahead):
            running.add(self._decoded(task))
        for future in running:
            yield future.result()
            for task in islice(tasks, 1):
                running.add(self._decoded(task))

    def _decoded(self, task: DecodeTask) -> Any:
        """The future of a bucket's findings, behind those of its sums where it is large."""
        sums = [self._sum(shards) for shards in task.shards()]
        return self._submit(decode, task, sums) if sums else self._submit(decode, task)

    def _sum(self, shards: Sequence[tuple[BucketSpec, Shard]]) -> Any:
        """The future of a round's tally. Workers add up neighbours, so that no sum comes here."""
        level = [self._submit(tallied, *shard) for shard in shards]
        while len(level) > 1:
            last = level[-1:] if len(level) % 2 else []
            level = [self._submit(added, *pair) for pair in zip(level[::2], level[1::2], strict=False)] + last
        return level[0]

    def _submit(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return self.client.submit(_on_one_core, work, *arguments, pure=False, retries=self.RETRIES)

    def close(self) -> None:
        self.client.close()
        if self._cluster is not None:
            self._cluster.close()


def _distributed() -> Any:
    """The package, which has no types. It is imported when a cluster is asked for."""
    try:
        return import_module("distributed")
    except ImportError:
        raise MissingExtra("the dask engine", "scale") from None


def _on_one_core(work: Callable[..., R], *arguments: Any) -> R:
    single_threaded()
    return work(*arguments)


def tallied(bucket: BucketSpec, shard: Shard) -> Tally:
    return shard.tally(bucket)


def added(tally: Tally, other: Tally) -> Tally:
    return tally.merge(other)
