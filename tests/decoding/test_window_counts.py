"""Several rounds in one array: every window's counts are the plain sums, however many share a transform."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mechanisms.cases import reports_of

from hushcall.decoding.window import WORD_BITS, WindowCounts, fields_by_transform
from hushcall.errors import InvalidParameter
from hushcall.mechanisms.kernels import walsh
from hushcall.mechanisms.subspace.client import Subspace
from hushcall.mechanisms.subspace.server import SubspaceAggregator, few_supports

BITS = 10
EVERY = range(1 << BITS)
NO_PLACES = np.zeros(0, np.int64)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 40), st.booleans()), min_size=1, max_size=6),
    st.sets(st.integers(1, 6), min_size=1, max_size=4),
    st.integers(0, 10**6),
)
def test_window_counts_of_any_mixture_counts_like_the_plain_sum(
    rounds: list[tuple[int, int, bool]], lengths: set[int], seed: int
) -> None:
    """Listed or transformed, sparse or dense, whatever b, with fields or without: the same counts in every window."""
    ends = sorted({min(length, len(rounds)) for length in lengths})
    window_counts, world = WindowCounts(BITS, [(n, b) for b, n, _ in rounds], ends), random.Random(seed)
    tallied, counts = [], []
    for b, n, dense in rounds:
        aggregator = SubspaceAggregator(Subspace(4.0, b, BITS), EVERY)
        tally = aggregator.tally(reports_of(aggregator, [world.randrange(1 << BITS) for _ in range(n)], b"%d" % seed))
        tallied.append((aggregator, aggregator.dense(tally) if dense else tally))
        counts.append(few_supports(tally, EVERY))
    least = [world.randrange(30) for _ in ends]
    for _ in range(2):  # the memory is used again
        found = list(window_counts.at_least(tallied, [(limit, limit) for limit in least], EVERY, NO_PLACES))
        assert [window for window, _, _ in found] == list(range(len(ends)))
        for (_, places, seen), end, threshold in zip(found, ends, least, strict=True):
            whole = np.sum(counts[:end], axis=0)
            assert places == np.flatnonzero(whole >= threshold).tolist()
            assert seen == whole[places].tolist()


def test_a_week_of_a_small_bucket_is_one_transform_and_of_a_nations_four() -> None:
    ends = [1, 2, 4, 7]
    assert [len(fields) for fields in fields_by_transform([58] * 7, ends, 5)] == [4]
    assert [len(fields) for fields in fields_by_transform([1000] * 7, ends, 5)] == [2, 2]
    assert [len(fields) for fields in fields_by_transform([1_000_000] * 7, ends, 5)] == [1, 1, 1, 1]
    for sizes in ([58] * 7, [1000] * 7, [3, 0, 70, 1, 1, 900, 2]):
        for fields in fields_by_transform(sizes, ends, 5):
            assert sum(field.width for field in fields) + 5 <= WORD_BITS
            assert all(sum(sizes[field.first : field.last]) < 1 << field.width for field in fields)


def test_fields_that_do_not_fit_are_refused() -> None:
    words = np.zeros(16, np.int32)
    with pytest.raises(InvalidParameter, match="widths"):
        walsh.some_at_least(words, 5, [14, 14], [1, 1], 0, 16)
    with pytest.raises(InvalidParameter, match="start, stop"):
        walsh.some_at_least(words, 5, [14], [1], 0, 17)
    rows, values = np.ones((3, 2), np.uint32), np.zeros(3, np.uint32)
    for fields in (np.zeros(2, np.int32), np.full(3, 32, np.int32)):
        with pytest.raises(InvalidParameter, match="fields must be bits below 32, one for each report"):
            walsh.accumulate(words, rows, values, fields=fields)


@settings(deadline=None)
@given(st.lists(st.integers(0, 255), min_size=1, max_size=70), st.integers(0, 8), st.integers(0, 99))
def test_some_at_least_is_the_plain_loop(values: list[int], first: int, threshold: int) -> None:
    words = (np.array(values, np.uint32) << np.uint32(first + 24) >> np.uint32(0)).view(np.int32)
    words |= np.array([value << first for value in values], np.int32)
    found = walsh.some_at_least(words, first, [8, 24 - first], [threshold, 1 << 20], 0, len(values))
    sums = [(int(word) & 0xFFFFFFFF) >> first for word in words]
    expected = [
        place for place, word in enumerate(sums) if word % 256 >= threshold or word % 256 + (word >> 8) >= 1 << 20
    ]
    assert found.tolist() == expected
