"""Whom the audit examines: every randomiser of the library, over a grid of budgets."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from hushcall.audit.enumeration import Finding, examine, examine_round
from hushcall.mechanisms import examples
from hushcall.mechanisms.examples import histogram
from hushcall.mechanisms.scheme import Example
from hushcall.mechanisms.schemes import SCHEMES
from hushcall.privacy.accounting import Accounting, round_cost
from hushcall.report.mechanism import Mechanism

GRID = (0.5, 1.0, 2.0, 4.4, 7.0, 8.8, 12.0)
"""Budgets for finding numbers, the paper's among them; OLH adds 3 where it is part of the report."""


def findings(grid: tuple[float, ...] = GRID) -> Iterator[Finding]:
    """One row after the other: single rounds of the histograms, then whole reports of everything."""
    for budget in grid:
        yield from _rounds(budget)
        for one in reports(budget):
            yield examine(one.mechanism, epsilon=budget, paper=one.paper, name=one.label)


def rows_per_budget() -> int:
    """How many rows :func:`findings` yields for each budget, for a progress bar."""
    return 3 + len(reports(1.0))


def _rounds(budget: float) -> Iterator[Finding]:
    """One round of K channels at ``budget`` per channel."""
    for kind in ("basic", "extended"):
        chosen = histogram(kind, 2 * budget, Accounting.PAPER, rounds=1)
        claimed = round_cost(kind, Fraction(budget), Accounting.EXACT)
        paper = float(round_cost(kind, Fraction(budget), Accounting.PAPER))
        yield examine_round(chosen, claimed, epsilon=budget, paper=paper, name=f"{kind}, one round")
    tuned = histogram("tuned", budget, Accounting.EXACT, rounds=1)
    yield examine_round(tuned, Fraction(budget), epsilon=budget, paper=budget, name="tuned, one round")


def reports(budget: float) -> list[Example]:
    """Whole reports of every mechanism, all T rounds and the frequency report included, and the latter by itself."""
    every = [example for scheme in SCHEMES.values() for example in scheme.examples(budget)]
    return [*every, examples.counting(budget)]


SAMPLED_EPSILON = 2.0


def sampled(budget: float = SAMPLED_EPSILON) -> list[Mechanism]:
    """What the black-box audit samples: every kind of report once."""
    return [example.mechanism for example in reports(budget)]
