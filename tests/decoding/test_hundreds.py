"""Reports about hundreds: what is found of a rented hundred, of one busy number and of nobody, and what decides it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushcall.decoding.pooled import PooledSupport
from hushcall.decoding.task import DecodeTask
from hushcall.decoding.window import MANY_NUMBERS, decode
from hushcall.errors import InvalidParameter
from hushcall.mechanisms.bucket_setup import aggregator_of, open_bucket
from hushcall.mechanisms.parameters import about_hundreds, from_plain, to_plain
from hushcall.mechanisms.profiles import PROFILES, Profile
from hushcall.mechanisms.registry import MECHANISMS
from hushcall.protocol.items import HUNDRED, SUFFIX
from hushcall.protocol.numbers import NANP, plan_named
from hushcall.protocol.seeds import about_hundred, derive
from hushcall_lab.study import blocks
from hushcall_lab.study.blocks import CASES, NOBODY, ONE_NUMBER, PROFILE, RENTED, play


def days(case: str, count: int, *, numbers_too: bool = False) -> list[blocks.Day]:
    return [play(CASES[case], 7000 + day, numbers_too=numbers_too) for day in range(count)]


@pytest.mark.parametrize("count", [20, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_rented_hundred_is_found(count: int) -> None:
    """With 3 reports about each of 100 numbers among 1,000, half of them asked. At 99 % a day, fewer than 90 % of 20
    days are found with chance 10⁻³, of 1,000 days with less than 10⁻¹⁰⁰; these coins are always the same."""
    assert sum(day.found for day in days(RENTED, count)) >= 0.9 * count


def test_and_no_number_of_it() -> None:
    played = days(RENTED, 8, numbers_too=True)
    assert [day.numbers for day in played] == [0] * 8
    assert all(day.numbers for day in days(ONE_NUMBER, 3, numbers_too=True))


@pytest.mark.parametrize("count", [30, pytest.param(1000, marks=pytest.mark.slow)])
def test_one_busy_number_never_condemns_its_hundred(count: int) -> None:
    """300 reports about it: its upper bound would have to miss half of them, more than six standard deviations."""
    assert not any(day.found for day in days(ONE_NUMBER, count))


@pytest.mark.parametrize("count", [30, pytest.param(2000, marks=pytest.mark.slow)])
def test_ranges_that_nobody_reported_keep_their_level(count: int) -> None:
    """Half of the level is for hundreds: at most 50 of 2,000 days, 34 more with chance 10⁻⁵ if all of it is spent."""
    assert sum(day.other_ranges > 0 for day in days(NOBODY, count)) <= 0.025 * count + 34 * (count > 30)


@given(st.integers(0, 90), st.sampled_from(["nation", "balanced"]))
def test_numbers_and_hundreds_share_the_level(percent: int, name: str) -> None:
    profile = replace(PROFILES[name], hundreds=percent)
    parts = 2 if percent else 1
    assert profile.share * len(profile.windows) * parts == pytest.approx(profile.level)
    assert profile.warn_share * len(profile.windows) * parts == pytest.approx(profile.warn_level)
    assert Profile.from_plain(profile.to_plain()) == profile
    numbers = open_bucket(profile, NANP, 1000, bytes(32), 3)
    assert numbers is not None
    assert numbers.pooling is not None
    hundreds = aggregator_of(profile, NANP, about_hundreds(numbers.mechanism, NANP), 3)
    assert (len(numbers.domain), len(hundreds.domain)) == (8_000_000, 80_000)
    assert hundreds.pooling is not None
    assert hundreds.pooling.rule(0).hypotheses == 3 * 80_000
    assert hundreds.pooling.rule(0).level == numbers.pooling.rule(0).level == profile.warn_share


def test_it_costs_the_same_and_looks_the_same() -> None:
    opened = open_bucket(PROFILE, NANP, 1000, bytes(32), 1)
    assert opened is not None
    numbers = opened.mechanism
    hundreds = about_hundreds(numbers, NANP)
    assert hundreds.cost == numbers.cost
    assert (hundreds.body_bytes, hundreds.rand_size) == (numbers.body_bytes, numbers.rand_size)
    assert from_plain(to_plain(hundreds)) == hundreds
    assert hundreds.kind != numbers.kind
    assert hundreds.name not in list(MECHANISMS), "no round is run with it alone"


def test_what_no_profile_may_say() -> None:
    for changes in (
        {"hundreds": 91},
        {"hundreds": -1},
        {"mechanism": "whole-number"},
        {"mechanism": "subspace-hundreds"},
    ):
        with pytest.raises(InvalidParameter):
            replace(PROFILE, **changes)


@given(st.sampled_from(["NANP", "DE", "FR", "IT", "GB"]), st.integers(0, 2**63))
def test_a_hundred_holds_its_hundred_numbers(region: str, seed: int) -> None:
    plan = plan_named(region)
    number = plan.dummy(lambda size: seed.to_bytes(8, "big") * (size // 8))
    item = HUNDRED.item(number, plan)
    assert item in HUNDRED.domain(plan)
    assert item >> HUNDRED.bits(plan) == 0
    first = HUNDRED.number(item, number.area, plan)
    if first is None:  # no hundred of this length: fewer than three digits behind the area code
        assert len(number.digits) - plan.area_digits < 3
        return
    text = HUNDRED.text(first)
    assert str(number).startswith(text.rstrip("x"))
    assert len(str(number)) == len(text)
    others = [plan.existing(number.area, first.suffix + place) for place in range(100)]
    assert {HUNDRED.item(other, plan) for other in others if other} == {item}
    assert number in others


def test_the_coin_is_fair_and_follows_the_seed() -> None:
    publics = [derive("test", place.to_bytes(4, "big")) for place in range(4000)]
    for percent in (0, 1, 50, 90):
        share = np.mean([about_hundred(public, percent) for public in publics])
        assert abs(share - percent / 100) < 5 * np.sqrt(max(percent * (100 - percent), 1) / 10_000 / 4000) + 1e-9
    assert all(about_hundred(public, 50) <= about_hundred(public, 90) for public in publics)


def test_the_rule_by_plain_loops() -> None:
    """A hundred is listed exactly if its lower bound is above twice every number's upper bound, as shares."""
    for name, case in CASES.items():
        spec = blocks._spec(PROFILE, blocks.PHONES)
        generator = np.random.default_rng([3, len(case), sum(case)])
        reported = np.concatenate([
            np.repeat(np.arange(blocks.START, blocks.START + len(case)), case),
            generator.integers(NANP.first_suffix, NANP.suffixes, blocks.PHONES - sum(case)),
        ]).astype(np.int64)  # fmt: skip
        coins = generator.random(len(reported)) < 0.5
        numbers = DecodeTask.of_sealed(spec, [blocks._sealed(spec, reported[~coins], generator)])
        hundreds = spec.hundreds
        asked = DecodeTask.of_sealed(hundreds, [blocks._sealed(hundreds, reported[coins] // 100, generator)])
        task = replace(asked, numbers=numbers)
        (about,), (other,) = task.tallies(), numbers.tallies()
        item = blocks.START // 100
        law, beside = (PooledSupport.of([each.pooling.law(each.tally.count)]) for each in (about, other))
        (count,) = about.pooling.supports(about.tally, [item])
        enough = count >= about.pooling.rule(PROFILE.tau).least(law)
        # Two tiers over one round: the strict one may list it, too, and never without the other.
        low = law.hitter(item, [int(count)], 0).low / about.tally.count
        highs = [
            beside.hitter(0, [int(other.pooling.supports(other.tally, [100 * item + last])[0])], 0).high
            for last in range(100)
        ]
        expected = enough and all(low > MANY_NUMBERS * high / other.tally.count for high in highs)
        assert [hitter.item for hitter in decode(task).hitters] == ([item] if expected else []), name
        assert SUFFIX.item(NANP.number(202, blocks.START), NANP) // 100 == item
