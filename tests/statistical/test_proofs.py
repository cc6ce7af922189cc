"""Short versions of ``hushcall-lab prove``: the promised rates, with the real code, within wide limits.

Coins are seeded, so a result is the same on every machine; drawn afresh, each limit would be missed less than once in
10³ at the promised rate. One row of each kind runs in ``make test``, the others are long proofs.
"""

from typing import Any

import pytest

from hushcall_lab.proofs import statistics
from hushcall_lab.proofs.decision_bugs import BUGS


def long(*values: Any) -> Any:
    """A row that ``make test-all`` adds."""
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("users", "epsilon", "runs"), [(300, 4.0, 20), *(long(*row, 60) for row in ((300, 2.0), (1000, 3.0), (1000, 8.0)))]
)
def test_promised_counts_are_found(users: int, epsilon: float, runs: int) -> None:
    proof = statistics.power(users, epsilon, runs)
    assert 0.75 <= proof.rate <= 1.0
    assert proof.ok


@pytest.mark.slow
def test_half_of_the_promised_count_is_not() -> None:
    """With power: the proof would notice a decoder that lists too easily."""
    proof = statistics.power(300, 4.0, 40, holders=25)
    assert proof.rate < 0.3


@pytest.mark.slow
def test_promised_counts_are_found_in_whole_number_mode() -> None:
    proof = statistics.whole_number_power(8)
    assert proof.rate >= 0.5
    assert proof.ok


def test_buckets_without_heavy_hitters_list_nothing_beyond_the_level() -> None:
    proof, spread = statistics.null_behaviour(30)
    assert proof.ok
    assert proof.rate < 0.25
    assert spread == pytest.approx(1, abs=0.01)


def test_weeks_without_a_spammer_list_nothing_beyond_the_level() -> None:
    """A few weeks at level 0.2, with seeded coins: fewer than half list anything."""
    proof = statistics.null_weeks(15)
    assert proof.ok
    assert proof.rate < 0.5


def test_a_level_that_is_not_split_between_windows_is_noticed() -> None:
    with BUGS["the level is not split between windows"]():
        assert not statistics.null_weeks(60).ok


@pytest.mark.slow
@pytest.mark.parametrize("windows", [(1,), (1, 2), (1, 7), (1, 2, 4, 7)])
def test_three_hundred_weeks_keep_the_level_for_every_split(windows: tuple[int, ...]) -> None:
    proof = statistics.null_weeks(300, windows)
    assert proof.ok
    assert proof.rate <= statistics.WEEK_LEVEL


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "budget", "low", "high"),
    [
        long("extended", 12.0, 0.92, 1.0),
        ("extended", 8.8, 0.60, 0.85),
        long("basic", 12.0, 0.35, 0.65),
        long("basic", 8.8, 0.12, 0.40),
    ],
)
def test_hard_decoding_of_half_a_bucket(kind: str, budget: float, low: float, high: float) -> None:
    """150 of 300 phones, T = 2: 97 % and 71 % for extended, 50 % and 26 % for basic over 4000 runs."""
    proof = statistics.hard_decoding(kind, budget, 200)
    assert low <= proof.rate <= high
    assert proof.ok
