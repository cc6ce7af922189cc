"""How much privacy a population buys, and months of scans: expected values agree with plain counting and with draws."""

import random
from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from hushcall.decoding import planning
from hushcall.mechanisms.bucket_setup import open_bucket
from hushcall.mechanisms.decision import POWER
from hushcall.mechanisms.profiles import DEFAULT, WINDOWS
from hushcall.protocol.numbers import NANP
from hushcall_lab.data.datasets import Calls
from hushcall_lab.study import users
from hushcall_lab.study.metrics import blocking_rates
from hushcall_lab.study.months import Setting, run_month

DAYS = 12


def month(spam: int, rest: int = 150, seed: int = 1) -> Calls:
    """One number that calls ``spam`` phones on every day, and others that call once."""
    world, rows = random.Random(seed), []
    for day in range(DAYS):
        rows += [(day, 202, 5_550_143)] * spam
        rows += [(day, 202, world.randrange(2_000_000, 10_000_000)) for _ in range(rest)]
    days, areas, suffixes = (list(column) for column in zip(*rows, strict=True))
    return Calls.of(date(2020, 2, 17), days, areas, suffixes, [0] * len(days))


def test_without_privacy_the_share_is_the_lists() -> None:
    calls = month(30)
    truth = [calls.counts_by_number(day) for day in range(DAYS)]
    listed = [{number for number, count in day.items() if count > users.THETA} for day in truth]
    expected = float(np.mean(blocking_rates(listed, truth)))
    assert users.blocked(users.Month(calls), users.plain, 1, (1,), bucketed=True) == pytest.approx(expected)
    assert expected == pytest.approx(30 / 180)


def test_what_is_expected_is_what_months_of_draws_block() -> None:
    """A spammer that a day finds now and then: the mean of 40 drawn months lies within four of its errors."""
    calls, holders = month(22, 158), 22
    profile = replace(DEFAULT.daily, epsilon=4.0, tau=10, level=0.25, tolerance=0, warn_level=0.0)
    setting = Setting(profile.mechanism, 4.0, tau=10, level=0.25)
    chance = users.private(profile, buckets=1)(180, holders)  # the drawn months have one bucket, and no dummies
    assert 0.02 < chance < 0.5
    drawn = [float(np.mean(run_month(calls, setting, seed)["blocking"])) for seed in range(40)]
    expected = 22 / 180 * (1 - (1 - chance) ** 7)
    assert np.mean(drawn) == pytest.approx(expected, abs=4 * np.std(drawn) / np.sqrt(40) + 0.01)


def test_a_scan_of_a_month_lists_what_no_day_shows_and_nothing_else() -> None:
    calls = month(16, 170)
    daily = Setting("subspace", 4.0, tau=10)
    scanned = run_month(calls, replace(daily, scan=True), 1)
    assert run_month(calls, daily, 1)["listed"] == 0
    assert scanned["listed"] >= DAYS - 8
    assert scanned["never_reported"] == 0
    assert run_month(calls, replace(daily, scan=True, tolerance=60), 1)["listed"] == 0
    assert run_month(calls, replace(daily, scan=True), 1) == scanned


def test_the_table_has_a_row_for_every_crowd_and_says_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "SCALES", (1, 10, 20))
    monkeypatch.setattr(users, "EPSILONS", (4.0, 6.0, 8.0))
    found = users.document(month(20), quick=True)
    assert len(found["rows"]) == 2 * 2 * 2
    assert all(one["agrees"] for one in found["statements"][:2]), found["statements"]
    by_crowd = sorted((row["crowd"], row["central_epsilon"]) for row in found["rows"] if row["epsilon"] == 4.0)
    assert 4.0 == by_crowd[0][1] > by_crowd[-1][1]  # a few phones hide nobody, many do
    assert all(0 <= row["daily"] <= 1 and 0 <= row["windowed"] <= 1 for row in found["rows"])
    ours = {row["scale"]: row for row in found["rows"] if row["mechanism"] == "subspace" and row["epsilon"] == 4.0}
    assert ours[1]["daily"] < ours[20]["daily"]
    assert ours[1]["windowed"] > ours[1]["daily"]


def test_scaling_a_thinned_month_back_overstates() -> None:
    """Numbers that five phones report each: a tenth of the complaints, ten times each, has some of fifty."""
    world = random.Random(1)
    rows = [
        (day, suffix)
        for day in range(DAYS)
        for suffix in range(2_000_000, 2_000_200)
        for _ in range(world.randint(3, 7))
    ]
    days, suffixes = (list(column) for column in zip(*rows, strict=True))
    calls = Calls.of(date(2020, 2, 17), days, [202] * len(rows), suffixes, [0] * len(rows))
    thinned = calls.thinned(10, 1)
    assert len(thinned) == pytest.approx(len(calls) / 10, rel=0.2)
    assert users.blocked(users.Month(calls), users.plain, 1, (1,), bucketed=True) == 0
    assert users.blocked(users.Month(thinned), users.plain, 10, (1,), bucketed=True) > 0.2


@pytest.mark.parametrize("windows", [(1,), WINDOWS])
def test_the_inverse_plan_is_the_inverse(windows: tuple[int, ...]) -> None:
    profile = replace(DEFAULT, windows=windows)
    found = planning.smallest_epsilon(profile, 1000, 0.05)
    assert found is not None
    epsilon, length = found
    assert length == max(windows)

    def chance(budget: float) -> float:
        aggregator = open_bucket(replace(profile, epsilon=budget), NANP, 1000, bytes(32))
        return planning.over(aggregator, length).chance(1000 * length, profile.tau)(50 * length) if aggregator else 0.0

    assert chance(epsilon) >= POWER > chance(round(epsilon - 0.1, 1))
    assert planning.smallest_epsilon(profile, 10, 0.01) is None
