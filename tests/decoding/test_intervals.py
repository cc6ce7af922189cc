"""Intervals cover at their level, over rounds with several b too, and what selection does to them is as documented."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from hushcall.decoding.pooled import PooledSupport
from hushcall.mechanisms.decision import Rule, law_of
from hushcall.mechanisms.subspace.client import Subspace

WEEKS = [(4.0, (5, 6), 300), (8.0, (8, 9), 100), (8.0, (8, 9, 10), 300)]
PAGE = (Path(__file__).parents[2] / "docs" / "mechanism.md").read_text(encoding="utf-8")


def covered(epsilon: float, bits: Sequence[int], phones: int, holders: int, split: str, runs: int) -> float:
    """The share of intervals of a seven-round window that hold the true count, for one way to split the holders."""
    generator = np.random.default_rng([round(epsilon), *bits, phones, holders, len(split)])
    law = PooledSupport.of(law_of(Subspace(epsilon, bits[day % len(bits)]), phones) for day in range(7))
    sizes, hits = [part.reports for part in law.parts], 0
    for _ in range(runs):
        held = generator.multivariate_hypergeometric(sizes, holders).tolist()
        if split != "even":
            held = [0] * len(sizes)
            held[0 if split == "first" else -1] = holders
        counts = [
            int(generator.binomial(mine, part.p) + generator.binomial(part.reports - mine, part.q))
            for part, mine in zip(law.parts, held, strict=True)
        ]
        hitter = law.hitter(1, counts, 0)
        hits += hitter.low <= holders <= hitter.high
    return hits / runs


@pytest.mark.parametrize(("epsilon", "bits", "phones"), WEEKS)
def test_mixed_windows_cover(epsilon: float, bits: Sequence[int], phones: int) -> None:
    """60 seeded runs each. 0.95 less five deviations is 0.81; the former interval is told apart by the slow test."""
    for split in ("even", "first", "last"):
        assert covered(epsilon, bits, phones, 12, split, 60) >= 0.81


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "bits", "phones"), WEEKS)
@pytest.mark.parametrize("holders", [8, 12, 40])
@pytest.mark.parametrize("split", ["even", "first", "last"])
def test_mixed_windows_cover_in_a_thousand_runs(
    epsilon: float, bits: Sequence[int], phones: int, holders: int, split: str
) -> None:
    """Seeded: 0.947 is the least of all cases. A normal law's covers 0.89 to 0.93 of 8 to 12 holders."""
    assert covered(epsilon, bits, phones, holders, split, 1000) >= 0.945


def selected(epsilon: float, bits: int, level: float, power: float) -> tuple[float, float]:
    """(coverage, mean estimate by the true count) of a number that is listed with that chance, once it is listed."""
    law = law_of(Subspace(epsilon, bits), 1000)
    least = Rule(10, level / 4, 8_000_000 * 400).least(law)
    holders = law.detectable(least, power)
    first, mass = law.mass(holders)
    counts = np.arange(first, first + len(mass))
    likely = (counts >= least) & (mass > 1e-6)
    counts, weights = counts[likely], mass[likely] / mass[likely].sum()
    edges = [law.interval(int(count)) for count in counts]
    inside = np.array([low <= holders <= high for low, high in edges])
    mean = float(weights @ np.asarray(law.estimate(counts.astype(np.float64))))
    return float(weights[inside].sum()), mean / holders


def test_the_warning_about_selection_has_the_figures_of_the_law() -> None:
    """1000 phones, both shipped ε that bucketed services use most, both levels."""
    for power, words in ((0.5, r"listed\s+with\s+50\s+%"), (0.05, r"listed\s+with\s+5\s+%")):
        rows = [selected(*run, level, power) for run in ((4.0, 5), (8.0, 9)) for level in (1e-3, 0.05)]
        figures = re.search(rf"{words}[^.;]*?(\d+)\s+to\s+(\d+)\s+%[^.;]*?(\d+)\s+to\s+(\d+)\s+%", PAGE)
        assert figures is not None, words
        high = [round(100 * (ratio - 1)) for _, ratio in rows]
        cover = [round(100 * share) for share, _ in rows]
        assert [int(figure) for figure in figures.groups()] == [min(high), max(high), min(cover), max(cover)]
