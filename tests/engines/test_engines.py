"""Engines: the same bytes from each, however many workers, in whatever order, and when a worker dies."""

import os
import random
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engines.in_memory import InMemory
from tests.mechanisms import reports_of

from hushcall.archive.manifest import Address
from hushcall.engines import learning
from hushcall.engines.archive_evidence import evidence_of
from hushcall.engines.dask_cluster import DaskEngine
from hushcall.engines.evidence import Findings, find, merged
from hushcall.engines.gpu_card import GpuEngine, _Waiting
from hushcall.engines.local import LocalEngine
from hushcall.errors import HushcallError, InvalidArchive, InvalidParameter
from hushcall.gpu.spectrum import Shape
from hushcall.lab.data import archive_synthesis
from hushcall.learn import walsh
from hushcall.learn.subspace import SparseTally, SubspaceLearner
from hushcall.learn.whole_number import WholeNumberLearner
from hushcall.learn.window import Past
from hushcall.profiles import PROFILES
from hushcall.report.subspace import Subspace, WholeNumber

SUFFIXES = range(2_000_000, 10_000_000)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Address, list[str], bytes]:
    """A small archive, its planted numbers, and what the plainest engine learns from it."""
    folder = tmp_path_factory.mktemp("world")
    _, planted = archive_synthesis.invent(str(folder), 6000, PROFILES["sensitive"], 3, seed=4, areas=3, workers=0)
    address = Address(str(folder))
    return address, planted, learning.learn(address, address.round(1), LocalEngine(0)).to_bytes()


class CardOfNumpy:
    """What ``gpu.spectrum.Spectrum`` does, by the CPU's kernels."""

    def __init__(self, bits: int) -> None:
        self.bits, self.cells = bits, np.empty(1 << bits, np.int32)

    def clear(self) -> None:
        self.cells[:] = 0

    def spread(self, rows: Any, values: Any, first: int = 0, weight: int = 1) -> None:
        scale = rows.shape[1] + weight.bit_length() - 1
        mine = self.cells[first : first + (1 << self._item_bits(rows))]
        walsh.accumulate(mine, rows.astype(np.uint32), values, scale)

    def _item_bits(self, rows: Any) -> int:
        return 26 if int(rows.max()) >> 24 else 24

    def transform(self, passes: tuple[Shape, ...]) -> None:
        for block in self.cells.reshape(-1, 1 << sum(shape.levels for shape in passes)):
            walsh.transform(block)

    def at_least(self, least: NDArray[np.int64], start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        size = 1 << (self.bits - (len(least) - 1).bit_length())
        found = [
            place * size + walsh.at_least(self.cells[place * size : (place + 1) * size], int(limit), start, stop)
            for place, limit in enumerate(least)
        ]
        places = np.concatenate(found)
        return places, self.cells[places].astype(np.int64)


def test_planted_numbers_are_found_and_nothing_else(world: tuple[Address, list[str], bytes]) -> None:
    address, planted, wanted = world
    learnt = learning.learn(address, address.round(1), LocalEngine(0))
    assert sorted(row["number"] for row in learnt.listed) == planted
    assert learnt.reports == 6000
    assert learnt.to_bytes() == wanted


@pytest.mark.slow
def test_two_processes_one_of_them_killed_learn_the_same(
    world: tuple[Address, list[str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, _, wanted = world
    engine = LocalEngine(2)
    seen = []

    def kill_one(done: int, total: int) -> None:
        seen.append((done, total))
        if done == 1 and engine._pool is not None:
            os.kill(next(iter(engine._pool._processes)), signal.SIGKILL)

    assert learning.learn(address, address.round(1), engine, kill_one).to_bytes() == wanted
    assert seen == [(1, 3), (2, 3), (3, 3)]
    engine.close()


@pytest.mark.slow
def test_a_dask_cluster_one_worker_killed_learns_the_same(world: tuple[Address, list[str], bytes]) -> None:
    address, _, wanted = world
    engine = DaskEngine(workers=2)

    def kill_one(done: int, total: int) -> None:
        if done == 1:
            os.kill(next(iter(engine._cluster.workers.values())).pid, signal.SIGKILL)

    try:
        assert engine.dashboard.startswith("http://127.0.0.1:")
        assert learning.learn(address, address.round(1), engine, kill_one).to_bytes() == wanted
    finally:
        engine.close()


@pytest.mark.parametrize("blocks", [1, 2, 512])
def test_a_cards_candidates_judged_by_the_cpu_give_the_same(
    world: tuple[Address, list[str], bytes], blocks: int
) -> None:
    address, _, wanted = world
    engine = GpuEngine(CardOfNumpy, blocks)
    assert learning.learn(address, address.round(1), engine).to_bytes() == wanted
    engine.close()


WHOLE = replace(PROFILES["sensitive-whole"], tau=5)


def whole_numbers() -> list[InMemory]:
    learner = WholeNumberLearner(WholeNumber(6.0, 7, item_bits=26), SUFFIXES, 3)
    items = [2 << 24 | 5_550_143] * 150 + [place << 24 | 4_000_000 for place in range(3)] * 3
    items += [random.Random(1).randrange(3) << 24 | suffix for suffix in random.Random(2).sample(SUFFIXES, 300)]
    tally = learner.tally(reports_of(learner, items, b"whole"))
    return [InMemory((1, 0, part), [Past(0, learner, tally)], WHOLE, 3) for part in range(3)]


def hitters(findings: Iterator[Findings]) -> list[Any]:
    return sorted(hitter for one in findings for hitter in one.hitters)


def test_whole_numbers_fill_an_array_by_themselves() -> None:
    evidence = whole_numbers()
    wanted = hitters(map(find, evidence))
    assert [hitter.item for hitter in wanted] == [2 << 24 | 5_550_143]
    assert hitters(GpuEngine(CardOfNumpy, 4).find(evidence)) == wanted


@pytest.mark.parametrize("parts", [1, 2, 16])
def test_in_however_many_parts_whole_numbers_are_decoded_the_same_is_found(parts: int) -> None:
    (whole, *_) = whole_numbers()
    found = [find(replace(whole, key=(1, 0, part), parts=parts)) for part in range(parts)]
    assert [hitter.item for hitter in hitters(iter(found))] == [2 << 24 | 5_550_143]


def test_a_bucket_has_as_many_parts_as_are_worked_on_at_a_time(tmp_path: Path) -> None:
    archive_synthesis.invent(str(tmp_path), 3000, PROFILES["sensitive-whole"], 0, workers=0)
    address = Address(str(tmp_path))
    for width, parts in ((1, 1), (2, 2), (99, PROFILES["sensitive-whole"].scheme.parts)):
        assert [one.key[2] for one in evidence_of(address, address.round(1), (), width)] == list(range(parts))
    assert (LocalEngine(0).width, LocalEngine(3).width, GpuEngine(CardOfNumpy).width) == (1, 3, 1)


def test_a_card_that_errs_lists_nothing_of_its_own(world: tuple[Address, list[str], bytes]) -> None:
    class Liar(CardOfNumpy):
        def at_least(self, *args: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            places, _ = super().at_least(*args)
            lies = np.unique(np.concatenate([places, np.arange(3_000_000, 3_000_050)]))
            return lies, self.cells[lies].astype(np.int64)

    address, _, wanted = world
    assert learning.learn(address, address.round(1), GpuEngine(Liar)).to_bytes() == wanted


class NoCard(CardOfNumpy):
    """May be made and not used."""

    def clear(self) -> None:
        raise AssertionError


def test_sums_that_would_overflow_and_dense_tallies_stay_on_the_cpu() -> None:
    learner = SubspaceLearner(Subspace(4.0, 5), SUFFIXES)
    rows, values = np.zeros((1, 5), np.uint64), np.zeros(1, np.uint32)
    large = SparseTally(learner.made_by, np.broadcast_to(rows, (1 << 26, 5)), np.broadcast_to(values, 1 << 26))
    for tally in (large, learner.dense(SparseTally(learner.made_by, rows, values))):
        waiting = _Waiting(InMemory((1, 202, 0), [], WHOLE, 3), [], [Past(0, learner, tally)], [])
        assert not waiting.fits
    assert _Waiting(
        InMemory((1, 202, 0), [], WHOLE, 3), [], [Past(0, learner, replace(large, rows=rows, values=values))], []
    ).fits
    held = InMemory(
        (1, 202, 0), [Past(0, learner, learner.dense(SparseTally(learner.made_by, rows, values)))], PROFILES["balanced"]
    )
    assert hitters(GpuEngine(NoCard).find([held])) == hitters(iter([find(held)]))


def test_fewer_reports_than_the_manifest_says_are_an_error(world: tuple[Address, list[str], bytes]) -> None:
    address, _, _ = world
    one = next(evidence_of(address, address.round(1)))
    object.__setattr__(one.newest.bucket, "reports", one.newest.bucket.reports + 1)
    with pytest.raises(InvalidArchive):
        find(one)


def test_tallies_merge_in_order_whatever_their_number() -> None:
    class Text(str):
        __slots__ = ()

        def merge(self, other: str) -> "Text":
            return Text(self + other)

    for count in range(12):
        letters = [Text(chr(97 + place)) for place in range(count)]
        assert merged(iter(letters), Text("")) == "".join(letters)


def test_an_engine_that_is_none_and_a_card_that_is_not_there_are_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter):
        learning.make_engine("abacus")
    with pytest.raises(InvalidParameter):
        learning.make_engine("local", scheduler="tcp://127.0.0.1:1")
    with pytest.raises(HushcallError, match=r"hushcall\[gpu\]|no card answers"):
        learning.make_engine("gpu")
