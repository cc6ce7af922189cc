"""Whole-number mode for many reports: shared updates give what one area code after the other gives."""

import random

import numpy as np
import pytest
from tests.mechanisms import reports_of

from hushcall.errors import InvalidParameter
from hushcall.learn.subspace import SparseTally
from hushcall.learn.whole_number import WholeNumberLearner, part_of, updates_are_shared
from hushcall.learn.whole_spectrum import GROUP, SUFFIX_BITS, Characters
from hushcall.report.subspace import WholeNumber

SUFFIXES = range(2_000_000, 10_000_000)


def some(n: int, b: int) -> tuple[WholeNumberLearner, SparseTally]:
    rng = np.random.default_rng(n + b)
    learner = WholeNumberLearner(WholeNumber(6.0, b), SUFFIXES, 469)
    rows = rng.integers(0, 1 << 33, (n, b), dtype=np.uint64)
    return learner, SparseTally(learner.made_by, rows, rng.integers(0, 1 << b, n).astype(np.uint32))


@pytest.mark.parametrize(("n", "b", "group"), [(7, 1, 0), (5, 4, 13), (1, 8, 29)])
def test_spectra_of_a_group_are_their_definition(n: int, b: int, group: int) -> None:
    _, tally = some(n, b)
    spectra = np.empty((GROUP, 1 << SUFFIX_BITS), np.int32)
    Characters.of(tally.rows, tally.values).group(group, spectra)
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
    learner, tally = some(3000, 9)
    areas = [468, 17, 23]
    shared = {area: (counts >> shift).copy() for area, counts, shift in learner.by_groups(tally, areas)}
    for area, counts, shift in learner.one_by_one(tally, areas):
        assert shift == 0
        assert np.array_equal(shared[area], counts)


@pytest.mark.slow
def test_parts_are_disjoint_and_give_everything() -> None:
    for areas in (1, 16, 17, 40, 469):
        for parts in (1, 2, 7, 16, 40):
            ranges = [part_of(areas, part, parts) for part in range(parts)]
            assert [area for some in ranges for area in some] == list(range(areas))
    learner = WholeNumberLearner(WholeNumber(6.0, 7), SUFFIXES, 18)
    items = [17 << 24 | 5_550_143] * 200 + [3 << 24 | 7_000_000] * 180
    items += [random.Random(1).randrange(18) << 24 | suffix for suffix in random.Random(2).sample(SUFFIXES, 300)]
    tally = learner.tally(reports_of(learner, items, b"parts"))
    whole = learner.find(tally, 5)
    assert [hitter.item for hitter in whole] == [17 << 24 | 5_550_143, 3 << 24 | 7_000_000]
    found = [learner.find_part(tally, 5, part, 2) for part in range(2)]
    assert [len(part) for part in found] == [1, 1]
    assert sorted(hitter for part in found for hitter in part) == sorted(whole)


def test_sharing_pays_for_many_reports_and_never_overflows() -> None:
    assert updates_are_shared(10**6, 9, 469)
    assert updates_are_shared(10**7, 6, 469)
    assert not updates_are_shared(1000, 9, 469)
    assert not updates_are_shared(10**7, 9, 469)
    assert not updates_are_shared(10**4, 17, 469)
    with pytest.raises(InvalidParameter):
        Characters.of(np.zeros((1 << 11, 20), np.uint64), np.zeros(1 << 11, np.uint32))
