"""The phone's dice: the stream is the documented one, words are cut exactly, a dry source is an error."""

import hashlib
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushcall.errors import InvalidParameter
from hushcall.protocol.randomness import ONE, os_entropy, read, seeded, uniform, words

word = st.integers(0, ONE - 1)


@given(st.binary(max_size=40), st.lists(st.integers(0, 200), min_size=1, max_size=5))
def test_a_seeded_stream_is_shake256_of_the_read_number_and_the_seed(seed: bytes, sizes: list[int]) -> None:
    rand = seeded(seed)
    for number, size in enumerate(sizes):
        expected = hashlib.shake_256(number.to_bytes(8, "big") + seed).digest(size)
        assert rand(size) == expected


def test_two_reads_of_one_source_differ_and_two_sources_of_one_seed_agree() -> None:
    one, two = seeded(b"seed"), seeded(b"seed")
    first, second = one(32), one(32)
    assert first != second
    assert (two(32), two(32)) == (first, second)


def test_the_size_of_a_read_does_not_change_the_reads_after_it() -> None:
    one, two = seeded(b"seed"), seeded(b"seed")
    one(1)
    two(1000)
    assert one(32) == two(32)


def test_the_operating_systems_entropy_has_the_right_length_and_never_repeats() -> None:
    assert [len(os_entropy(size)) for size in (0, 1, 100)] == [0, 1, 100]
    assert os_entropy(32) != os_entropy(32)


@pytest.mark.parametrize("returned", [0, 7, 9, 16])
def test_a_source_that_returns_another_number_of_bytes_is_an_error(returned: int) -> None:
    with pytest.raises(InvalidParameter, match=f"rand must return exactly 8 bytes, got '{returned} bytes'"):
        read(lambda _: bytes(returned), 8)


def test_read_passes_the_bytes_through() -> None:
    assert read(lambda count: bytes(range(count)), 5) == bytes(range(5))


@given(st.lists(word, max_size=5))
def test_words_are_cut_most_significant_byte_first(expected: list[int]) -> None:
    assert words(b"".join(w.to_bytes(8, "big") for w in expected)) == tuple(expected)


@given(word, st.integers(1, 1 << 32))
def test_a_uniform_draw_stays_in_range_and_is_the_word_scaled_down(draw: int, size: int) -> None:
    value = uniform(draw, size)
    assert 0 <= value < size
    assert value * ONE <= draw * size < (value + 1) * ONE


@given(st.integers(0, 40), word)
def test_a_power_of_two_takes_the_top_bits(bits: int, draw: int) -> None:
    assert uniform(draw, 1 << bits) == draw >> (64 - bits)


@pytest.mark.parametrize("size", [3, 6, 21, 459, 8_000_000])
def test_no_value_is_more_than_one_word_likelier_than_another(size: int) -> None:
    """Value v gets the words from ⌈v·2⁶⁴/size⌉ on: shares of 2⁶⁴ that differ by one at most."""
    starts = [-(-value * ONE // size) for value in range(min(size, 2000) + 1)]
    for value, start in enumerate(starts[1:], start=1):
        assert uniform(start - 1, size) == value - 1
        if value < size:
            assert uniform(start, size) == value
    shares = Counter(after - before for before, after in pairwise(starts))
    assert max(shares) - min(shares) <= 1
