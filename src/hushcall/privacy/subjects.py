"""Whom the audit examines: every randomiser of the library, over a grid of budgets."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from hushcall.privacy.accounting import Accounting, round_cost
from hushcall.privacy.audit import Finding, examine, examine_round
from hushcall.privacy.coins import ONE
from hushcall.privacy.exact import exp_below
from hushcall.report.local_hashing import LocalHashing
from hushcall.report.original_histogram import OriginalHistogram
from hushcall.report.succinct_histogram import SuccinctHistogram

GRID = (0.5, 1.0, 2.0, 4.4, 7.0, 8.8, 12.0)
"""Budgets for finding numbers, the paper's among them; OLH adds 3 where it is part of the report."""
EPSILON_OLH = 3.0
CHANNELS = 4
"""Enough for a changed channel, its partner and two bystanders; the cost does not depend on K."""


def fair_keep(epsilon: Fraction) -> int:
    """A p for the tuned randomiser that every budget allows: three quarters of the most it could be."""
    ratio = exp_below(epsilon)
    return int(ONE * ratio / (ratio + 1) * Fraction(3, 4))


def histogram(kind: str, budget: float, accounting: Accounting, rounds: int = 2) -> SuccinctHistogram:
    """A modified succinct histogram as small as the audit needs."""
    keep = fair_keep(Fraction(budget) / rounds) if kind == "tuned" else None
    return SuccinctHistogram.with_budget(
        kind, budget, EPSILON_OLH, rounds=rounds, channels=CHANNELS, accounting=accounting, keep=keep
    )


def findings(grid: tuple[float, ...] = GRID) -> Iterator[Finding]:
    """One row after the other: single rounds, whole reports, oracles."""
    for budget in grid:
        yield from _rounds(budget)
        yield from _reports(budget)


def _rounds(budget: float) -> Iterator[Finding]:
    """One round of K channels at ``budget`` per channel."""
    for kind in ("basic", "extended"):
        chosen = histogram(kind, 2 * budget, Accounting.PAPER, rounds=1)
        claimed = round_cost(kind, Fraction(budget), Accounting.EXACT)
        paper = float(round_cost(kind, Fraction(budget), Accounting.PAPER))
        yield examine_round(chosen, claimed, epsilon=budget, paper=paper, name=f"{kind}, one round")
    tuned = histogram("tuned", budget, Accounting.EXACT, rounds=1)
    yield examine_round(tuned, Fraction(budget), epsilon=budget, paper=budget, name="tuned, one round")


def _reports(budget: float) -> Iterator[Finding]:
    """Whole reports: all T rounds and the frequency report."""
    for kind, accounting in (
        ("basic", Accounting.PAPER),
        ("basic", Accounting.EXACT),
        ("extended", Accounting.PAPER),
        ("tuned", Accounting.EXACT),
    ):
        chosen, name = histogram(kind, budget, accounting), f"sh-{kind}, {accounting.value} accounting"
        paper = budget + EPSILON_OLH
        if (kind, accounting) == ("basic", Accounting.EXACT):
            paper = 2 * budget + EPSILON_OLH
        yield examine(chosen, epsilon=paper, paper=paper, name=name)
    yield examine(OriginalHistogram(budget, channels=CHANNELS, rows=16), epsilon=budget, paper=budget)
    yield examine(LocalHashing(min(budget, 8.8)), epsilon=min(budget, 8.8), paper=min(budget, 8.8))
