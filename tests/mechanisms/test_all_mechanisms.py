"""One suite over all mechanisms: privacy, unbiasedness, merge algebra, wire, finding what is there and nothing else."""

import json
import math
import random
from functools import reduce
from typing import Any

import numpy as np
import pytest
from tests.mechanisms.cases import CASES, Case, reports_of

from hushcall.errors import InvalidParameter, InvalidReport, InvalidTally
from hushcall.mechanisms import parameters
from hushcall.mechanisms.subspace.client import Subspace
from hushcall.mechanisms.succinct_histogram.client import SuccinctHistogram
from hushcall.protocol.randomness import seeded
from hushcall_lab.audit.enumeration import examine

ALL = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def held(case: Case, heavy: int, users: int, seed: int) -> tuple[int, list[int]]:
    """(a number, what phones hold: ``heavy`` of them that number, the others each their own)."""
    world = random.Random(seed)
    number, *others = world.sample(case.items, users - heavy + 1)
    items = [number] * heavy + others
    world.shuffle(items)
    return number, items


LONG = {"sh-tuned", "sh-extended, list"}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] * (case.name in LONG), id=case.name) for case in CASES]
)
def test_a_report_costs_what_it_says_whatever_seed_a_server_picks(case: Case) -> None:
    """``examine`` tries zeros, ones and random public seeds: the phone need not trust the server with them.

    RAPPOR's 128 bits take long; the audit's grid has it with 16.
    """
    mechanism = case.make(bytes(32)).mechanism
    if case.name == "sh-original":
        pytest.skip("65 536 rows of the oracle take minutes; the audit's grid has it with 16")
    finding = examine(mechanism, epsilon=float(mechanism.cost))
    assert finding.ok, finding
    assert finding.exact == pytest.approx(finding.claimed, rel=1e-6)


@ALL
def test_reports_survive_the_wire_and_parsers_are_strict(case: Case) -> None:
    aggregator = case.make(bytes(32))
    mechanism, rand = aggregator.mechanism, seeded(b"wire")
    report = mechanism.privatise(case.items[7], bytes(32), rand)
    mechanism.parse(report)
    for bad in (b"", report[:-1], report + b"\0", bytes([9]) + report[1:], report[:1] + bytes([99]) + report[2:]):
        with pytest.raises(InvalidReport):
            mechanism.parse(bad)
        with pytest.raises(InvalidReport):
            aggregator.tally([(bytes(32), bad)])


@ALL
def test_any_order_and_any_sharding_give_identical_bytes(case: Case) -> None:
    aggregator = case.make(bytes(32))
    _, items = held(case, 10, 40, seed=3)
    reports = reports_of(aggregator, items, b"merge")
    whole = aggregator.tally(reports)
    world = random.Random(4)
    for pieces in (1, 2, 5):
        shuffled = world.sample(reports, len(reports))
        shards = [aggregator.tally(shuffled[start::pieces]) for start in range(pieces)]
        world.shuffle(shards)
        merged = reduce(lambda left, right: left.merge(right), shards)
        assert merged.to_bytes() == whole.to_bytes()
        assert merged.count == len(reports)
    empty = aggregator.tally([])
    assert empty.count == 0
    assert empty.merge(whole).to_bytes() == whole.merge(empty).to_bytes() == whole.to_bytes()
    back = aggregator.from_bytes(whole.to_bytes())
    assert back.to_bytes() == whole.to_bytes()
    assert np.array_equal(aggregator.estimate(back, items[:3]), aggregator.estimate(whole, items[:3]))


@ALL
def test_tallies_of_other_parameters_do_not_merge(case: Case) -> None:
    aggregator = case.make(bytes(32))
    other = CASES[(CASES.index(case) + 1) % len(CASES)].make(bytes(31) + b"\1")
    if type(aggregator.tally([])) is type(other.tally([])):
        with pytest.raises(InvalidTally):
            aggregator.tally([]).merge(other.tally([]))
    with pytest.raises(InvalidTally):
        other.from_bytes(aggregator.tally([]).to_bytes())


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.slow] * (not case.name.startswith("subspace")), id=case.name)
        for case in CASES
    ],
)
def test_estimates_are_unbiased(case: Case) -> None:
    """30 of 60 phones hold a number: the mean of 300 estimates, held and absent, within 4 standard errors.

    False alarms: 2 · 6·10⁻⁵ per mechanism. The round's seed is fresh each time, as it is in a deployment.
    """
    present, absent = [], []
    for run in range(300):
        aggregator = case.make(seeded(b"seed %d" % run)(32))
        number, items = held(case, 30, 60, seed=run)
        missing = next(x for x in case.items if x not in items)
        tally = aggregator.tally(reports_of(aggregator, items, b"bias %d" % run))
        first, second = aggregator.estimate(tally, [number, missing])
        present.append(first)
        absent.append(second)
    for estimates, truth in ((present, 30), (absent, 0)):
        error = np.std(estimates, ddof=1) / math.sqrt(len(estimates))
        assert abs(np.mean(estimates) - truth) < 4 * error, (np.mean(estimates), truth, error)


@ALL
def test_a_planted_heavy_hitter_is_found(case: Case) -> None:
    aggregator = case.make(bytes(32))
    number, items = held(case, 350, 600, seed=5)
    found = aggregator.find(aggregator.tally(reports_of(aggregator, items, b"planted")), 143)
    assert [hitter.item for hitter in found] == [number]
    hitter = found[0]
    assert hitter.low <= hitter.estimate <= hitter.high
    # The interval misses one time in twenty by design; twice as wide a one, hardly ever.
    assert 2 * hitter.low - hitter.estimate <= 350 <= 2 * hitter.high - hitter.estimate
    assert hitter.p_value < 1e-6


@ALL
def test_nothing_is_found_where_nothing_is(case: Case) -> None:
    aggregator = case.make(bytes(32))
    _, items = held(case, 1, 600, seed=6)
    assert aggregator.find(aggregator.tally(reports_of(aggregator, items, b"nothing")), 143) == []
    assert aggregator.find(aggregator.tally([]), 143) == []


@pytest.mark.parametrize("value", [1 << 53, -(1 << 53), 1 << 64])
def test_integers_that_not_every_json_reader_keeps_are_written_as_text(value: int) -> None:
    assert parameters._plain(value) == str(value)
    smaller = value - 1 if value > 0 else value + 1
    assert parameters._plain(smaller) == (smaller if abs(value) == 1 << 53 else str(smaller))


def test_equal_parameters_print_alike() -> None:
    whole, real = Subspace(4, 8), Subspace(4.0, 8)
    assert json.dumps(parameters.to_plain(whole)) == json.dumps(parameters.to_plain(real))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        *(({"channels": value}, "K") for value in (0, 12, 1 << 40)),
        *(({"epsilon_olh": value}, "epsilon_olh") for value in (0, -1, math.inf)),
        *(({"epsilon_hh": value}, "epsilon_hh") for value in (0, -1, math.inf)),
        *(({"rounds": value}, "T") for value in (0, 1 << 20)),
    ],
)
def test_a_histogram_that_cannot_be_is_refused_by_name(changes: dict[str, Any], field: str) -> None:
    budget: dict[str, Any] = {"epsilon_hh": 4, "epsilon_olh": 3}
    assert SuccinctHistogram.with_budget("basic", **budget).channels == 8
    with pytest.raises(InvalidParameter) as raised:
        SuccinctHistogram.with_budget("basic", **budget | changes)
    assert raised.value.field == field
