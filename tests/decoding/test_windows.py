"""Windows over archives: what no day shows a week does, on every engine the same, and as a server finds it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.decoding.card_of_numpy import CardOfNumpy
from tests.decoding.in_memory import task_of
from tests.decoding.test_engines import SUFFIXES
from tests.mechanisms.cases import reports_of
from tests.server.serving import Clock, settings_for

from hushcall.decoding.archive import learn as archives
from hushcall.decoding.archive.learn import rounds_in_window, tasks_of
from hushcall.decoding.archive.manifest import Address, ArchivedRound, newest_of, some_of
from hushcall.decoding.backends import DaskBackend, ProcessBackend
from hushcall.decoding.gpu_backend import GpuBackend
from hushcall.decoding.task import RoundTally
from hushcall.decoding.window import decode, find_among, find_in_windows
from hushcall.errors import InvalidArchive, InvalidParameter
from hushcall.mechanisms.profiles import PROFILES, WINDOWS
from hushcall.mechanisms.subspace.client import Subspace
from hushcall.mechanisms.subspace.server import SubspaceAggregator
from hushcall.protocol.randomness import seeded
from hushcall.server.db import schema
from hushcall.server.rounds import archiving
from hushcall.server.service import open_service
from hushcall_lab.data import archive_synthesis

AREAS, ROUNDS = 2, 7


@dataclass(frozen=True)
class Week:
    """Seven small rounds, their planted numbers, and what the plainest engine learns from them."""

    address: Address
    planted: list[str]
    rounds: list[ArchivedRound]
    wanted: archives.Learnt


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Week:
    folder = str(tmp_path_factory.mktemp("week"))
    given = (folder, 1200, replace(PROFILES["sensitive"], warn_level=0.0), 3)
    _, planted = archive_synthesis.invent(*given, seed=6, areas=AREAS, workers=0, rounds=ROUNDS)
    address = Address(folder)
    rounds = address.rounds()
    return Week(address, planted, rounds, archives.learn(address, rounds[-1], ProcessBackend(0), archive=rounds))


def numbers(learnt: archives.Learnt) -> list[str]:
    return sorted(row["number"] for row in learnt.listed)


def test_what_no_day_shows_a_week_does(week: Week) -> None:
    assert week.wanted.rounds == (1, 2, 3, 4, 5, 6, 7)
    assert week.wanted.reports == 1200
    assert numbers(week.wanted) == week.planted
    assert {row["length"] for row in week.wanted.listed} == {2, 4}
    alone = archives.learn(week.address, week.rounds[-1], ProcessBackend(0))
    assert alone.rounds == (7,)
    assert alone.listed == ()


@pytest.mark.parametrize("blocks", [1, 512])
def test_a_cards_proposals_for_every_window_judged_by_the_cpu_give_the_same(week: Week, blocks: int) -> None:
    learnt = archives.learn(week.address, week.rounds[-1], GpuBackend(CardOfNumpy, blocks), archive=week.rounds)
    assert learnt.to_bytes() == week.wanted.to_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "made", [ProcessBackend, DaskBackend, lambda workers: GpuBackend(CardOfNumpy, 2, ProcessBackend(workers))]
)
def test_processes_a_cluster_and_a_card_that_processes_feed_give_the_same(week: Week, made: Any) -> None:
    engine = made(workers=2)
    try:
        learnt = archives.learn(week.address, week.rounds[-1], engine, archive=week.rounds)
    finally:
        engine.close()
    assert learnt == week.wanted


@pytest.mark.parametrize("first", [pytest.param(1, marks=pytest.mark.slow), 6])
def test_a_server_that_imported_the_rounds_finds_the_same(week: Week, tmp_path: Path, first: int) -> None:
    """In every round, over whatever rounds there were by then."""
    service = open_service(settings_for(tmp_path / "data"), seeded(b"windows of archives"), Clock())
    table, lengths = schema.hitters.c, set()
    rounds = some_of(week.rounds, f"{first}-7")
    for found in rounds:
        archiving.import_round(service.store, week.address, found, lambda *_: None)
        service.rounds.learn(found.round)
        rows = service.store.rows(sa.select(schema.hitters).where(table.round == found.round).order_by(table.number))
        learnt = archives.learn(week.address, found, ProcessBackend(0), archive=rounds)
        ours = sorted(learnt.listed, key=lambda row: row["number"])
        assert learnt.rounds == tuple(range(first, found.round + 1))
        assert [(row.number, row.length, row.estimate, row.low, row.high, row.p_value) for row in rows] == [
            tuple(row[name] for name in ("number", "length", "estimate", "low", "high", "p_value")) for row in ours
        ]
        lengths |= {row.length for row in rows}
    service.close()
    assert len(rows) == (3 if first == 1 else 1)
    assert lengths == ({2, 4} if first == 1 else {2})


def test_rounds_of_other_odds_share_a_cards_array() -> None:
    """b differs from round to round: each report weighs so much that a cell is 2^s·C(x)."""
    spam, past = SUFFIXES[5], []
    for age, bits in enumerate((5, 6, 4, 6, 5)):
        aggregator = SubspaceAggregator(Subspace(6.0, bits), SUFFIXES, PROFILES["sensitive"].share, AREAS, 2)
        items = [spam] * 12 + [SUFFIXES[1000 * place + age] for place in range(80)]
        past.append(RoundTally(age, aggregator, aggregator.tally(reports_of(aggregator, items, b"odds %d" % age))))
    wanted = find_in_windows(past, WINDOWS, 5.0)
    assert [hitter.item for hitter in wanted] == [spam]
    assert wanted[0].length > 1
    assert find_among(past, WINDOWS, 5.0, [SUFFIXES[3], spam, SUFFIXES[7]]) == wanted
    task = task_of((9, 202, 0), past, replace(PROFILES["sensitive"], tau=5))
    expected = [tuple(replace(hitter, estimate=hitter.clamped) for hitter in wanted)]
    assert [one.hitters for one in GpuBackend(CardOfNumpy).decode([task])] == [decode(task).hitters] == expected


def test_which_rounds_are_in_the_window(week: Week) -> None:
    last = week.rounds[-1]
    assert [one.round for one in rounds_in_window(last, week.rounds)] == [7, 6, 5, 4, 3, 2, 1]
    assert [one.round for one in rounds_in_window(week.rounds[2], week.rounds)] == [3, 2, 1]  # none after it
    far = replace(last, round=9)
    assert [one.round for one in rounds_in_window(far, week.rounds)] == [9, 7, 6, 5, 4, 3]
    other = [replace(one, plan="another") for one in week.rounds[:3]]
    other += [replace(one, profile=PROFILES["sensitive-whole"].to_plain()) for one in week.rounds[3:5]]
    assert [one.round for one in rounds_in_window(last, [*other, week.rounds[5]])] == [7, 6]


def test_a_bucket_is_decided_if_the_newest_round_ran_it(week: Week) -> None:
    first, second = (bucket.bucket for bucket in week.rounds[0].buckets)
    last = replace(week.rounds[-1], buckets=week.rounds[-1].buckets[:1])
    gap = replace(week.rounds[2], buckets=week.rounds[2].buckets[1:])
    (one,) = tasks_of(week.address, last, [*week.rounds[:2], gap, *week.rounds[3:6]])
    assert one.key == (7, first, 0)
    assert [bucket.round for bucket, _ in one.rounds] == [7, 6, 5, 4, 2, 1]
    assert second not in {bucket.bucket for bucket, _ in one.rounds}
    assert [entry.age_rounds for entry in one.tallies()] == [0, 1, 2, 3, 5, 6]


def test_rounds_are_named_by_numbers_and_ranges(week: Week) -> None:
    def named(text: str) -> list[int]:
        return [one.round for one in some_of(week.rounds, text)]

    assert named("2-4") == [2, 3, 4]
    assert named("1, 3-4,6") == [1, 3, 4, 6]
    assert named("5-99") == [5, 6, 7]
    assert newest_of(some_of(week.rounds, "2-4")).round == 4
    for text in ("", "a", "3-", "-3", "1;2"):
        with pytest.raises(InvalidParameter, match="numbers and ranges"):
            named(text)
    for text in ("9", "1,9", "8-9"):
        with pytest.raises(InvalidArchive, match="be among 1, 2, 3, 4, 5, 6, 7"):
            named(text)


def test_the_first_invented_round_does_not_depend_on_how_many_follow(tmp_path: Path) -> None:
    profile = replace(PROFILES["sensitive"], windows=(1,))
    made = [
        archive_synthesis.invent(str(tmp_path / str(rounds)), 600, profile, 1, areas=1, workers=0, rounds=rounds)
        for rounds in (1, 2)
    ]
    first, again = Address(str(tmp_path / "1")).round(1), Address(str(tmp_path / "2")).round(1)
    assert first == again
    assert made[0][1] == made[1][1]
    assert made[1][0].seed != first.seed
