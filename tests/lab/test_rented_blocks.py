"""The block test that was left out: its bound holds for real matrices, and its figures are those of the docs."""

import math
import random
from pathlib import Path

import pytest

from hushcall.lab.study import rented_blocks as blocks
from hushcall.report.subspace import Subspace, linear_hash

RESULTS = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")
REPORTS = 3000


def supported(bits: int, start: int, draws: random.Random) -> int:
    """How many numbers of a block one honest report from outside supports."""
    mechanism = Subspace(8.0, bits)
    rows = mechanism.rows(draws.randbytes(32))
    value = linear_hash(rows, start + 5000)
    if draws.random() > blocks.Case(8.0, bits, 1).p:
        value ^= draws.randrange(1, 1 << bits)
    return sum(linear_hash(rows, x) == value for x in range(start, start + blocks.BLOCK))


@pytest.mark.parametrize(("bits", "start"), [(5, 5_550_100), (8, 5_551_200)])
def test_mean_variance_and_moments_are_those_of_real_reports(bits: int, start: int) -> None:
    """Seeded; each comparison would fail by chance once in 10⁶ draws of the seed, at most."""
    draws = random.Random(bits)
    seen = [supported(bits, start, draws) for _ in range(REPORTS)]
    case = blocks.Case(8.0, bits, 1)
    mean = sum(seen) / REPORTS
    assert abs(mean - blocks.BLOCK * case.q) < 5 * math.sqrt(case.variance / REPORTS)
    assert sum((one - mean) ** 2 for one in seen) / REPORTS == pytest.approx(case.variance, rel=0.35)
    for slope in (0.1, 0.2):
        powers = [math.exp(slope * one) for one in seen]
        moment = sum(powers) / REPORTS
        spread = math.sqrt(sum((one - moment) ** 2 for one in powers)) / REPORTS
        assert moment - 5 * spread < math.exp(blocks.log_moment(blocks.parts(start % 128), bits, slope)) < 1.5 * moment


def test_bounds_lie_in_their_order() -> None:
    case = blocks.Case(8.0, 11, 1000)
    found = [tail(case, case.excess) for tail in (blocks.cantelli, blocks.linear, blocks.normal)]
    assert found == sorted(found, reverse=True)
    assert blocks.service(case, case.excess) > blocks.linear(case, case.excess)


def test_the_results_page_has_the_table() -> None:
    assert blocks.table() in RESULTS
