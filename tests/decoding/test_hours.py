"""Twenty-four hourly rounds together find what a day's round finds, and a day's level covers all of their decisions."""

from dataclasses import replace

import pytest

from hushcall.decoding.window import tiers
from hushcall.errors import InvalidParameter
from hushcall.mechanisms.bucket_setup import open_bucket
from hushcall.mechanisms.decision import POWER, Rule
from hushcall.mechanisms.profiles import DEFAULT, PROFILES, Profile, window_of
from hushcall.protocol.numbers import NANP
from hushcall.protocol.seeds import SEED_BYTES

BUCKETS = 400
HOURLY = DEFAULT.timed(24)


def day_of(profile: Profile, users: int, strict: bool) -> tuple[int, float]:
    """(the fewest holders that a day's own window finds, with which chance), of so many users on that day."""
    rounds = profile.rounds_per_day
    aggregator = open_bucket(profile, NANP, users // rounds, bytes(SEED_BYTES), BUCKETS)
    assert aggregator is not None
    assert aggregator.pooling is not None
    pooling = aggregator.pooling
    laws = [(age, pooling.law(users // rounds)) for age in range(rounds)]
    decision = tiers(laws, profile.windows, pooling.rule(profile.tau), pooling.strict_rule(profile.tau), 1)[0]
    (span,) = (span for span in decision.spans if span.strict == strict)
    (law,) = span.law.parts
    holders = next(c for c in range(users) if law.power(c, span.least) >= POWER)
    return holders, law.power(DETECTABLE.get((users, strict), holders), span.least)


DETECTABLE: dict[tuple[int, bool], int] = {}


@pytest.mark.parametrize("users", [960, 9600])
@pytest.mark.parametrize("strict", [False, True])
def test_a_days_hours_together_have_its_power(users: int, strict: bool) -> None:
    DETECTABLE[users, strict], daily = day_of(DEFAULT, users, strict)
    _, hourly = day_of(HOURLY, users, strict)
    assert daily >= POWER
    assert hourly >= 0.97 * daily


@pytest.mark.parametrize("name", [DEFAULT.name, "nation"])
@pytest.mark.parametrize("rounds", [1, 2, 3, 8, 24])
def test_a_day_lists_wrong_numbers_within_its_level(rounds: int, name: str) -> None:
    """Hundreds of numbers have their share of it."""
    day = [replace(PROFILES[name].timed(rounds), place=place) for place in range(rounds)]
    kinds = 2 if day[0].hundreds else 1
    assert sum(profile.share * len(profile.windows) * kinds for profile in day) == pytest.approx(DEFAULT.level)
    assert sum(profile.warn_share * len(profile.windows) * kinds for profile in day) == pytest.approx(0.05)


def test_what_noise_lists_in_a_day_is_within_the_level() -> None:
    """By the thresholds themselves: the chances of all decisions of all rounds, over all numbers."""
    chance = 0.0
    for place in range(24):
        profile = replace(HOURLY, place=place)
        aggregator = open_bucket(profile, NANP, 40, bytes(SEED_BYTES), BUCKETS)
        assert aggregator is not None
        assert aggregator.pooling is not None
        pooling = aggregator.pooling
        laws = [(age, pooling.law(40)) for age in range(profile.reach)]
        rules = pooling.rule(0), pooling.strict_rule(0)
        for decision in tiers(laws, profile.windows, *rules, pooling.numbers):
            for span in decision.spans:
                if not span.strict:
                    chance += span.law.p_value(span.least) * span.rule.hypotheses
    assert 0.5 * DEFAULT.warn_level < chance <= DEFAULT.warn_level


def test_all_rounds_of_a_day_have_the_same_bits() -> None:
    opened = {
        open_bucket(replace(HOURLY, place=place), NANP, 40, bytes(SEED_BYTES), BUCKETS).mechanism  # type: ignore[union-attr]
        for place in range(24)
    }
    assert len(opened) == 1


@pytest.mark.parametrize(
    ("rounds_per_day", "place", "ages", "days"),
    [(1, 0, range(7), 7), (24, 23, range(24), 1), (24, 22, range(24), 2), (24, 23, range(168), 7), (24, 0, [0, 1], 2)],
)
def test_a_liar_lies_once_a_day(rounds_per_day: int, place: int, ages: range, days: int) -> None:
    rule = Rule(tolerance=5, rounds_per_day=rounds_per_day, place=place)
    assert rule.over(ages).tolerance == 5 * days


def test_a_profile_is_written_with_its_place_in_the_day() -> None:
    assert HOURLY.windows == (24, 48, 96, 168)
    assert HOURLY.place == 23
    assert Profile.from_plain(HOURLY.to_plain()) == HOURLY
    assert "place" not in DEFAULT.to_plain()
    assert PROFILES["paper"].timed(24).windows == (1,)
    with pytest.raises(InvalidParameter, match="windows"):
        replace(HOURLY, windows=(745,))
    with pytest.raises(InvalidParameter, match="place"):
        replace(HOURLY, place=24)


def test_rounds_of_another_length_are_in_no_window() -> None:
    assert window_of([(1, "us", DEFAULT), (25, "us", HOURLY), (26, "us", HOURLY)]) == [25, 26]
