"""The crowd's bound: the published table, plain enumeration, exact shuffles, and attacks that must not beat it."""

import math
import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushcall.errors import InvalidParameter
from hushcall.mechanisms.privacy.shuffle import clone_delta, shuffled_epsilon

CROWDS = (10**3, 10**4, 10**5, 10**6, 10**7)
TABLE = {
    2.0: (0.545, 0.155, 0.045, 0.013, 0.004),
    4.0: (3.99, 0.601, 0.170, 0.049, 0.014),
    6.0: (6.0, 5.72, 0.524, 0.149, 0.043),
    8.0: (8.0, 8.0, 2.19, 0.444, 0.128),
}
"""δ = 10⁻⁶, from a separate evaluation; three digits, so that small entries are known to half a unit only."""


def choose(n: int, k: int) -> int:
    return math.comb(n, k)


def by_enumeration(epsilon_0: float, epsilon: float, crowd: int) -> float:
    """The bound's δ from its definition: all C, A and Δ, no algebra, exact but for the exponentials."""
    clone, w, grow = (
        Fraction(math.exp(-epsilon_0)),
        Fraction(1 / (1 + math.exp(-epsilon_0))),
        Fraction(math.exp(epsilon)),
    )
    one: dict[tuple[int, int], Fraction] = {}
    two: dict[tuple[int, int], Fraction] = {}
    for c in range(crowd):
        chance_c = choose(crowd - 1, c) * clone**c * (1 - clone) ** (crowd - 1 - c)
        for a, delta in product(range(c + 1), (0, 1)):
            chance = chance_c * Fraction(choose(c, a), 2**c) * (w if delta else 1 - w)
            for law, place in ((one, (a + delta, c - a + 1 - delta)), (two, (a + 1 - delta, c - a + delta))):
                law[place] = law.get(place, Fraction(0)) + chance
    return float(sum(max(Fraction(0), p - grow * two.get(place, Fraction(0))) for place, p in one.items()))


@pytest.mark.parametrize("epsilon_0", sorted(TABLE))
def test_the_published_table(epsilon_0: float) -> None:
    for crowd, expected in zip(CROWDS, TABLE[epsilon_0], strict=True):
        assert shuffled_epsilon(epsilon_0, crowd) == pytest.approx(expected, rel=0.02, abs=0.0005)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.1, 8.0), st.floats(0.001, 0.999), st.integers(1, 14))
def test_sums_equal_plain_enumeration(epsilon_0: float, share: float, crowd: int) -> None:
    exact = by_enumeration(epsilon_0, share * epsilon_0, crowd)
    bound = clone_delta(epsilon_0, share * epsilon_0, crowd, 1e-9)
    assert exact <= bound * (1 + 1e-12)
    assert bound == pytest.approx(exact, rel=1e-6, abs=1e-12)


def histograms(inputs: tuple[int, ...], epsilon_0: float, values: int) -> dict[tuple[int, ...], float]:
    """The exact law of what a shuffler shows when each phone answers by generalised randomised response."""
    keep = math.exp(epsilon_0) / (math.exp(epsilon_0) + values - 1)
    law = {(0,) * values: 1.0}
    for held in inputs:
        after: dict[tuple[int, ...], float] = {}
        for seen, chance in law.items():
            for said in range(values):
                place = (*seen[:said], seen[said] + 1, *seen[said + 1 :])
                odds = keep if said == held else (1 - keep) / (values - 1)
                after[place] = after.get(place, 0.0) + chance * odds
        law = after
    return law


def neighbours(crowd: int, values: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    for others in combinations_with_replacement(range(values), crowd - 1):
        for x, y in product(range(values), repeat=2):
            if x != y:
                yield (*others, x), (*others, y)


@pytest.mark.parametrize(("values", "crowd"), [(2, 2), (2, 7), (2, 12), (3, 4), (3, 6), (4, 4)])
@pytest.mark.parametrize("epsilon_0", [0.5, 2.0, 5.0])
def test_no_exact_shuffle_of_a_real_randomiser_exceeds_the_bound(values: int, crowd: int, epsilon_0: float) -> None:
    laws = {}
    for pair in neighbours(crowd, values):
        for inputs in pair:
            if inputs not in laws:
                laws[inputs] = histograms(inputs, epsilon_0, values)
    for share in (0.1, 0.5, 0.9):
        grow = math.exp(share * epsilon_0)
        worst = max(
            math.fsum(max(0.0, p - grow * laws[other][place]) for place, p in laws[one].items())
            for one, other in neighbours(crowd, values)
        )
        assert 0 < worst <= clone_delta(epsilon_0, share * epsilon_0, crowd)


def attack(epsilon_0: float, crowd: int, delta: float, trials: int, seed: int) -> float:
    """A lower bound on ε from simulated shuffles: everybody holds 0 but perhaps one, who holds 0 or 1.

    The attacker sees how many said 1. Half of the runs choose the threshold, the other half measure it; each frequency
    is widened by Hoeffding's inequality so that the result exceeds the true ε with probability below 10⁻⁷.
    """
    dice, flip = random.Random(seed), 1 / (1 + math.exp(epsilon_0))
    margin = math.sqrt(math.log(2e7) / trials)  # two frequencies of trials/2 runs each

    def ones(target: int) -> int:
        others = sum(dice.random() < flip for _ in range(crowd - 1))
        return others + ((dice.random() < flip) != bool(target))

    runs = {target: [ones(target) for _ in range(trials)] for target in (0, 1)}
    train = {target: values[: trials // 2] for target, values in runs.items()}
    check = {target: values[trials // 2 :] for target, values in runs.items()}

    def estimate(part: dict[int, list[int]], at: int, slack: float) -> float:
        p, q = (sum(value >= at for value in part[target]) / len(part[target]) for target in (1, 0))
        return math.log(max(p - slack - delta, 1e-12) / min(1.0, q + slack))

    best = max(range(crowd + 1), key=lambda at: estimate(train, at, margin))
    return estimate(check, best, margin)


@pytest.mark.parametrize(("epsilon_0", "crowd"), [(1.0, 10), (3.0, 10), (2.0, 50)])
def test_no_attack_on_simulated_shuffles_beats_the_bound(epsilon_0: float, crowd: int) -> None:
    lower = attack(epsilon_0, crowd, 1e-6, 20_000, seed=crowd)
    assert 0 < lower <= shuffled_epsilon(epsilon_0, crowd)


def test_the_attack_would_notice_a_bound_that_is_too_good() -> None:
    """Without a crowd the attack is worth nearly ε₀: a claim of half of it would be refuted."""
    assert attack(2.0, 1, 1e-6, 20_000, seed=1) > 1.5


@settings(max_examples=20, deadline=None)
@given(st.floats(0.5, 8.0), st.integers(2, 2000), st.sampled_from([1e-4, 1e-6, 1e-8]))
def test_larger_crowds_smaller_budgets_and_larger_deltas_never_cost_more(
    epsilon_0: float, crowd: int, delta: float
) -> None:
    here = shuffled_epsilon(epsilon_0, crowd, delta)
    assert 0 < here <= epsilon_0
    near = 1 + 2e-4
    assert shuffled_epsilon(epsilon_0, 2 * crowd, delta) <= here * near
    assert shuffled_epsilon(epsilon_0 * 0.9, crowd, delta) <= here * near
    assert shuffled_epsilon(epsilon_0, crowd, delta * 10) <= here * near


@pytest.mark.parametrize(
    ("epsilon_0", "crowd", "delta"), [(0.0, 10, 1e-6), (1.0, 0, 1e-6), (1.0, 10, 0.0), (1.0, 10, 1.0)]
)
def test_what_makes_no_sense_is_refused(epsilon_0: float, crowd: int, delta: float) -> None:
    with pytest.raises(InvalidParameter):
        shuffled_epsilon(epsilon_0, crowd, delta)


def test_beyond_the_local_budget_nothing_is_left_to_chance() -> None:
    assert clone_delta(2.0, 2.0, 100) == clone_delta(2.0, 3.0, 100) == 0.0
