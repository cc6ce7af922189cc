"""The odds: whole numbers out of 2⁶⁴ whose ratios, as exact fractions, never exceed the ε that was asked for."""

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.exact import exp_above

from hushcall.errors import InvalidParameter
from hushcall.mechanisms.mechanism import RandomisedResponse
from hushcall.mechanisms.randomisers import ChannelRandomiser, basic, exact_round_ratio, extended, tuned
from hushcall.protocol.exact import exp_below
from hushcall.protocol.randomness import ONE

Law = dict[int, int]

epsilons = st.floats(1e-6, 40)
keeps = st.integers(1, ONE)
NEARLY = 1 - Fraction(1, 10**6)
"""Rounding may cost a little accuracy: a millionth of e^ε at most, where ε leaves room for it."""

SIMPLE = pytest.mark.parametrize("make", [basic, extended])


def laws(odds: ChannelRandomiser) -> tuple[Law, Law]:
    """(where the number is, where it is not): symbol → weight."""
    return (
        {1: odds.keep, -1: odds.flip, 0: ONE - odds.keep - odds.flip},
        {1: odds.noise, -1: odds.noise, 0: ONE - 2 * odds.noise},
    )


def worst(one: Law, two: Law) -> Fraction | None:
    """The largest ratio of the odds of one outcome; None: an outcome of the first is impossible in the second."""
    if any(weight and not two[symbol] for symbol, weight in one.items()):
        return None
    return max(Fraction(weight, two[symbol]) for symbol, weight in one.items() if two[symbol])


def round_ratio(odds: ChannelRandomiser) -> Fraction:
    """E^(cost of a round): a number moves from one channel to another, or turns its sign within one."""
    mine, empty = laws(odds)
    leaves, enters = worst(mine, empty), worst(empty, mine)
    assert leaves is not None, f"a symbol of a holder that an empty channel never sends: {odds}"
    assert enters is not None, f"a symbol of an empty channel that a holder never sends: {odds}"
    return max(leaves * enters, Fraction(odds.keep, odds.flip))


def tuned_or_skip(epsilon: float, keep: int) -> ChannelRandomiser:
    try:
        return tuned(epsilon, keep)
    except InvalidParameter:
        assume(False)
        raise


@given(epsilons, st.sampled_from([basic, extended]))
def test_weights_are_positive_where_needed_and_sum_to_one(
    epsilon: float, make: Callable[[float], ChannelRandomiser]
) -> None:
    for law in laws(make(epsilon)):
        assert sum(law.values()) == ONE
        assert min(law[1], law[-1]) > 0
        assert law[0] == 0 if make is basic else law[0] > 0


@given(epsilons)
def test_the_basic_randomiser_costs_epsilon_a_round_and_no_less_than_needed(epsilon: float) -> None:
    exact = Fraction(epsilon)
    ratio = round_ratio(basic(epsilon))
    assert ratio <= exp_below(exact)
    if epsilon <= 20:
        assert ratio >= exp_above(exact) * NEARLY


@given(epsilons)
def test_the_extended_randomiser_costs_epsilon_a_channel_and_two_a_round(epsilon: float) -> None:
    exact = Fraction(epsilon)
    odds = extended(epsilon)
    mine, empty = laws(odds)
    one_way, other_way = worst(mine, empty), worst(empty, mine)
    assert one_way is not None
    assert other_way is not None
    assert max(one_way, other_way, Fraction(odds.keep, odds.flip)) <= exp_below(exact)
    assert round_ratio(odds) <= exp_below(2 * exact)
    if epsilon <= 20:
        assert round_ratio(odds) >= exp_above(2 * exact) * NEARLY


@settings(max_examples=400)
@given(epsilons, keeps)
@example(1.0, 1 << 63)
@example(12.0, ONE - (1 << 50))
def test_the_tuned_randomiser_costs_at_most_epsilon_a_round_whatever_keep_a_server_sends(
    epsilon: float, keep: int
) -> None:
    odds = tuned_or_skip(epsilon, keep)
    assert odds.keep == keep
    assert all(sum(law.values()) == ONE and min(law.values()) >= 0 for law in laws(odds))
    assert round_ratio(odds) <= exp_below(Fraction(epsilon))


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 1.5, 3.0, 8.8])
def test_no_keep_near_the_largest_costs_more_than_epsilon(epsilon: float) -> None:
    """Where almost nothing is left for zero, rounding θ up could make an empty channel's zero too rare."""
    ratio = exp_below(Fraction(epsilon))
    most = int(ONE * ratio / (ratio + 1))
    accepted = 0
    for keep in range(most - 200, most + 3):
        try:
            odds = tuned(epsilon, keep)
        except InvalidParameter:
            continue
        accepted += 1
        assert round_ratio(odds) <= ratio, f"keep {keep}"
    assert accepted > 0


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_the_tuned_randomiser_spends_its_budget(epsilon: float) -> None:
    for share in (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)):
        ratio = exp_below(Fraction(epsilon))
        odds = tuned(epsilon, int(ONE * ratio / (ratio + 1) * share))
        assert round_ratio(odds) >= exp_above(Fraction(epsilon)) * NEARLY


@given(epsilons, st.integers(2, 1 << 12))
def test_randomised_response_costs_at_most_epsilon_and_hardly_less(epsilon: float, size: int) -> None:
    odds = RandomisedResponse.of(epsilon, size)
    assert odds.keep + (size - 1) * odds.other == ONE
    assert odds.keep >= odds.other > 0
    ratio = Fraction(odds.keep, odds.other)
    assert ratio <= exp_below(Fraction(epsilon))
    if epsilon <= 20:
        assert ratio >= exp_above(Fraction(epsilon)) * NEARLY


@given(epsilons, st.integers(1, 24))
def test_randomised_response_over_any_power_of_two_exists_and_is_private(epsilon: float, bits: int) -> None:
    odds = RandomisedResponse.of(epsilon, 1 << bits)
    assert Fraction(odds.keep, odds.other) <= exp_below(Fraction(epsilon))


@pytest.mark.parametrize("odds", [basic(1.0), extended(2.2), tuned(4.4, 1 << 63)], ids=lambda odds: odds.kind)
@pytest.mark.parametrize("sign", [1, -1, 0])
def test_a_draw_changes_exactly_at_its_thresholds(odds: ChannelRandomiser, sign: int) -> None:
    mine, empty = laws(odds)
    pieces = [(sign * s, mine[s]) for s in (1, -1, 0)] if sign else [(s, empty[s]) for s in (1, -1, 0)]
    start = 0
    for symbol, weight in pieces:
        if weight:
            assert odds.draw(sign, start) == symbol
            assert odds.draw(sign, start + weight - 1) == symbol
        start += weight
    assert start == ONE


@pytest.mark.parametrize(("epsilon", "size"), [(3.0, 21), (1.0, 2), (0.5, 3), (8.0, 256)])
def test_a_response_changes_exactly_at_its_thresholds(epsilon: float, size: int) -> None:
    odds = RandomisedResponse.of(epsilon, size)
    for value in (0, 1, size // 2, size - 1):
        assert odds.draw(value, 0) == odds.draw(value, odds.keep - 1) == value
        others = [other for other in range(size) if other != value]
        for place, other in enumerate(others):
            start = odds.keep + place * odds.other
            assert odds.draw(value, start) == other
            assert odds.draw(value, start + odds.other - 1) == other
        assert odds.keep + len(others) * odds.other == ONE


@given(st.sampled_from([basic(1.0), extended(1.0), tuned(1.0, 1 << 62)]), st.integers(0, ONE - 1))
def test_turning_the_sign_turns_the_symbol(odds: ChannelRandomiser, word: int) -> None:
    assert odds.draw(-1, word) == -odds.draw(1, word)


def test_scale_makes_the_expectation_of_a_symbol_the_sign() -> None:
    for odds in (basic(1.0), extended(2.2), tuned(4.4, 1 << 63)):
        p, q, theta = odds.probabilities
        assert (p - q) * odds.scale == pytest.approx(1)
        assert [p * ONE, q * ONE, theta * ONE] == pytest.approx([odds.keep, odds.flip, odds.noise])


BAD_EPSILONS = [0, 0.0, -1.0, float("nan"), float("inf"), -float("inf"), 40.1, 1e9, True, "1", None]


@pytest.mark.parametrize("epsilon", BAD_EPSILONS)
@pytest.mark.parametrize(
    "make",
    [basic, extended, lambda epsilon: tuned(epsilon, 1 << 63), lambda epsilon: RandomisedResponse.of(epsilon, 2)],
    ids=["basic", "extended", "tuned", "response"],
)
def test_a_bad_epsilon_is_refused_by_name(make: Callable[[object], object], epsilon: object) -> None:
    with pytest.raises(InvalidParameter) as caught:
        make(epsilon)
    assert caught.value.field == "epsilon"
    assert caught.value.value is epsilon or caught.value.value == epsilon


@pytest.mark.parametrize("keep", [0, -1, ONE, ONE + 1, ONE - 5, 0.5, 1.0, True, None])
def test_a_keep_out_of_range_is_refused_by_name(keep: int) -> None:
    with pytest.raises(InvalidParameter) as caught:
        tuned(1.0, keep)
    assert caught.value.field == "keep"


@pytest.mark.parametrize("size", [0, 1, -2, (1 << 31) + 1, 2.0, True])
def test_a_size_out_of_range_is_refused_by_name(size: int) -> None:
    with pytest.raises(InvalidParameter) as caught:
        RandomisedResponse.of(1.0, size)
    assert caught.value.field == "size"


@pytest.mark.parametrize(
    ("keep", "flip", "noise", "field"),
    [
        (0, 1, 1, "keep"),
        (ONE + 1, 1, 1, "keep"),
        (5, 5, 1, "flip"),
        (5, 0, 1, "flip"),
        (ONE - 1, 2, 1, "flip"),
        (5, 1, 0, "noise"),
        (5, 1, ONE // 2 + 1, "noise"),
    ],
)
def test_weights_that_are_no_law_are_refused(keep: int, flip: int, noise: int, field: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        ChannelRandomiser("mine", keep, flip, noise)
    assert caught.value.field == field


@pytest.mark.parametrize(("other", "size"), [(0, 2), (ONE // 2 + 1, 2), (ONE // 3 + 1, 3), (1.5, 2)])
def test_a_response_whose_lies_are_likelier_than_the_truth_is_refused(other: int, size: int) -> None:
    with pytest.raises(InvalidParameter) as caught:
        RandomisedResponse(size, other)
    assert caught.value.field == "other"


@SIMPLE
def test_more_epsilon_is_more_truth(make: Callable[[float], ChannelRandomiser]) -> None:
    kept = [make(epsilon).keep for epsilon in (0.01, 0.1, 1, 2, 4, 8, 16, 40)]
    assert all(less < more for less, more in pairwise(kept))


def test_the_table_of_the_paper() -> None:
    """P, q and θ of the two published randomisers at ε = ln 3: fractions anyone can check by hand."""
    epsilon = Fraction(1.0986122886681098)  # the float nearest to ln 3
    close = [pytest.approx(float(x), rel=1e-12) for x in (Fraction(3, 4), Fraction(1, 4), Fraction(1, 2))]
    assert list(basic(epsilon).probabilities) == close
    close = [pytest.approx(float(x), rel=1e-12) for x in (Fraction(3, 5), Fraction(1, 5), Fraction(1, 5))]
    assert list(extended(epsilon).probabilities) == close


@pytest.mark.parametrize(
    ("keep", "flip", "noise", "ratio"),
    [
        (6, 2, 4, Fraction(6, 4) * Fraction(2)),  # of 12: holders keep 6, flip 2, are silent in 4; others 4, 4, 4
        (6, 2, 3, Fraction(2) * Fraction(3, 2)),
        (9, 3, 6, Fraction(3, 2) * Fraction(2)),  # nobody is ever silent
        (9, 3, 3, None),  # a holder is never silent, others are
        (6, 2, 6, None),  # the other way round
    ],
)
def test_what_only_one_of_two_kinds_of_phones_can_say_has_no_bound(
    keep: int, flip: int, noise: int, ratio: Fraction | None
) -> None:
    assert exact_round_ratio(keep, flip, noise, 12) == ratio
