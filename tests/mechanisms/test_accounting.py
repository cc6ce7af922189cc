"""What a report costs: the two accountings against the largest ratio over all pairs of outputs, by enumeration."""

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.exact import exp_above

from hushcall.errors import InvalidParameter
from hushcall.mechanisms import randomisers
from hushcall.mechanisms.randomisers import Accounting, channel_epsilon, round_cost
from hushcall.protocol.exact import exp_below
from hushcall.protocol.randomness import ONE

PAPER, EXACT = Accounting.PAPER, Accounting.EXACT
budgets = st.fractions(Fraction(1, 10), 20)


def two_channels(kind: str, epsilon: Fraction) -> Fraction:
    """The largest ratio of two outputs' odds when a number moves from the first channel to the second."""
    odds = getattr(randomisers, kind)(epsilon)
    mine = {1: odds.keep, -1: odds.flip, 0: ONE - odds.keep - odds.flip}
    empty = {1: odds.noise, -1: odds.noise, 0: ONE - 2 * odds.noise}
    outputs = [(y, z) for y, z in product((1, -1, 0), repeat=2) if mine[y] * empty[z] or empty[y] * mine[z]]
    return max(Fraction(mine[y] * empty[z], empty[y] * mine[z]) for y, z in outputs)


@pytest.mark.parametrize("kind", ["basic", "extended"])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.2, 4.4, 8.8])
def test_the_exact_cost_of_a_round_is_the_largest_ratio_that_occurs(kind: str, epsilon: float) -> None:
    cost = round_cost(kind, Fraction(epsilon), EXACT)
    ratio = two_channels(kind, Fraction(epsilon))
    assert ratio <= exp_below(cost)
    assert ratio >= exp_above(cost) * (1 - Fraction(1, 10**10))


def test_the_paper_charges_twice_what_the_basic_randomiser_costs_and_the_extended_ones_price() -> None:
    for kind, factor in (("basic", 2), ("extended", 1)):
        paper, exact = (round_cost(kind, Fraction(3), accounting) for accounting in (PAPER, EXACT))
        assert paper == factor * exact == 6


@given(st.sampled_from(["basic", "extended"]), st.sampled_from(Accounting), budgets, st.integers(1, 64))
def test_channel_epsilon_inverts_round_cost_exactly(
    kind: str, accounting: Accounting, budget: Fraction, rounds: int
) -> None:
    per_channel = channel_epsilon(kind, budget, rounds, accounting)
    assert rounds * round_cost(kind, per_channel, accounting) == budget


def test_the_papers_channel_gets_a_quarter_of_the_budget_in_two_rounds() -> None:
    assert channel_epsilon("extended", Fraction(8.8), 2, PAPER) == Fraction(8.8) / 4


@pytest.mark.parametrize("kind", ["tuned", "", "Basic"])
def test_an_unknown_randomiser_is_refused(kind: str) -> None:
    with pytest.raises(InvalidParameter, match="randomiser must be basic or extended") as caught:
        round_cost(kind, Fraction(1), EXACT)
    assert caught.value.value == kind
