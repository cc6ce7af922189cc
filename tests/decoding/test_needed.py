"""How many phones are needed: the same as asking for every number of them, and in words."""

from __future__ import annotations

import math

import pytest

from hushcall.decoding import planning
from hushcall.mechanisms.bucket_setup import open_bucket
from hushcall.mechanisms.decision import POWER
from hushcall.mechanisms.profiles import PROFILES, Profile
from hushcall.protocol.numbers import NANP
from hushcall.protocol.seeds import SEED_BYTES


def finds(profile: Profile, users: int) -> bool:
    """Whether so many phones find a caller who reaches a tenth of them a day, in all days of the longest window."""
    aggregator = open_bucket(profile, NANP, users, bytes(SEED_BYTES), 1)
    rounds = max(profile.windows)
    if aggregator is None:
        return False
    if rounds > 1:
        assert aggregator.pooling is not None
        aggregator = aggregator.pooling.over(rounds)
    return aggregator.chance(users * rounds, profile.tau)(math.floor(users * rounds / 10)) >= POWER


@pytest.mark.parametrize("name", ["sensitive", "cheapest", "sensitive-whole"])
def test_fewer_phones_find_no_caller_of_a_tenth_and_as_many_do(name: str) -> None:
    profile = PROFILES[name]
    needed = planning.needed(profile)
    assert needed
    assert [finds(profile, users) for users in (needed // 2, needed - 1, needed)] == [False, False, True]


@pytest.mark.parametrize("name", ["balanced", "nation"])
def test_short_rounds_need_as_many_phones_in_as_many_days(name: str) -> None:
    profile = PROFILES[name]
    assert planning.needed(profile.timed(24)) == planning.needed(profile)
    assert planning.needed_in_words(profile.timed(4)) == planning.needed_in_words(profile)
    assert "within 7 days" in planning.needed_in_words(profile.timed(24))


def test_reports_about_hundreds_are_missing_about_numbers() -> None:
    assert (planning.needed(PROFILES["nation"]) or 0) > (planning.needed(PROFILES["balanced"]) or 0)


def test_a_household_is_told_in_words() -> None:
    profile = PROFILES["balanced"]
    row = planning.outlook(profile, 40, 40)
    words = planning.in_words(profile, 40)
    assert f"when {row.detectable} report the same caller on one day, or when {row.in_window} reports" in words
    few = planning.in_words(profile, 5)
    assert few.startswith("5 phones in one area code are too few")
    assert few.endswith(f"{row.smallest_bucket} must take part.")
    assert f"About {planning.needed(profile)} phones in one area code" in planning.needed_in_words(profile)
    assert " in all " in planning.needed_in_words(PROFILES["balanced-whole"])
