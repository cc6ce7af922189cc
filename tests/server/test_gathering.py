"""How long an upload waits for company before it is committed, on a clock that only moves when everybody waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from hushcall.server.ingest.group_commit import MAX_LINGER_SECONDS, GroupCommit
from hushcall.server.ingest.ingest import Announce, Answer

BATCH, LINGER = 100, 0.002


class Patient(asyncio.SelectorEventLoop):
    """An event loop that does not wait: it moves its clock on instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        selector: Any = self._selector  # type: ignore[attr-defined]
        look = selector.select

        def select(timeout: float | None) -> Any:
            self.now += timeout or 0.0
            return look(0)

        selector.select = select

    def time(self) -> float:
        """By our clock."""
        return self.now


class AtOnce(Executor):
    """Has done what it was given when it is given it."""

    def submit(self, call: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(call(*given, **named))
        return done


class Disk:
    """An intake that takes no time; the size of each commit, and when it was."""

    def __init__(self) -> None:
        self.commits: list[tuple[float, int]] = []

    def accept(self, asked: Sequence[object]) -> list[Answer]:
        self.commits.append((asyncio.get_event_loop().time(), len(asked)))
        return [Answer(201)] * len(asked)


def gathered(due: Sequence[float], linger: float = LINGER) -> tuple[list[float], list[tuple[float, int]]]:
    """Uploads that come at such times: how long each waited, and the commits."""
    disk = Disk()

    async def run() -> list[float]:
        given: Any = disk
        group = GroupCommit(given, BATCH, linger, 5000)
        group._thread = AtOnce()  # type: ignore[assignment]
        group.start()

        async def one(at: float) -> float:
            await asyncio.sleep(at)
            await group.submit(Announce(b"", 1, 0))
            return asyncio.get_running_loop().time() - at

        waited = await asyncio.gather(*(one(at) for at in due))
        await group.stop()
        return waited

    loop = Patient()
    try:
        return loop.run_until_complete(run()), disk.commits
    finally:
        loop.close()


def test_a_lone_upload_waits_once() -> None:
    waited, commits = gathered([0.0, 1.0])
    assert [size for _, size in commits] == [1, 1]
    assert max(waited) == pytest.approx(LINGER)


@pytest.mark.parametrize("crowd", [2, 64, BATCH - 1])
def test_a_crowd_that_is_all_here_waits_once_too(crowd: int) -> None:
    waited, commits = gathered([0.0] * crowd)
    assert [size for _, size in commits] == [crowd]
    assert max(waited) == pytest.approx(LINGER)


def test_a_full_batch_does_not_wait() -> None:
    waited, commits = gathered([0.0] * BATCH)
    assert (max(waited), commits) == (0.0, [(0.0, BATCH)])


@pytest.mark.parametrize(("rate", "each"), [(700, 14), (1750, 35), (3500, 70)])
def test_under_load_batches_are_large_and_nobody_waits_for_long(rate: int, each: int) -> None:
    """In a second, so many: as many a commit as come while the first of them waits."""
    waited, commits = gathered([place / rate for place in range(rate)])
    assert len(commits) <= rate / each
    assert max(waited) <= MAX_LINGER_SECONDS + LINGER
    assert max(size for _, size in commits) <= BATCH


def test_at_more_than_a_batch_a_wait_a_full_one_goes_early() -> None:
    waited, commits = gathered([place / 20_000 for place in range(4000)])
    assert {size for _, size in commits} == {BATCH}
    assert max(waited) <= BATCH / 20_000 + LINGER


def test_who_lingers_for_longer_waits_once_however_many_come() -> None:
    waited, commits = gathered([place / 100 for place in range(20)], linger=0.1)
    assert len(commits) == 2
    assert max(waited) <= 0.1 + 1e-9


def test_without_lingering_nobody_waits() -> None:
    waited, commits = gathered([0.0, 0.01, 0.01, 0.02], linger=0.0)
    assert (max(waited), [size for _, size in commits]) == (0.0, [1, 2, 1])


def test_each_answer_goes_to_its_own_request_when_one_has_hung_up() -> None:
    class Named(Disk):
        def accept(self, asked: Sequence[Any]) -> list[Answer]:
            return [Answer(201, {"bucket": upload.bucket}) for upload in asked]

    async def run() -> list[object]:
        given: Any = Named()
        group = GroupCommit(given, BATCH, LINGER, 5000)
        group._thread = AtOnce()  # type: ignore[assignment]
        group.start()
        waiting = [asyncio.ensure_future(group.submit(Announce(b"", 1, place))) for place in range(6)]
        await asyncio.sleep(0)
        waiting[2].cancel()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        await group.stop()
        return [answer.body["bucket"] if isinstance(answer, Answer) else "hung up" for answer in answers]

    loop = Patient()
    try:
        assert loop.run_until_complete(run()) == [0, 1, "hung up", 3, 4, 5]
    finally:
        loop.close()
