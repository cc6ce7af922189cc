"""Whom the audit examines: every randomiser of the library, over a grid of budgets."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from hushcall.audit.enumeration import Finding, examine, examine_round
from hushcall.privacy.accounting import Accounting, paper_charge, round_cost
from hushcall.privacy.coins import ONE
from hushcall.privacy.exact import exp_below
from hushcall.report.local_hashing import LocalHashing
from hushcall.report.mechanism import Mechanism
from hushcall.report.original_histogram import OriginalHistogram
from hushcall.report.prefix_extending import PrefixExtending
from hushcall.report.rappor import Rappor
from hushcall.report.subspace import Subspace, WholeNumber
from hushcall.report.succinct_histogram import SuccinctHistogram
from hushcall.report.tree_histogram import TreeHistogram

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
    """One row after the other: single rounds of the histograms, then whole reports of everything."""
    for budget in grid:
        yield from _rounds(budget)
        for name, mechanism, paper in reports(budget):
            yield examine(mechanism, epsilon=budget, paper=paper, name=name)


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


def reports(budget: float) -> list[tuple[str, Mechanism, float | None]]:
    """(name, mechanism, what the paper would charge) of whole reports, all T rounds and the frequency report included.

    ``budget`` is ε_HH for the histograms and the whole budget for everything else. Hashes are kept to at most 2⁸
    values: the cost of a randomised response does not depend on how many it has, the time to enumerate them does.
    """
    size = min(LocalHashing(budget).size, 1 << 8)
    bits = size.bit_length() - 1
    return [
        ("sh-basic, paper accounting", histogram("basic", budget, Accounting.PAPER), paper_charge(budget, EPSILON_OLH)),
        (
            "sh-basic, exact accounting",
            histogram("basic", budget, Accounting.EXACT),
            paper_charge(2 * budget, EPSILON_OLH),
        ),
        ("sh-extended", histogram("extended", budget, Accounting.PAPER), paper_charge(budget, EPSILON_OLH)),
        ("sh-tuned", histogram("tuned", budget, Accounting.EXACT), None),
        ("sh-original", OriginalHistogram(budget, channels=CHANNELS, rows=16), budget),
        ("olh", LocalHashing(budget, size), budget),
        ("subspace", Subspace(budget, bits), None),
        ("whole-number", WholeNumber(budget, bits), None),
        ("pem", PrefixExtending(budget, size=size), budget),
        ("treehist", TreeHistogram(budget), budget),
        ("rappor", Rappor(budget, bits=16), budget),
    ]


SAMPLED_EPSILON = 2.0


def sampled(budget: float = SAMPLED_EPSILON) -> list[Mechanism]:
    """What the black-box audit samples: every kind of report once."""
    return [mechanism for _, mechanism, _ in reports(budget)]
