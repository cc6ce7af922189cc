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
from tests.decoding.card_of_numpy import CardOfNumpy
from tests.decoding.in_memory import task_of
from tests.mechanisms.cases import reports_of

from hushcall.decoding.archive import learn as archives
from hushcall.decoding.archive.learn import tasks_of
from hushcall.decoding.archive.manifest import Address
from hushcall.decoding.backends import DaskBackend, ProcessBackend, make_backend
from hushcall.decoding.gpu_backend import GpuBackend, _Waiting
from hushcall.decoding.task import DecodeTask, Findings, RoundTally, merged
from hushcall.decoding.window import decode
from hushcall.errors import HushcallError, InvalidArchive, InvalidParameter
from hushcall.mechanisms.profiles import PROFILES
from hushcall.mechanisms.subspace.client import Subspace, WholeNumber
from hushcall.mechanisms.subspace.server import SubspaceAggregator
from hushcall.mechanisms.tallies import SparseTally
from hushcall_lab.data import archive_synthesis

SUFFIXES = range(2_000_000, 10_000_000)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Address, list[str], bytes]:
    """A small archive, its planted numbers, and what the plainest engine learns from it."""
    folder = tmp_path_factory.mktemp("world")
    _, planted = archive_synthesis.invent(str(folder), 6000, PROFILES["sensitive"], 3, seed=4, areas=3, workers=0)
    address = Address(str(folder))
    return address, planted, archives.learn(address, address.round(1), ProcessBackend(0)).to_bytes()


def test_planted_numbers_are_found_and_nothing_else(world: tuple[Address, list[str], bytes]) -> None:
    address, planted, wanted = world
    learnt = archives.learn(address, address.round(1), ProcessBackend(0))
    assert sorted(row["number"] for row in learnt.listed) == planted
    assert learnt.reports == 6000
    assert learnt.to_bytes() == wanted


@pytest.mark.slow
def test_two_processes_one_of_them_killed_learn_the_same(
    world: tuple[Address, list[str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, _, wanted = world
    engine = ProcessBackend(2)
    seen = []

    def kill_one(done: int, total: int) -> None:
        seen.append((done, total))
        if done == 1 and engine._pool is not None:
            os.kill(next(iter(engine._pool._processes)), signal.SIGKILL)

    assert archives.learn(address, address.round(1), engine, kill_one).to_bytes() == wanted
    assert seen == [(1, 3), (2, 3), (3, 3)]
    engine.close()


@pytest.mark.slow
def test_a_dask_cluster_one_worker_killed_learns_the_same(world: tuple[Address, list[str], bytes]) -> None:
    address, _, wanted = world
    engine = DaskBackend(workers=2)

    def kill_one(done: int, total: int) -> None:
        if done == 1:
            os.kill(next(iter(engine._cluster.workers.values())).pid, signal.SIGKILL)

    try:
        assert engine.dashboard.startswith("http://127.0.0.1:")
        assert archives.learn(address, address.round(1), engine, kill_one).to_bytes() == wanted
    finally:
        engine.close()


@pytest.mark.parametrize("blocks", [1, 2, 512])
def test_a_cards_candidates_judged_by_the_cpu_give_the_same(
    world: tuple[Address, list[str], bytes], blocks: int
) -> None:
    address, _, wanted = world
    engine = GpuBackend(CardOfNumpy, blocks)
    assert archives.learn(address, address.round(1), engine).to_bytes() == wanted
    engine.close()


WHOLE = replace(PROFILES["sensitive-whole"], tau=5)


def whole_numbers() -> list[DecodeTask]:
    aggregator = SubspaceAggregator(WholeNumber(6.0, 7, item_bits=26), SUFFIXES, areas=3)
    items = [2 << 24 | 5_550_143] * 150 + [place << 24 | 4_000_000 for place in range(3)] * 3
    items += [random.Random(1).randrange(3) << 24 | suffix for suffix in random.Random(2).sample(SUFFIXES, 300)]
    tally = aggregator.tally(reports_of(aggregator, items, b"whole"))
    return [task_of((1, 0, part), [RoundTally(0, aggregator, tally)], WHOLE, 3) for part in range(3)]


def hitters(findings: Iterator[Findings]) -> list[Any]:
    return sorted(hitter for one in findings for hitter in one.hitters)


def test_whole_numbers_fill_an_array_by_themselves() -> None:
    tasks = whole_numbers()
    wanted = hitters(map(decode, tasks))
    assert [hitter.item for hitter in wanted] == [2 << 24 | 5_550_143]
    assert hitters(GpuBackend(CardOfNumpy, 4).decode(tasks)) == wanted


@pytest.mark.parametrize("parts", [(0, 1, 2), (1,), (2, 0)])
def test_a_card_gives_each_part_what_a_processor_gives_it(parts: tuple[int, ...]) -> None:
    """Other machines, without a card, may have the other parts of a bucket."""
    tasks = [whole_numbers()[part] for part in parts]
    assert list(GpuBackend(CardOfNumpy).decode(tasks)) == [decode(task) for task in tasks]


@pytest.mark.parametrize("parts", [1, 2, 16])
def test_in_however_many_parts_whole_numbers_are_decoded_the_same_is_found(parts: int) -> None:
    (whole, *_) = whole_numbers()
    found = [decode(replace(whole, part=part, parts=parts)) for part in range(parts)]
    assert [hitter.item for hitter in hitters(iter(found))] == [2 << 24 | 5_550_143]


def test_a_bucket_has_as_many_parts_as_are_worked_on_at_a_time(tmp_path: Path) -> None:
    archive_synthesis.invent(str(tmp_path), 3000, PROFILES["sensitive-whole"], 0, workers=0)
    address = Address(str(tmp_path))
    for width, parts in ((1, 1), (2, 2), (99, PROFILES["sensitive-whole"].spec.parts)):
        assert [one.key[2] for one in tasks_of(address, address.round(1), (), width)] == list(range(parts))
    assert (ProcessBackend(0).width, ProcessBackend(3).width, GpuBackend(CardOfNumpy).width) == (1, 3, 1)


def test_a_card_that_errs_lists_nothing_of_its_own(world: tuple[Address, list[str], bytes]) -> None:
    class Liar(CardOfNumpy):
        def at_least(self, *args: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            places, _ = super().at_least(*args)
            lies = np.unique(np.concatenate([places, np.arange(3_000_000, 3_000_050)]))
            return lies, self.cells[lies].astype(np.int64)

    address, _, wanted = world
    assert archives.learn(address, address.round(1), GpuBackend(Liar)).to_bytes() == wanted


class NoCard(CardOfNumpy):
    """May be made and not used."""

    def clear(self) -> None:
        raise AssertionError


def test_sums_that_would_overflow_and_dense_tallies_stay_on_the_cpu() -> None:
    aggregator = SubspaceAggregator(Subspace(4.0, 5), SUFFIXES)
    rows, values = np.zeros((1, 5), np.uint64), np.zeros(1, np.uint32)
    large = SparseTally(aggregator.made_by, np.broadcast_to(rows, (1 << 26, 5)), np.broadcast_to(values, 1 << 26))
    for tally in (large, aggregator.dense(SparseTally(aggregator.made_by, rows, values))):
        assert not _Waiting(aggregator, [], [RoundTally(0, aggregator, tally)], []).fits
    assert _Waiting(aggregator, [], [RoundTally(0, aggregator, replace(large, rows=rows, values=values))], []).fits
    dense = aggregator.dense(SparseTally(aggregator.made_by, rows, values))
    task = task_of((1, 202, 0), [RoundTally(0, aggregator, dense)], PROFILES["balanced"])
    assert hitters(GpuBackend(NoCard).decode([task])) == hitters(iter([decode(task)]))


def test_fewer_reports_than_the_manifest_says_are_an_error(world: tuple[Address, list[str], bytes]) -> None:
    address, _, _ = world
    task = next(tasks_of(address, address.round(1)))
    shard: Any = task.rounds[0][1]
    with pytest.raises(InvalidArchive):
        decode(replace(task, rounds=((task.bucket, replace(shard, reports=shard.reports + 1)),)))


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
        make_backend("abacus")
    with pytest.raises(InvalidParameter):
        make_backend("local", scheduler="tcp://127.0.0.1:1")
    with pytest.raises(HushcallError, match=r"hushcall\[gpu\]|no card answers"):
        make_backend("gpu")
