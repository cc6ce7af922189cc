"""The invented month has what the paper tells about its own, for the usual seed and for others."""

import datetime
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hushcall.errors import InvalidParameter
from hushcall_lab.data.datasets import Calls
from hushcall_lab.data.synthesis import Settings, synthesise
from hushcall_lab.study import describe

SEEDS = (2016, 1, 2, 3)


@pytest.fixture(scope="module", params=SEEDS)
def month(request: pytest.FixtureRequest) -> Calls:
    return synthesise(request.param)


@pytest.fixture(scope="module")
def facts(month: Calls) -> dict[str, Any]:
    return describe.summary(month)


def test_size_is_the_papers(month: Calls, facts: dict[str, Any]) -> None:
    assert (facts["first"], facts["last"], month.days) == ("2016-02-17", "2016-03-16", 29)
    assert len(month) + sum(count for _, count in month.problems) == 471_460
    assert len(month) / 471_460 == pytest.approx(0.95, abs=0.001)
    assert month.per_day.max() == 23_188
    assert (month.per_day == 23_188).sum() == 1


def test_weekends_are_low(month: Calls, facts: dict[str, Any]) -> None:
    assert facts["mean_on_weekends"] < 0.35 * facts["mean_on_weekdays"]
    weekend = [month.date(day).weekday() >= 5 for day in range(29)]
    assert month.per_day[weekend].max() < month.per_day[np.logical_not(weekend)].min()


def test_heavy_numbers_are_as_many_and_as_heavy(facts: dict[str, Any]) -> None:
    assert 129 <= facts["pairs_above"]["143"] <= 131  # a chance caller may add one to a campaign's count
    assert 1.2 <= facts["tail_exponent_above_100"] <= 1.6
    assert 500 <= facts["most_calls_of_a_number_in_a_day"] <= 2_020
    assert facts["pairs_with_one_call"] > 0.75


def test_the_usual_seed_is_within_the_design() -> None:
    facts = describe.summary(synthesise())
    assert facts["pairs_above"]["143"] == 130
    assert 1.3 <= facts["tail_exponent_above_100"] <= 1.5


def test_heavy_numbers_are_in_few_area_codes(month: Calls, facts: dict[str, Any]) -> None:
    assert 10 <= facts["buckets_above_143_a_day"]["most"] <= 60
    assert facts["area_codes_with_a_number_above_143"] <= 60
    assert facts["area_codes"] > 300
    areas = np.bincount(month.area, minlength=1000)
    assert {800, 202} <= set(np.argsort(-areas)[:10].tolist())


def test_campaigns_last_for_days_and_new_ones_come(month: Calls, facts: dict[str, Any]) -> None:
    assert facts["median_blocked_by_past_week"]["143"] > 0.05
    assert facts["median_blocked_by_past_week"]["10"] > 0.2
    days: dict[int, list[int]] = {}
    for day in range(month.days):
        areas, suffixes, counts = month.counts(day)
        for area, suffix in zip(areas[counts > 100], suffixes[counts > 100], strict=True):
            days.setdefault(int(area) * 10**7 + int(suffix), []).append(day)
    assert np.mean([len(each) > 1 for each in days.values()]) > 0.4
    assert len({each[0] for each in days.values()}) > 10


def test_everything_follows_from_the_seed() -> None:
    assert np.array_equal(synthesise(7).numbers, synthesise(7).numbers)
    assert not np.array_equal(synthesise(7).numbers, synthesise(8).numbers)


def test_settings_can_be_changed() -> None:
    small = replace(Settings(), days=10, complaints=60_000, busiest=9_000, heavy_pairs=12, campaigns=200, valid=0.9)
    calls = synthesise(1, replace(small, first=datetime.date(2020, 6, 1)))
    assert (calls.days, len(calls), calls.per_day.max()) == (10, 54_000, 9_000)
    assert describe.summary(calls)["pairs_above"]["143"] == 12


def test_settings_that_contradict_each_other() -> None:
    with pytest.raises(InvalidParameter, match="leave room"):
        synthesise(1, replace(Settings(), heavy_pairs=3_000))
    with pytest.raises(InvalidParameter, match="enough for 130"):
        synthesise(1, replace(Settings(), campaigns=5))
    with pytest.raises(InvalidParameter, match="seed"):
        synthesise(-1)


def test_a_short_table_has_a_summary_too() -> None:
    calls = Calls.of(datetime.date(2020, 2, 17), [0, 0, 3], [202, 202, 800], [5550143] * 3, [0, 0, 0])
    facts = describe.summary(calls)
    assert facts["days_without_calls"] == 2
    assert facts["tail_exponent_above_100"] is None
    assert facts["mean_on_weekends"] is None
    assert facts["median_blocked_by_past_week"]["10"] is None
