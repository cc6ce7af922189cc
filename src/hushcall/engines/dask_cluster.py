"""Decoding on a Dask cluster: its scheduler's address comes in, or a number of local workers to start.

Evidence names an archive that all workers can read. A bucket is one task; one of millions of phones is a tree of them,
with a file of the archive at each leaf and sums of two where branches meet. A worker that dies costs time: the
scheduler gives what it had to another, and decoding the same part again gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from importlib import import_module
from itertools import islice
from typing import Any, TypeVar

from hushcall.engines.evidence import Evidence, Findings, Piece, find
from hushcall.engines.local import alone
from hushcall.errors import MissingExtra, Unreachable

T = TypeVar("T")
R = TypeVar("R")
AHEAD = 4
"""Jobs in the scheduler's hands, by worker: enough that none waits, few enough that jobs need not exist at once."""
RETRIES = 3


class DaskEngine:
    """``address`` is a scheduler's (``tcp://host:8786``); without one, ``workers`` processes are started here."""

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
        """Where Dask's own pages are."""
        return str(self.client.dashboard_link)

    @property
    def width(self) -> int:
        """One part a worker, of those that are there now."""
        return max(len(self.client.scheduler_info(n_workers=-1)["workers"]), 1)

    def find(self, evidence: Iterable[Evidence]) -> Iterator[Findings]:
        """Decode every part, each as one task or as a tree of them."""
        return self._results(self._bucket, evidence)

    def each(self, work: Callable[[T], R], jobs: Iterable[T]) -> Iterator[R]:
        """Any work, one task a job. A task that failed for its own reasons raises them here."""
        return self._results(partial(self._submit, work), jobs)

    def _results(self, submit: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[Any]:
        waiting, running = iter(jobs), _distributed().as_completed()
        for job in islice(waiting, AHEAD * self.width):
            running.add(submit(job))
        for future in running:
            yield future.result()
            for job in islice(waiting, 1):
                running.add(submit(job))

    def _bucket(self, one: Evidence) -> Any:
        """The task that decodes a bucket, behind those that sum it up where it is large."""
        rounds = [self._sum(pieces) for pieces in one.pieces()]
        return self._submit(find, one, rounds) if rounds else self._submit(find, one)

    def _sum(self, pieces: Sequence[Piece]) -> Any:
        """The task that ends a tree: neighbours are added up by the workers, so that no sum comes here."""
        level = [self._submit(tallied, piece) for piece in pieces]
        while len(level) > 1:
            last = level[-1:] if len(level) % 2 else []
            level = [self._submit(added, *pair) for pair in zip(level[::2], level[1::2], strict=False)] + last
        return level[0]

    def executor(self) -> Executor:
        """The cluster as one of Python's executors, for a server that has its own order of things."""
        made: Executor = self.client.get_executor(pure=False, retries=RETRIES)
        return made

    def _submit(self, work: Callable[..., Any], *given: Any) -> Any:
        return self.client.submit(_one_thread, work, *given, pure=False, retries=RETRIES)

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        self.client.close()
        if self._cluster is not None:
            self._cluster.close()


def _distributed() -> Any:
    """The package, imported when a cluster is asked for; it has no types of its own."""
    try:
        return import_module("distributed")
    except ImportError:
        raise MissingExtra("the dask engine", "scale") from None


def _one_thread(work: Callable[..., R], *given: Any) -> R:
    """Kernels of one task use one core: the cluster shares out the others."""
    alone()
    return work(*given)


def tallied(piece: Piece) -> Any:
    """A leaf of the tree."""
    return piece.tally()


def added(one: Any, other: Any) -> Any:
    """Where two branches meet."""
    return one.merge(other)
