"""Months as the service decides them: hints, two tiers, new evidence, and the prices of the defaults."""

import random
from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from scipy import stats

from hushcall.decoding.hints import Hints
from hushcall.decoding.task import RoundTally
from hushcall.decoding.window import find_in_windows
from hushcall.mechanisms.bucket_setup import open_bucket
from hushcall.mechanisms.profiles import DEFAULT, PROFILES
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import seeded
from hushcall.protocol.seeds import SEED_BYTES
from hushcall_lab.data.datasets import Calls
from hushcall_lab.study import real, study
from hushcall_lab.study.bucket_model import Bucket, detect_windows
from hushcall_lab.study.months import Setting, run_month

SPAMMER = 5_550_143
DAYS = 12


def month(spam: list[int], others: int = 150, seed: int = 1) -> Calls:
    """One number that calls so many phones on each day, and others that call once."""
    world, rows = random.Random(seed), []
    for day, calls in enumerate(spam):
        rows += [(day, 202, SPAMMER)] * calls
        rows += [(day, 202, world.randrange(6_000_000, 10_000_000)) for _ in range(others)]
    days, areas, suffixes = (list(column) for column in zip(*rows, strict=True))
    return Calls.of(date(2020, 2, 17), days, areas, suffixes, [0] * len(days))


def shipped(**changes: object) -> Setting:
    return real.shipped(DEFAULT, **changes)


def test_hints_find_what_the_reports_alone_do_not_show() -> None:
    calls = month([0, *[10] * (DAYS - 1)])
    hinted, alone = (
        sum(run_month(calls, shipped(hints=share), seed)["listed"] for seed in range(3)) for share in (1.0, 0.0)
    )
    assert hinted > alone + DAYS / 2


def test_one_day_warns_and_never_blocks() -> None:
    """150 reports on one day, and none after."""
    calls = month([0, 0, 150, *[0] * (DAYS - 3)])
    result = run_month(calls, shipped(), 1)
    assert result["listed"] >= 1
    assert result["blocked"] == [0.0] * len(result["blocked"])
    assert run_month(calls, shipped(block_rounds=1), 1)["listed"] >= 1


def test_new_evidence_blocks() -> None:
    calls = month([60] * DAYS)
    result = run_month(calls, shipped(), 1)
    assert result["blocking"][-1] == result["blocked"][-1] == pytest.approx(60 / 210)
    assert result["never_reported_blocked"] == 0


def test_one_tier_blocks_at_once_whatever_it_lists() -> None:
    result = run_month(month([60] * DAYS), Setting("subspace", 4.0, 10, level=0.25, scan=True), 1)
    assert result["blocked"] == result["blocking"]


def test_numbers_without_a_holder_are_warned_of_within_the_level() -> None:
    """Months of dummies in one bucket, at a level of a half a day: some of 480 days list a number, at most half do."""
    profile = replace(shipped().profile(), level=0.5, warn_level=0.5, tolerance=0)
    generator = np.random.default_rng(1)
    listed = [day for _ in range(40) for day in detect_windows(month([0] * DAYS), profile, 150, DAYS, generator)]
    wrong = sum(SPAMMER not in day and bool(day) for day in listed)
    assert 5 < wrong < 240 + 4 * 120**0.5


@pytest.mark.parametrize("months", [15, pytest.param(100, marks=pytest.mark.slow)])
def test_a_drawn_month_finds_as_often_as_phones_and_the_decoder(months: int) -> None:
    """A hinted number near the edge of detection, in windows of one and two days: Fisher's exact test, p > 10⁻³."""
    profile = replace(shipped().profile(), windows=(1, 2))
    world, here = random.Random(2), Bucket(np.array([SPAMMER]), np.array([12]), 60)
    found = {"drawn": 0, "decoded": 0}
    for run in range(months):
        generator = np.random.default_rng(run)
        calls = month([12, 12], 60, run)
        found["drawn"] += SPAMMER in {n % 10**7 for n in detect_windows(calls, profile, 72, 2, generator, 1.0)[1]}
        rand, rounds = seeded(generator.bytes(32)), []
        for age in range(2):
            aggregator = open_bucket(profile, NANP, here.users, generator.bytes(SEED_BYTES))
            assert aggregator is not None
            items = [SPAMMER] * 12 + [world.randrange(6_000_000, 10_000_000) for _ in range(60)]
            seeds = [rand(SEED_BYTES) for _ in items]
            reports = [
                (seed, aggregator.mechanism.privatise(item, seed, rand))
                for item, seed in zip(items, seeds, strict=True)
            ]
            rounds.append(RoundTally(age, aggregator, aggregator.tally(reports)))
        hints = Hints(frozenset({SPAMMER, *range(6_000_000, 6_000_060)}))
        hitters = find_in_windows(rounds, profile.windows, profile.tau, hints=hints)
        found["decoded"] += SPAMMER in {hitter.item for hitter in hitters}
    table = [[count, months - count] for count in found.values()]
    assert stats.fisher_exact(np.array(table)).pvalue > 1e-3, found
    assert 0 < found["drawn"] < months


def test_every_choice_is_one_change_and_has_its_rows() -> None:
    settings = real.EXPERIMENTS["defaults"].settings(True)
    assert len(set(settings)) == len(settings) == 2 + len(real.CHOICES)
    calls = month([30] * 9)
    rows = real.EXPERIMENTS["defaults"].rows({s: [run_month(calls, replace(s, days=9), 1)] for s in settings})
    assert {row["choice"] for row in rows} == set(real.CHOICES)
    assert [row["verdict"] for row in rows[:2]] == [real.WARNED, real.BLOCKED]
    assert all(row["cbr"] <= 30 / 180 + 1e-9 for row in rows)


def test_the_shipped_setting_is_the_profile() -> None:
    for profile in PROFILES.values():
        if profile.spec.pools and profile.warn_level and not profile.hundreds:  # those are in the study of blocks
            setting = real.shipped(profile).profile()
            assert replace(setting, name=profile.name, reason=profile.reason, anonymous=profile.anonymous) == profile


def test_another_month_is_measured_and_not_judged() -> None:
    options = study.Options("x/mine.csv", quick=True, workers=1)
    document = study.run("real", month([40] * 9), options, lambda *_: None)
    assert document["statements"] == []
    row = next(
        row for row in document["rows"] if row["hints"] and row["verdict"] == real.WARNED and row["epsilon"] == 8
    )
    assert row["relative_cbr"] > 0
    assert row["cbr"] == pytest.approx(40 / 190)
