"""Many reports of one phone: the sum without a crowd, much less in one, and never less than what is exactly true."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushcall.mechanisms.privacy.shuffle import shuffled_epsilon, shuffled_over


def law_of_losses(epsilon_0: float, crowd: int) -> dict[float, float]:
    """The privacy loss of the clone bound's two laws under the first, by plain enumeration."""
    clone, w = math.exp(-epsilon_0), 1 / (1 + math.exp(-epsilon_0))
    one: dict[tuple[int, int], float] = {}
    for c in range(crowd):
        chance_c = math.comb(crowd - 1, c) * clone**c * (1 - clone) ** (crowd - 1 - c)
        for a in range(c + 1):
            for add, odds in ((1, w), (0, 1 - w)):
                place = (a + add, c + 1 - a - add)
                one[place] = one.get(place, 0.0) + chance_c * math.comb(c, a) / 2**c * odds
    losses: dict[float, float] = {}
    for (a, b), p in one.items():
        loss = round(math.log(p / one[b, a]), 12)  # the second law is the first with its components exchanged
        losses[loss] = losses.get(loss, 0.0) + p
    return losses


def exact_delta(epsilon_0: float, crowd: int, reports: int, epsilon: float) -> float:
    """δ of independent draws at ε, by adding losses up."""
    law, once = {0.0: 1.0}, law_of_losses(epsilon_0, crowd)
    for _ in range(reports):
        after: dict[float, float] = {}
        for sum_so_far, p in law.items():
            for loss, q in once.items():
                place = round(sum_so_far + loss, 9)
                after[place] = after.get(place, 0.0) + p * q
        law = after
    return math.fsum(p * max(0.0, -math.expm1(epsilon - loss)) for loss, p in law.items())


@settings(max_examples=25, deadline=None)
@given(st.floats(0.2, 4.0), st.integers(1, 6), st.integers(1, 3), st.sampled_from([1e-2, 1e-4, 1e-6]))
def test_the_bound_is_never_below_exact_composition(epsilon_0: float, crowd: int, reports: int, delta: float) -> None:
    bound = shuffled_over(epsilon_0, crowd, reports, delta)
    assert exact_delta(epsilon_0, crowd, reports, bound) <= delta * (1 + 1e-6)
    assert bound <= reports * epsilon_0


def test_a_month_in_a_large_crowd_grows_like_a_root_and_in_a_small_one_like_a_sum() -> None:
    one, month = shuffled_epsilon(6.0, 1_000_000), shuffled_over(6.0, 1_000_000, 30)
    assert math.sqrt(30) * one < month < 1.3 * math.sqrt(30) * one
    assert shuffled_over(6.0, 10, 30) == pytest.approx(180)
    assert shuffled_over(6.0, 1_000_000, 1) == one


def test_the_bound_is_not_far_above_exact_composition() -> None:
    bound = shuffled_over(0.5, 8, 4, 1e-4)
    assert exact_delta(0.5, 8, 4, 0.8 * bound) > 1e-4


@pytest.mark.parametrize("crowd", [1_000, 1_000_000, 10_000_000])
def test_more_reports_never_cost_less(crowd: int) -> None:
    spent = [shuffled_over(4.0, crowd, reports) for reports in (1, 2, 4, 30, 365)]
    assert spent == sorted(spent)
