"""A large bucket on a cluster: its files are tallied apart and added up in a tree; the bytes are those of one piece."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hushcall.archive import writer
from hushcall.archive.manifest import Address, ArchivedRound
from hushcall.engines import learning
from hushcall.engines.archive_evidence import evidence_of
from hushcall.engines.dask_cluster import DaskEngine, added, tallied
from hushcall.engines.evidence import find, merged
from hushcall.engines.local import LocalEngine
from hushcall.errors import InvalidArchive
from hushcall.lab.data import archive_synthesis
from hushcall.learn import subspace
from hushcall.learn.subspace import DenseTally
from hushcall.profiles import PROFILES

FILES = 3


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Address, list[ArchivedRound]]:
    """Two rounds of one bucket in several files, which counts as large."""
    monkeypatch.setattr(subspace, "DENSE_FROM", 1000)
    monkeypatch.setattr(writer, "ROWS_A_FILE", 400)
    monkeypatch.setattr(archive_synthesis, "CHUNK", 400)
    given = (str(tmp_path), 400 * FILES - 100, PROFILES["balanced"], 2)
    archive_synthesis.invent(*given, seed=8, areas=1, workers=0, rounds=2)
    address = Address(str(tmp_path))
    return address, address.rounds()


class Recorded(DaskEngine):
    """An engine whose tasks are worked on at once, in this process, and noted."""

    def __init__(self) -> None:
        self.tasks: list[str] = []

    def _submit(self, work: Callable[..., Any], *given: Any) -> Any:
        self.tasks.append(work.__name__)
        return work(*given)


def test_a_tree_of_sums_decides_as_one_piece_does(large: tuple[Address, list[ArchivedRound]]) -> None:
    address, rounds = large
    (one,) = evidence_of(address, rounds[-1], rounds)
    engine = Recorded()
    assert isinstance(one.pieces()[0][0].tally(), DenseTally)
    wanted = find(one)
    assert engine._bucket(one) == wanted
    assert len(wanted.hitters) == 2
    assert engine.tasks == [*([tallied.__name__] * FILES + [added.__name__] * (FILES - 1)) * 2, find.__name__]


def test_a_bucket_of_reports_that_would_travel_is_one_task(
    large: tuple[Address, list[ArchivedRound]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, rounds = large
    monkeypatch.setattr(subspace, "DENSE_FROM", 1_000_000)
    (one,) = evidence_of(address, rounds[-1], rounds)
    engine = Recorded()
    engine._bucket(one)
    assert engine.tasks == [find.__name__]


def test_a_sum_that_lacks_a_file_is_an_error(large: tuple[Address, list[ArchivedRound]]) -> None:
    address, rounds = large
    (one,) = evidence_of(address, rounds[-1])
    ((first, *_),) = one.pieces()
    with pytest.raises(InvalidArchive, match="hold 1100 reports"):
        find(one, [first.tally()])


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
    monkeypatch.setattr(writer, "ROWS_A_FILE", 1 << 18)
    found, planted = archive_synthesis.invent(str(tmp_path), 1_000_100, PROFILES["strong"], 2, areas=1, workers=0)
    address, engine = Address(str(tmp_path)), DaskEngine(workers=2)
    assert len(found.buckets[0].files) == 4
    try:
        learnt = learning.learn(address, found, engine)
    finally:
        engine.close()
    assert learnt == learning.learn(address, found, LocalEngine(0))
    assert sorted(row["number"] for row in learnt.listed) == planted
