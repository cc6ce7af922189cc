"""The tour: a whole round in memory, for every profile's kind of mechanism."""

import inspect
from collections import Counter
from dataclasses import replace

import pytest

from hushcall.mechanisms.profiles import PROFILES, Profile
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import seeded
from hushcall.round import run_round
from hushcall_lab.simulation.stream import make_day

DAY = make_day(users=3000, spammers=6, largest=500, seed=4)


@pytest.mark.parametrize("name", ["paper", "balanced", "sensitive"])
def test_a_round_finds_large_spammers_and_nothing_that_nobody_reported(name: str) -> None:
    result = run_round(DAY.calls, seeded(b"round"), PROFILES[name])
    listed = {entry.number: entry.hitter for entry in result.listed}
    top = max(DAY.spammers, key=lambda number: DAY.spammers[number])
    assert top in listed
    assert listed[top].estimate == pytest.approx(DAY.spammers[top], rel=0.25)
    assert set(listed) <= set(DAY.spammers)
    assert sum(result.sizes.values()) == len(DAY.calls)


def test_phones_of_skipped_buckets_spend_nothing_and_the_others_their_epsilon() -> None:
    profile = PROFILES["paper"]
    result = run_round(DAY.calls, seeded(b"spend"), profile)
    running = sum(size for area, size in result.sizes.items() if area not in result.skipped)
    spent = Counter(result.spent)
    assert set(spent) == {0.0, profile.epsilon}
    assert spent[profile.epsilon] == running
    assert all(size <= profile.tau for area, size in result.sizes.items() if area in result.skipped)


def test_the_same_coins_give_the_same_round() -> None:
    calls = DAY.calls[:600]
    once = run_round(calls, seeded(b"x"))
    assert any(size and area not in once.skipped for area, size in once.sizes.items())
    assert run_round(calls, seeded(b"x")) == once
    assert run_round(calls, seeded(b"y")) != once


def test_nothing_in_the_clear_is_one_bucket() -> None:
    plan = replace(NANP, area_codes=NANP.area_codes[:8], complaints=NANP.complaints[:8])  # they decode in a second
    day = make_day(users=2500, spammers=2, largest=600, seed=4)
    area = plan.area_codes[3]
    calls = [plan.number(area, call.suffix) if call else None for call in day.calls]
    result = run_round(calls, seeded(b"whole"), PROFILES["sensitive-whole"], plan)
    heavy = {plan.number(area, number.suffix) for number in day.spammers}
    assert {entry.number for entry in result.listed} == heavy
    assert result.sizes == {0: 2500}


def test_the_original_protocol_finds_a_number_that_half_of_all_phones_report() -> None:
    """At a budget of 30 and with half of all phones: the paper's point that it is not practical."""
    number = NANP.number(202, 5_550_143)
    calls = [number] * 1000 + [None] * 1000
    profile = Profile("original", "a baseline", "sh-original", 30.0, 143)
    result = run_round(calls, seeded(b"original"), profile)
    assert number in {entry.number for entry in result.listed}


def test_progress_is_told() -> None:
    seen: list[tuple[str, int, int]] = []
    run_round(DAY.calls[:200], seeded(b"p"), progress=lambda *step: seen.append(step))
    assert ("collect", 200, 200) in seen


def test_an_empty_round_is_a_round() -> None:
    result = run_round([], seeded(b"empty"))
    assert result.listed == ()
    assert result.spent == ()


def test_a_bucket_in_which_nothing_could_be_listed_spends_nothing() -> None:
    """Nine phones with one number at ε = 8: f̂ cannot pass τ = 10, so nobody should spend. Nor one phone, whole."""
    number = NANP.number(202, 5_550_143)
    assert set(run_round([number] * 9, seeded(b"nine"), PROFILES["sensitive"]).spent) == {0.0}
    assert set(run_round([number], seeded(b"one"), PROFILES["strong-whole"]).spent) == {0.0}


def test_the_coins_of_a_round_do_not_tell_who_had_a_call() -> None:
    taken: list[list[int]] = []
    for calls in ([NANP.number(202, 5_550_143)] * 3, [None] * 3):
        sizes: list[int] = []
        source = seeded(b"count")
        run_round(calls, lambda count, source=source, sizes=sizes: (sizes.append(count), source(count))[1])  # type: ignore[misc]
        taken.append(sizes)
    assert taken[0] == taken[1]


def test_its_help_fits_a_screen() -> None:
    assert len(str(inspect.signature(run_round))) < 1500
    assert "201" not in repr(NANP)  # an area code: there are hundreds
