"""The fast tally against the definition, on domains small enough for slow loops."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.naive import support_counts, walsh_hadamard

from hushcall.errors import InvalidParameter
from hushcall.mechanisms.kernels import walsh

Ints = NDArray[np.int32]
Words = NDArray[np.uint32]
Reports = tuple[Words, Words, int]

seeds = st.integers(0, 2**32 - 1)
several = settings(deadline=None)


def integers(bits: int, seed: int) -> Ints:
    return np.random.default_rng(seed).integers(-50, 50, 1 << bits, dtype=np.int32)


@st.composite
def reports(draw: st.DrawFn, max_n: int = 8, max_bits: int = 9) -> Reports:
    """Reports whose rows often depend on one another, and whose values then often contradict."""
    bits = draw(st.integers(1, max_bits))
    b = draw(st.integers(0, bits + 2))
    n = draw(st.integers(0, max_n))
    pool = st.sampled_from([0, *draw(st.lists(st.integers(0, 2**bits - 1), max_size=4))])
    row = st.one_of(st.integers(0, 2**bits - 1), pool)
    rows = draw(st.lists(st.lists(row, min_size=b, max_size=b), min_size=n, max_size=n))
    values = draw(st.lists(st.integers(0, 2**b - 1), min_size=n, max_size=n))
    return np.array(rows, np.uint32).reshape(n, b), np.array(values, np.uint32), bits


def random_reports(n: int, b: int, bits: int, seed: int = 1) -> Reports:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 2**bits, (n, b), dtype=np.uint32)
    return rows, rng.integers(0, 2**b, n, dtype=np.uint32), bits


def spectrum(rows: Words, values: Words, bits: int) -> Ints:
    array = np.zeros(1 << bits, np.int32)
    walsh.accumulate(array, rows, values)
    return array


def by_spectrum(rows: Words, values: Words, bits: int) -> Ints:
    array = spectrum(rows, values, bits)
    walsh.transform(array)
    counts, rest = np.divmod(array, 1 << rows.shape[1])
    assert not rest.any()
    return counts.astype(np.int32)


def by_members(rows: Words, values: Words, bits: int) -> Ints:
    counts = np.zeros(1 << bits, np.int32)
    walsh.count_members(counts, rows, values)
    return counts


def naive(rows: Words, values: Words, bits: int) -> list[int]:
    return support_counts(rows.tolist(), values.tolist(), bits)


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = numba.get_num_threads()
    numba.set_num_threads(min(count, before))
    try:
        yield
    finally:
        numba.set_num_threads(before)


@several
@given(st.integers(1, 8), seeds)
def test_transform_is_its_definition(bits: int, seed: int) -> None:
    array = integers(bits, seed)
    expected = walsh_hadamard(array.tolist())
    walsh.transform(array)
    assert array.tolist() == expected


@pytest.mark.parametrize("bits", [5, 6, 7, 11, 12, 13, 17, 18, 19])
def test_transform_at_every_cell_of_a_larger_domain(bits: int) -> None:
    """One unit at u becomes (-1)^parity(u & x); the sizes are those where another pass sets in."""
    x = np.arange(1 << bits, dtype=np.int32)
    for u in (0, 1, 0b1011, (1 << bits) - 1, 0x5A5A5A & ((1 << bits) - 1)):
        array = np.zeros(1 << bits, np.int32)
        array[u] = 1
        walsh.transform(array)
        assert np.array_equal(array, 1 - 2 * (np.bitwise_count(x & u) & 1).astype(np.int32))


@several
@given(st.integers(1, 14), seeds)
def test_transform_twice_multiplies_by_the_length(bits: int, seed: int) -> None:
    array = integers(bits, seed)
    expected = array << bits
    walsh.transform(array)
    walsh.transform(array)
    assert np.array_equal(array, expected)


@several
@given(st.integers(1, 14), seeds, seeds)
def test_transform_of_a_sum_is_the_sum_of_transforms(bits: int, seed: int, other: int) -> None:
    a, b = integers(bits, seed), integers(bits, other)
    together = a + b
    for array in (a, b, together):
        walsh.transform(array)
    assert np.array_equal(together, a + b)


@several
@given(reports())
@example((np.zeros((3, 2), np.uint32), np.array([0, 1, 3], np.uint32), 4))  # zero rows: supports all, or none
@example((np.array([[5, 5], [5, 5]], np.uint32), np.array([3, 1], np.uint32), 3))  # twice the same row
@example((np.array([[1, 2, 3]], np.uint32), np.array([0b011], np.uint32), 2))  # 1 ^ 2 = 3 and 1 ^ 1 = 0: fits
@example((np.array([[1, 2, 3]], np.uint32), np.array([0b111], np.uint32), 2))  # 1 ^ 2 = 3, 1 ^ 1 ≠ 1: contradicts
@example((np.zeros((4, 0), np.uint32), np.zeros(4, np.uint32), 3))  # no equation: every report supports all
def test_every_way_counts_the_supporting_reports(given_reports: Reports) -> None:
    expected = naive(*given_reports)
    assert by_spectrum(*given_reports).tolist() == expected
    assert by_members(*given_reports).tolist() == expected
    assert walsh.support(*given_reports).tolist() == expected


@pytest.mark.parametrize("b", [1, 5, 9, 12, 14, 16, 18])
def test_ways_agree_on_a_domain_of_many_blocks(b: int) -> None:
    """At 16 bits the cosets spread over up to 2^7 blocks."""
    some = random_reports(50, b, 16)
    assert np.array_equal(by_spectrum(*some), by_members(*some))
    assert np.array_equal(walsh.support(*some), by_members(*some))


def test_rows_within_one_block_reach_only_that_block() -> None:
    rows, values, _ = random_reports(20, 12, 10)
    assert np.array_equal(by_spectrum(rows, values, 16), by_members(rows, values, 16))
    assert not spectrum(rows, values, 16)[1 << 10 :].any()


@several
@given(reports(), st.randoms(use_true_random=False), st.integers(0, 8))
@pytest.mark.parametrize("add", [walsh.accumulate, walsh.count_members])
def test_order_and_split_of_reports_do_not_matter(
    add: Callable[[Ints, Words, Words], None], given_reports: Reports, random: Any, cut: int
) -> None:
    rows, values, bits = given_reports
    whole, parts = np.zeros(1 << bits, np.int32), np.zeros(1 << bits, np.int32)
    add(whole, rows, values)
    order = list(range(len(rows)))
    random.shuffle(order)
    for part in (order[:cut], order[cut:]):
        add(parts, rows[part], values[part])
    assert np.array_equal(whole, parts)


def test_batches_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    some = random_reports(100, 6, 12)
    expected = by_spectrum(*some)
    monkeypatch.setattr(walsh, "_BATCH", 7)
    assert np.array_equal(by_spectrum(*some), expected)
    assert np.array_equal(by_members(*some), expected)


@pytest.mark.parametrize("b", [3, 9, 14])
@pytest.mark.parametrize("tally", [spectrum, by_spectrum, by_members])
def test_threads_do_not_matter(tally: Callable[[Words, Words, int], Ints], b: int) -> None:
    some = random_reports(500, b, 18)
    with threads(1):
        alone = tally(*some)
    with threads(2):
        assert np.array_equal(tally(*some), alone)


def test_memory_layout_of_reports_does_not_matter() -> None:
    rows, values, bits = random_reports(30, 4, 8)
    frozen = np.asfortranarray(rows)
    frozen.flags.writeable = False
    assert np.array_equal(walsh.support(frozen, values, bits), walsh.support(rows, values, bits))


def test_kernels_leave_the_reports_alone() -> None:
    rows, values, bits = random_reports(30, 4, 8)
    before = rows.copy(), values.copy()
    by_spectrum(rows, values, bits)
    by_members(rows, values, bits)
    assert np.array_equal(rows, before[0])
    assert np.array_equal(values, before[1])


def test_cheaper_way_changes_once_and_avoids_overflow() -> None:
    ways = [walsh.cheaper_direct(b, 24, 20_000) for b in range(1, 25)]
    assert ways == sorted(ways)
    assert not ways[0]
    assert ways[-1]
    assert walsh.cheaper_direct(12, 30, 1 << 19)


@several
@given(st.integers(0, 9), seeds, st.integers(-60, 60), st.data())
def test_at_least_finds_what_flatnonzero_finds(bits: int, seed: int, threshold: int, data: st.DataObject) -> None:
    counts = integers(bits, seed)
    start = data.draw(st.integers(0, counts.size))
    stop = data.draw(st.integers(start, counts.size))
    found = walsh.at_least(counts, threshold, start, stop)
    assert found.dtype == np.int64
    assert found.tolist() == (np.flatnonzero(counts[start:stop] >= threshold) + start).tolist()


ROWS, VALUES = np.zeros((2, 3), np.uint32), np.zeros(2, np.uint32)
CELLS = np.zeros(8, np.int32)
FROZEN = np.zeros(8, np.int32)
FROZEN.flags.writeable = False


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (partial(walsh.transform, np.zeros(8, np.int64)), "array"),
        (partial(walsh.transform, np.zeros((4, 4), np.int32)), "array"),
        (partial(walsh.transform, np.zeros(16, np.int32)[::2]), "array"),
        (partial(walsh.transform, FROZEN), "array"),
        (partial(walsh.transform, np.zeros(0, np.int32)), "array"),
        (partial(walsh.transform, np.zeros(1, np.int32)), "array"),
        (partial(walsh.transform, np.zeros(12, np.int32)), "array"),
        (partial(walsh.accumulate, np.zeros(6, np.int32), ROWS, VALUES), "spectrum"),
        (partial(walsh.accumulate, CELLS, ROWS.astype(np.int32), VALUES), "rows"),
        (partial(walsh.accumulate, CELLS, ROWS[0], VALUES), "rows"),
        (partial(walsh.accumulate, CELLS, np.zeros((2, 33), np.uint32), VALUES), "rows"),
        (partial(walsh.accumulate, CELLS, ROWS + np.uint32(8), VALUES), "rows"),
        (partial(walsh.accumulate, CELLS, ROWS, VALUES.astype(np.int64)), "values"),
        (partial(walsh.accumulate, CELLS, ROWS, VALUES[:1]), "values"),
        (partial(walsh.accumulate, CELLS, ROWS, VALUES + np.uint32(8)), "values"),
        (partial(walsh.accumulate, CELLS, np.zeros((2, 30), np.uint32), VALUES), "n * 2**b"),
        (partial(walsh.count_members, np.zeros(6, np.int32), ROWS, VALUES), "counts"),
        (partial(walsh.count_members, CELLS, ROWS, VALUES + np.uint32(8)), "values"),
        (partial(walsh.support, ROWS, VALUES, 0), "bits"),
        (partial(walsh.support, ROWS, VALUES, 31), "bits"),
        (partial(walsh.at_least, CELLS.astype(np.int64), 1, 0, 8), "counts"),
        (partial(walsh.at_least, CELLS, 1, 0, 9), "start, stop"),
        (partial(walsh.at_least, CELLS, 1, 5, 4), "start, stop"),
        (partial(walsh.at_least, CELLS, 1, -1, 4), "start, stop"),
    ],
)
def test_broken_arguments_are_refused(call: Callable[[], object], field: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        call()
    assert caught.value.field == field


def test_largest_sum_below_the_overflow_is_exact() -> None:
    spectrum = np.zeros(8, np.int32)
    rows = np.zeros((1, 30), np.uint32)
    walsh.accumulate(spectrum, rows, np.zeros(1, np.uint32))
    assert spectrum.tolist() == [1 << 30] + [0] * 7
