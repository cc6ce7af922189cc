"""The subspace decoder: fast equals naive, dense equals sparse, areas equal whole numbers, b."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import naive
from tests.mechanisms.cases import SUFFIXES, reports_of

from hushcall.errors import InvalidParameter, InvalidTally
from hushcall.mechanisms.decision import law_of
from hushcall.mechanisms.subspace.client import Subspace, WholeNumber, linear_hash
from hushcall.mechanisms.subspace.server import (
    SubspaceAggregator,
    best_bits,
    bits_for,
    bits_for_threshold,
    detectable,
    few_supports,
)
from hushcall.mechanisms.tallies import DenseTally, SparseTally
from hushcall.protocol.randomness import seeded

SUFFIX_BITS = 24


def make(item_bits: int, bits: int, count: int, seed: int) -> tuple[SubspaceAggregator, SparseTally]:
    aggregator = SubspaceAggregator(Subspace(3.0, bits, item_bits), range(1 << item_bits))
    world = random.Random(seed)
    items = [world.randrange(1 << item_bits) for _ in range(count)]
    return aggregator, aggregator.tally(reports_of(aggregator, items, b"%d" % seed))


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 9), st.integers(1, 10), st.integers(0, 30), st.integers(0, 1000))
def test_fast_paths_equal_the_naive_loop_bit_for_bit(item_bits: int, bits: int, count: int, seed: int) -> None:
    aggregator, tally = make(item_bits, bits, count, seed)
    slow = naive.support_counts([list(map(int, row)) for row in tally.rows], list(map(int, tally.values)), item_bits)
    assert aggregator.support(tally).tolist() == slow
    assert aggregator.support(aggregator.dense(tally)).tolist() == slow
    assert few_supports(tally, range(1 << item_bits)).tolist() == slow


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 9), st.integers(1, 10), st.integers(1, 30), st.integers(0, 1000), st.integers(1, 5))
def test_dense_shards_add_up_to_identical_bytes(item_bits: int, bits: int, count: int, seed: int, shards: int) -> None:
    aggregator, tally = make(item_bits, bits, count, seed)
    order = random.Random(seed).sample(range(count), count)
    pieces = [
        SparseTally(tally.made_by, tally.rows[order[i::shards]], tally.values[order[i::shards]]) for i in range(shards)
    ]
    total = aggregator.dense(pieces[0])
    for piece in pieces[1:]:
        total = total.merge(aggregator.dense(piece))
    assert total.to_bytes() == aggregator.dense(tally).to_bytes()
    back = aggregator.from_bytes(total.to_bytes())
    assert aggregator.support(back).tolist() == aggregator.support(tally).tolist()
    assert back.count == count
    for item in range(0, 1 << item_bits, 7):
        assert aggregator.estimate(back, [item]) == pytest.approx(aggregator.estimate(tally, [item]))


def test_dense_and_sparse_find_the_same() -> None:
    aggregator = SubspaceAggregator(Subspace(4.0, 6), SUFFIXES)
    items = [5_550_143] * 200 + random.Random(1).sample(SUFFIXES, 800)
    tally = aggregator.tally(reports_of(aggregator, items, b"same"))
    assert aggregator.find(aggregator.dense(tally), 10) == aggregator.find(tally, 10)
    assert [hitter.item for hitter in aggregator.find(tally, 10)] == [5_550_143]


def test_a_dense_tally_of_other_parameters_is_refused() -> None:
    first, tally = make(6, 3, 5, 1)
    second, other = make(6, 4, 5, 1)
    with pytest.raises(InvalidTally):
        first.dense(tally).merge(second.dense(other))
    with pytest.raises(InvalidTally):
        second.from_bytes(first.dense(tally).to_bytes())


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 511), st.integers(0, (1 << 24) - 1), st.integers(1, 12), st.integers(0, 10**6))
def test_an_area_codes_view_of_a_report_is_the_report(area: int, suffix: int, bits: int, seed: int) -> None:
    """A·(t, σ) = y exactly when A_lo·σ = y ⊕ A_hi·t."""
    chosen = WholeNumber(4.0, bits)
    public = seeded(b"%d" % seed)(32)
    aggregator = SubspaceAggregator(chosen, SUFFIXES, areas=469)
    item = area << SUFFIX_BITS | suffix
    value = linear_hash(chosen.rows(public), item)
    tally = SparseTally(b"", np.array([chosen.rows(public)], dtype=np.uint64), np.array([value], dtype=np.uint32))
    local = aggregator.in_area(tally, area)
    assert isinstance(local, SparseTally)
    assert linear_hash(tuple(map(int, local.rows[0])), suffix) == int(local.values[0])
    assert few_supports(tally, [item]).tolist() == [1]


def test_whole_numbers_are_found_in_their_area_code_only() -> None:
    aggregator = SubspaceAggregator(WholeNumber(8.0, 9), SUFFIXES, areas=6)
    world = random.Random(2)
    heavy = 4 << SUFFIX_BITS | 5_550_143
    items = [heavy] * 120 + [world.randrange(6) << SUFFIX_BITS | world.choice(SUFFIXES) for _ in range(1500)]
    tally = aggregator.tally(reports_of(aggregator, items, b"areas"))
    steps: list[int] = []
    found = aggregator.find(tally, 10, lambda done, _: steps.append(done))
    assert [hitter.item for hitter in found] == [heavy]
    assert steps == [1, 2, 3, 4, 5, 6]
    assert found[0].estimate == pytest.approx(float(aggregator.estimate(tally, [heavy])[0]))


def day(epsilon: float, bits: int, users: int, heavy: int, seed: int) -> tuple[SubspaceAggregator, SparseTally]:
    aggregator = SubspaceAggregator(Subspace(epsilon, bits), SUFFIXES)
    items = [5_550_143] * heavy + random.Random(seed).sample(SUFFIXES, users - heavy)
    return aggregator, aggregator.tally(reports_of(aggregator, items, b"day %d" % seed))


TABLE = {  # smallest count found with 90 % power, family-wise error 10⁻³, D = 10⁷
    100: (79, 49, 34, 18, 11, 7, 5),
    300: (130, 77, 51, 25, 14, 10, 6),
    1000: (224, 129, 83, 38, 20, 12, 8),
    3000: (372, 214, 133, 57, 28, 16, 10),
}


@pytest.mark.parametrize("users", TABLE)
def test_detectable_counts_are_those_of_the_table(users: int) -> None:
    for epsilon, expected in zip((2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0), TABLE[users], strict=True):
        bits = best_bits(users, epsilon, 10**7)
        assert detectable(users, epsilon, bits, 10**7) == pytest.approx(expected, abs=max(1, 0.01 * expected))


@pytest.mark.parametrize(("users", "epsilon"), [(100, 2.0), (300, 6.0), (2000, 4.0), (5000, 10.0)])
def test_the_walk_finds_the_best_b(users: int, epsilon: float) -> None:
    counts = {bits: detectable(users, epsilon, bits, 10**7) for bits in range(1, 20)}
    assert counts[best_bits(users, epsilon, 10**7)] == min(counts.values())


@pytest.mark.parametrize(("users", "epsilon"), [(500, 6.0), (2000, 4.0), (1000, 8.0)])
def test_where_everything_above_tau_is_significant_b_serves_the_estimate(users: int, epsilon: float) -> None:
    """τ = 143 is far above what is detectable: of all b that detect it, the one with the least variance there."""
    chosen = bits_for_threshold(users, epsilon, 10**7, 1e-3, 143)
    able = [bits for bits in range(1, 16) if detectable(users, epsilon, bits, 10**7) <= 143]
    assert chosen == min(able, key=lambda bits: law_of(Subspace(epsilon, bits), users).variance(143))
    # Where τ is below what is detectable, detection is what matters.
    assert bits_for_threshold(users, epsilon, 10**7, 1e-3, 5) == best_bits(users, epsilon, 10**7)


def test_the_table_of_b_moves_in_steps() -> None:
    best_bits.cache_clear()
    for users in range(1000, 1100):
        bits_for(users, 4.0, 10**7)
    assert best_bits.cache_info().currsize <= 3


@pytest.mark.parametrize(
    "call",
    [
        lambda: Subspace(0, 5),
        lambda: Subspace(4.0, 0),
        lambda: Subspace(4.0, 25),
        lambda: Subspace(float("nan"), 5),
        lambda: SubspaceAggregator(Subspace(4.0, 5), SUFFIXES, buckets=0),
        lambda: best_bits(0, 4.0, 10**7),
        lambda: bits_for(10, -1.0, 10**7),
    ],
)
def test_bad_parameters_are_refused(call: Any) -> None:
    with pytest.raises(InvalidParameter):
        call()


def test_a_dense_tally_is_a_value() -> None:
    aggregator, tally = make(6, 3, 5, 1)
    assert isinstance(aggregator.dense(tally), DenseTally)
    assert aggregator.dense(tally).count == 5
