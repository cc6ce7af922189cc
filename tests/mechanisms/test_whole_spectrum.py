"""Whole-number mode for many reports: shared updates give what one area code after the other gives."""

import random
from itertools import chain

import numpy as np
import pytest
from tests.mechanisms.cases import reports_of

from hushcall.errors import InvalidParameter
from hushcall.mechanisms.subspace.client import WholeNumber
from hushcall.mechanisms.subspace.server import SubspaceAggregator
from hushcall.mechanisms.subspace.spectrum import GROUP, Characters
from hushcall.mechanisms.tallies import SparseTally

SUFFIXES = range(2_000_000, 10_000_000)
SUFFIX_BITS, ITEM_BITS = 24, 33


def some(n: int, b: int) -> tuple[SubspaceAggregator, SparseTally]:
    rng = np.random.default_rng(n + b)
    aggregator = SubspaceAggregator(WholeNumber(6.0, b), SUFFIXES, areas=469)
    rows = rng.integers(0, 1 << 33, (n, b), dtype=np.uint64)
    return aggregator, SparseTally(aggregator.made_by, rows, rng.integers(0, 1 << b, n).astype(np.uint32))


@pytest.mark.parametrize(("n", "b", "group"), [(7, 1, 0), (5, 4, 13), (1, 8, 29)])
def test_spectra_of_a_group_are_their_definition(n: int, b: int, group: int) -> None:
    _, tally = some(n, b)
    spectra = np.empty((GROUP, 1 << SUFFIX_BITS), np.int32)
    Characters.of(tally.rows, tally.values, SUFFIX_BITS, ITEM_BITS).group(group, spectra)
    wanted: dict[tuple[int, int], int] = {}
    for rows, value in zip(tally.rows.tolist(), tally.values.tolist(), strict=True):
        for u in range(1 << b):
            character = 0
            for place in range(b):
                character ^= rows[place] if u >> place & 1 else 0
            for place in range(GROUP):
                turned = (u & value).bit_count() + (character >> SUFFIX_BITS & (group * GROUP + place)).bit_count()
                key = place, character & ((1 << SUFFIX_BITS) - 1)
                wanted[key] = wanted.get(key, 0) + (-1 if turned & 1 else 1)
    found = {(int(p), int(x)): int(spectra[p, x]) for p, x in zip(*np.nonzero(spectra), strict=True)}
    assert found == {key: value for key, value in wanted.items() if value}


@pytest.mark.slow
def test_both_ways_count_the_same() -> None:
    aggregator, tally = some(3000, 9)
    areas = [468, 17, 23]
    shared = {area: (counts >> shift).copy() for area, counts, shift in aggregator.by_groups(tally, areas)}
    for area, counts, shift in aggregator.one_by_one(tally, areas):
        assert shift == 0
        assert np.array_equal(shared[area], counts)


@pytest.mark.slow
def test_parts_are_disjoint_and_give_everything() -> None:
    for areas in (1, 16, 17, 40, 469):
        for parts in (1, 2, 7, 16, 40):
            aggregator = SubspaceAggregator(WholeNumber(6.0, 7, 24 if areas == 1 else 33), SUFFIXES, areas=areas)
            ranges = [aggregator.areas_of(part, parts) for part in range(parts)]
            assert [area for some in ranges for area in some] == list(range(areas))
    aggregator = SubspaceAggregator(WholeNumber(6.0, 7), SUFFIXES, areas=18)
    items = [17 << 24 | 5_550_143] * 200 + [3 << 24 | 7_000_000] * 180
    items += [random.Random(1).randrange(18) << 24 | suffix for suffix in random.Random(2).sample(SUFFIXES, 300)]
    tally = aggregator.tally(reports_of(aggregator, items, b"parts"))
    whole = aggregator.find(tally, 5)
    assert [hitter.item for hitter in whole] == [17 << 24 | 5_550_143, 3 << 24 | 7_000_000]
    found = [list(chain(*aggregator.find_in(tally, 5, aggregator.areas_of(part, 2)))) for part in range(2)]
    assert [len(part) for part in found] == [1, 1]
    assert sorted(hitter for part in found for hitter in part) == sorted(whole)


def test_sharing_pays_for_many_reports_and_never_overflows() -> None:
    def shared(reports: int, bits: int) -> bool:
        return SubspaceAggregator(WholeNumber(6.0, bits), SUFFIXES, areas=469).shares_updates(reports, 469)

    assert shared(10**6, 9)
    assert shared(10**7, 6)
    assert not shared(1000, 9)
    assert not shared(10**7, 9)
    assert not shared(10**4, 17)
    with pytest.raises(InvalidParameter):
        Characters.of(np.zeros((1 << 11, 20), np.uint64), np.zeros(1 << 11, np.uint32), SUFFIX_BITS, ITEM_BITS)


def test_more_than_512_area_codes_share_their_updates_too() -> None:
    """Ten bits of area code, as India's plan has: the sign of a character stands above them."""
    rng = np.random.default_rng(10)
    aggregator = SubspaceAggregator(WholeNumber(6.0, 4, 10 + 14), range(1, 1 << 14), areas=773)
    rows = rng.integers(0, 1 << 24, (200, 4), dtype=np.uint64)
    tally = SparseTally(aggregator.made_by, rows, rng.integers(0, 1 << 4, 200).astype(np.uint32))
    areas = [0, 511, 512, 772]
    shared = {area: (counts >> shift).copy() for area, counts, shift in aggregator.by_groups(tally, areas)}
    for area, counts, _ in aggregator.one_by_one(tally, areas):
        assert np.array_equal(shared[area], counts)
