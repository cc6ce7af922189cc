"""The mechanisms that the audit examines, each as small as an audit needs, over a grid of budgets.

``budget`` is ε_HH for the histograms and the total budget for everything else. Hashes have at most 2⁸ values: the cost
of a randomised response does not depend on their number, the time to enumerate them does.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from hushcall.mechanisms.local_hashing.client import LocalHashing
from hushcall.mechanisms.mechanism import Mechanism
from hushcall.mechanisms.randomisers import Accounting, round_cost
from hushcall.mechanisms.subspace.client import Subspace, SubspaceHundreds, WholeNumber
from hushcall.mechanisms.succinct_histogram.client import SuccinctHistogram
from hushcall.protocol.exact import exp_below
from hushcall.protocol.randomness import ONE
from hushcall_lab.audit.enumeration import Finding, examine, examine_round
from hushcall_lab.rivals import names
from hushcall_lab.rivals.original_histogram.client import OriginalHistogram
from hushcall_lab.rivals.prefix_extending.client import PrefixExtending
from hushcall_lab.rivals.tree_histogram.client import TreeHistogram

GRID = (0.5, 1.0, 2.0, 4.4, 7.0, 8.8, 12.0)
"""Budgets for finding numbers, the paper's among them. OLH adds 3 where it is part of the report."""
SAMPLED_EPSILON = 2.0
EPSILON_OLH = 3.0
CHANNELS = 4
"""Enough for a changed channel, its partner and two bystanders. The cost does not depend on K."""
_MAX_VALUES = 1 << 8


@dataclass(frozen=True)
class Example:
    """A mechanism as small as an audit needs, and the ε that its paper charges for it, where there is one."""

    label: str
    mechanism: Mechanism
    paper: float | None = None


def fair_keep(epsilon: Fraction) -> int:
    """A p for the tuned randomiser that every budget allows: three quarters of the largest possible."""
    ratio = exp_below(epsilon)
    return int(ONE * ratio / (ratio + 1) * Fraction(3, 4))


def histogram(kind: str, budget: float, accounting: Accounting, rounds: int = 2) -> SuccinctHistogram:
    keep = fair_keep(Fraction(budget) / rounds) if kind == "tuned" else None
    return SuccinctHistogram.with_budget(
        kind, budget, EPSILON_OLH, rounds=rounds, channels=CHANNELS, accounting=accounting, keep=keep
    )


def _histograms(kind: str, budget: float) -> list[Example]:
    """The basic randomiser under both accountings, the others under their own."""
    if kind == "tuned":
        return [Example(names.SH_TUNED, histogram(kind, budget, Accounting.EXACT))]
    charge = budget + EPSILON_OLH
    if kind == "extended":
        return [Example(names.SH_EXTENDED, histogram(kind, budget, Accounting.PAPER), charge)]
    doubled = 2 * budget + EPSILON_OLH
    return [
        Example(f"{names.SH_BASIC}, paper accounting", histogram(kind, budget, Accounting.PAPER), charge),
        Example(f"{names.SH_BASIC}, exact accounting", histogram(kind, budget, Accounting.EXACT), doubled),
    ]


def _values(budget: float) -> int:
    """OLH's own number of hash values, capped so that they can be enumerated."""
    return min(LocalHashing(budget).size, _MAX_VALUES)


def _bits(budget: float) -> int:
    return _values(budget).bit_length() - 1


EXAMPLES: dict[str, Callable[[float], list[Example]]] = {
    names.SUBSPACE: lambda budget: [Example(names.SUBSPACE, Subspace(budget, _bits(budget)))],
    names.HUNDREDS: lambda budget: [Example(names.HUNDREDS, SubspaceHundreds(budget, _bits(budget)))],
    names.WHOLE_NUMBER: lambda budget: [Example(names.WHOLE_NUMBER, WholeNumber(budget, _bits(budget)))],
    names.SH_BASIC: partial(_histograms, "basic"),
    names.SH_EXTENDED: partial(_histograms, "extended"),
    names.SH_TUNED: partial(_histograms, "tuned"),
    names.SH_ORIGINAL: lambda budget: [
        Example(names.SH_ORIGINAL, OriginalHistogram(budget, channels=CHANNELS, rows=16), budget)
    ],
    names.PEM: lambda budget: [Example(names.PEM, PrefixExtending(budget, size=_values(budget)), budget)],
    names.TREEHIST: lambda budget: [Example(names.TREEHIST, TreeHistogram(budget), budget)],
}
"""All variants of each mechanism at a budget."""


def findings(grid: tuple[float, ...] = GRID) -> Iterator[Finding]:
    for budget in grid:
        yield from _rounds(budget)
        for example in reports(budget):
            yield examine(example.mechanism, epsilon=budget, paper=example.paper, name=example.label)


def rows_per_budget() -> int:
    return 3 + len(reports(1.0))


def _rounds(budget: float) -> Iterator[Finding]:
    for kind in ("basic", "extended"):
        mechanism = histogram(kind, 2 * budget, Accounting.PAPER, rounds=1)
        claimed = round_cost(kind, Fraction(budget), Accounting.EXACT)
        paper = float(round_cost(kind, Fraction(budget), Accounting.PAPER))
        yield examine_round(mechanism, claimed, epsilon=budget, paper=paper, name=f"{kind}, one round")
    tuned = histogram("tuned", budget, Accounting.EXACT, rounds=1)
    yield examine_round(tuned, Fraction(budget), epsilon=budget, paper=budget, name="tuned, one round")


def reports(budget: float) -> list[Example]:
    every = [example for variants in EXAMPLES.values() for example in variants(budget)]
    return [*every, Example(LocalHashing.name, LocalHashing(budget, _values(budget)), budget)]
