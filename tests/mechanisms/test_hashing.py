"""Multiply-shift hashing is pairwise independent, exactly; derived seeds never run into one another."""

import hashlib
from collections import Counter
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from hushcall.mechanisms.local_hashing.client import HASH_BITS, MultiplyShift
from hushcall.protocol.randomness import ONE, seeded
from hushcall.protocol.seeds import SEED_BYTES, derive

word = st.integers(0, ONE - 1)


def joint_laws(item_bits: int, hash_bits: int, word_bits: int) -> set[tuple[int, ...]]:
    """For every pair of items, how often each pair of hashes occurs over all a and b of ``word_bits`` bits.

    The real code runs: with a and b in the upper ``word_bits`` of their 64 bits, it *is* the small family.
    """
    shift, values = 64 - word_bits, 1 << hash_bits
    family = [MultiplyShift(a << shift, b << shift) for a, b in product(range(1 << word_bits), repeat=2)]
    table = [[h.bits(item, hash_bits) for h in family] for item in range(1 << item_bits)]
    laws = set()
    for x, y in combinations(table, 2):
        counts = Counter(zip(x, y, strict=True))
        laws.add(tuple(counts[pair] for pair in product(range(values), range(values))))
    return laws


@pytest.mark.parametrize(("item_bits", "hash_bits"), [(4, 3), (5, 2), (2, 4), (6, 1)])
def test_the_family_is_exactly_pairwise_independent_when_words_are_wide_enough(item_bits: int, hash_bits: int) -> None:
    word_bits = item_bits + hash_bits - 1
    assert joint_laws(item_bits, hash_bits, word_bits) == {(4 ** (word_bits - hash_bits),) * 4**hash_bits}


def test_one_bit_less_and_it_is_not() -> None:
    """The enumeration can tell: with w + k − 2 bits some pair of items is uneven."""
    assert len(joint_laws(item_bits=4, hash_bits=3, word_bits=5)) > 1


def test_the_real_words_are_wide_enough_for_whole_numbers() -> None:
    assert 34 + HASH_BITS - 1 <= 64


PAIRS = [(0, 1), (1, 2), (5550143, 5550144), (2_000_000, 9_999_999), (0, 1 << 33), (1 << 24, (1 << 34) - 1)]


@pytest.mark.parametrize(("x", "y"), PAIRS)
def test_hashes_of_two_items_are_uniform_together_under_random_seeds(x: int, y: int) -> None:
    """Chi-square on 8 × 8 and 7 × 7 cells, 20 000 seeds: 12 tests at 10⁻⁵, so 1 in 8 000 choices of seeds fails."""
    rand = seeded(b"pairs" + x.to_bytes(8, "big") + y.to_bytes(8, "big"))
    family = [MultiplyShift.from_seed(rand(SEED_BYTES)) for _ in range(20_000)]
    tables = (
        (Counter((h.bits(x, 3), h.bits(y, 3)) for h in family), 8),
        (Counter((h.below(x, 7), h.below(y, 7)) for h in family), 7),
    )
    for cells, size in tables:
        expected = len(family) / size**2
        statistic = sum((cells[pair] - expected) ** 2 / expected for pair in product(range(size), range(size)))
        assert sum(cells.values()) == len(family)
        assert float(chi2.sf(statistic, size**2 - 1)) > 1e-5


@given(word, word, st.integers(0, (1 << 34) - 1), st.integers(0, HASH_BITS))
def test_bits_is_the_formula(a: int, b: int, item: int, count: int) -> None:
    assert MultiplyShift(a, b).bits(item, count) == (a * item + b) % 2**64 // 2 ** (64 - count)


@given(word, word, st.integers(0, (1 << 34) - 1), st.integers(1, 1 << 24))
def test_below_stays_below_and_agrees_with_bits_on_powers_of_two(a: int, b: int, item: int, size: int) -> None:
    h = MultiplyShift(a, b)
    assert 0 <= h.below(item, size) < size
    bits = size.bit_length() - 1
    assert h.below(item, 1 << bits) == h.bits(item, bits)


def test_a_seed_gives_a_and_then_b_most_significant_byte_first() -> None:
    h = MultiplyShift.from_seed(bytes(range(32)))
    assert (h.a, h.b) == (0x0001020304050607, 0x08090A0B0C0D0E0F)


def test_derive_is_sha256_of_everything_behind_its_length() -> None:
    text = b"\0\0\0\x12hushcall/1/channel" + b"\0\0\0\x02ab" + b"\0\0\0\0" + b"\0\0\0\x01c"
    assert derive("channel", b"ab", b"", b"c") == hashlib.sha256(text).digest()


call = st.tuples(st.text("ab/", max_size=3), st.lists(st.binary(max_size=3), max_size=3))


@given(call, call)
def test_different_parts_never_give_the_same_seed(one: tuple[str, list[bytes]], two: tuple[str, list[bytes]]) -> None:
    assert (derive(one[0], *one[1]) == derive(two[0], *two[1])) == (one == two)


def test_moving_a_byte_from_one_part_to_the_next_changes_the_seed() -> None:
    ways = [("x", b"ab", b"c"), ("x", b"a", b"bc"), ("x", b"abc"), ("x", b"", b"abc"), ("xa", b"bc"), ("xabc",)]
    assert len({derive(label, *parts) for label, *parts in ways}) == len(ways)  # type: ignore[arg-type]
