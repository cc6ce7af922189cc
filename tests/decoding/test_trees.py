"""A large bucket on a cluster: its files are tallied apart and added up in a tree; the bytes are those of one piece."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hushcall.decoding.archive import files
from hushcall.decoding.archive import learn as archives
from hushcall.decoding.archive.learn import tasks_of
from hushcall.decoding.archive.manifest import Address, ArchivedRound
from hushcall.decoding.backends import DaskBackend, ProcessBackend, added, tallied
from hushcall.decoding.task import merged
from hushcall.decoding.window import decode
from hushcall.errors import InvalidArchive
from hushcall.mechanisms.profiles import PROFILES
from hushcall.mechanisms.subspace import server as subspace
from hushcall.mechanisms.tallies import DenseTally
from hushcall_lab.data import archive_synthesis

FILES = 3


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Address, list[ArchivedRound]]:
    """Two rounds of one bucket in several files, which counts as large."""
    monkeypatch.setattr(subspace, "DENSE_FROM", 1000)
    monkeypatch.setattr(files, "ROWS_A_FILE", 400)
    monkeypatch.setattr(archive_synthesis, "CHUNK", 400)
    given = (str(tmp_path), 400 * FILES - 100, PROFILES["balanced"], 2)
    archive_synthesis.invent(*given, seed=8, areas=1, workers=0, rounds=2)
    address = Address(str(tmp_path))
    return address, address.rounds()


class Recorded(DaskBackend):
    """A backend whose tasks are worked on at once, in this process, and noted."""

    def __init__(self) -> None:
        self.tasks: list[str] = []

    def _submit(self, work: Callable[..., Any], *given: Any) -> Any:
        self.tasks.append(work.__name__)
        return work(*given)


def test_a_tree_of_sums_decides_as_one_piece_does(large: tuple[Address, list[ArchivedRound]]) -> None:
    address, rounds = large
    (task,) = tasks_of(address, rounds[-1], rounds)
    backend, (bucket, shard) = Recorded(), task.shards()[0][0]
    assert isinstance(shard.tally(bucket), DenseTally)
    wanted = decode(task)
    assert backend._decoded(task) == wanted
    assert len(wanted.hitters) == 2
    assert backend.tasks == [*([tallied.__name__] * FILES + [added.__name__] * (FILES - 1)) * 2, decode.__name__]


def test_a_bucket_of_reports_that_would_travel_is_one_task(
    large: tuple[Address, list[ArchivedRound]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, rounds = large
    monkeypatch.setattr(subspace, "DENSE_FROM", 1_000_000)
    (task,) = tasks_of(address, rounds[-1], rounds)
    backend = Recorded()
    backend._decoded(task)
    assert backend.tasks == [decode.__name__]


def test_a_sum_that_lacks_a_file_is_an_error(large: tuple[Address, list[ArchivedRound]]) -> None:
    address, rounds = large
    (task,) = tasks_of(address, rounds[-1])
    (((bucket, first), *_),) = task.shards()
    with pytest.raises(InvalidArchive, match="hold 1100 reports"):
        decode(task, [first.tally(bucket)])


@dataclass(frozen=True)
class Counted:
    """A tally that knows how many of its kind exist at once."""

    alive: list[int]
    parts: int = 1

    def merge(self, other: Counted) -> Counted:
        self.alive[0] -= 1
        return Counted(self.alive, self.parts + other.parts)


@pytest.mark.parametrize(("grows", "most"), [(False, 2), (True, 6)])
def test_sums_of_one_size_do_not_pile_up(grows: bool, most: int) -> None:
    alive, seen = [0], []

    def parts() -> Any:
        for _ in range(32):
            alive[0] += 1
            seen.append(alive[0])
            yield Counted(alive)

    assert merged(parts(), None, grows=grows).parts == 32
    assert max(seen) == most


@pytest.mark.slow
def test_a_cluster_adds_up_a_large_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With real processes: a million and a hundred phones, in four files."""
    monkeypatch.setattr(files, "ROWS_A_FILE", 1 << 18)
    found, planted = archive_synthesis.invent(str(tmp_path), 1_000_100, PROFILES["strong"], 2, areas=1, workers=0)
    address, engine = Address(str(tmp_path)), DaskBackend(workers=2)
    assert len(found.buckets[0].files) == 4
    try:
        learnt = archives.learn(address, found, engine)
    finally:
        engine.close()
    assert learnt == archives.learn(address, found, ProcessBackend(0))
    assert sorted(row["number"] for row in learnt.listed) == planted
