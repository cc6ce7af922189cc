"""Every mechanism as small as an audit needs it: a budget comes in, the mechanism and what its paper charges leave.

``budget`` is ε_HH for the histograms and the whole budget for everything else. Hashes are kept to at most 2⁸ values:
the cost of a randomised response does not depend on how many it has, the time to enumerate them does.
"""

from __future__ import annotations

from fractions import Fraction

from hushcall.mechanisms import names
from hushcall.mechanisms.scheme import Example
from hushcall.privacy.accounting import Accounting, paper_charge
from hushcall.privacy.coins import ONE
from hushcall.privacy.exact import exp_below
from hushcall.report.local_hashing import LocalHashing
from hushcall.report.original_histogram import OriginalHistogram
from hushcall.report.prefix_extending import PrefixExtending
from hushcall.report.rappor import Rappor
from hushcall.report.subspace import Subspace, WholeNumber
from hushcall.report.succinct_histogram import SuccinctHistogram
from hushcall.report.tree_histogram import TreeHistogram

EPSILON_OLH = 3.0
CHANNELS = 4
"""Enough for a changed channel, its partner and two bystanders; the cost does not depend on K."""
_MOST_VALUES = 1 << 8


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


def of_histogram(kind: str, budget: float) -> list[Example]:
    """The basic randomiser under both accountings, the others under their own."""
    if kind == "tuned":
        return [Example(names.SH_TUNED, histogram(kind, budget, Accounting.EXACT))]
    charge = paper_charge(budget, EPSILON_OLH)
    if kind == "extended":
        return [Example(names.SH_EXTENDED, histogram(kind, budget, Accounting.PAPER), charge)]
    doubled = paper_charge(2 * budget, EPSILON_OLH)
    return [
        Example(f"{names.SH_BASIC}, paper accounting", histogram(kind, budget, Accounting.PAPER), charge),
        Example(f"{names.SH_BASIC}, exact accounting", histogram(kind, budget, Accounting.EXACT), doubled),
    ]


def counting(budget: float) -> Example:
    """OLH, the part of a histogram's report that counts: no mechanism of its own here, and audited by itself too."""
    return Example(LocalHashing.name, LocalHashing(budget, values(budget)), budget)


def values(budget: float) -> int:
    """How many values a hash has: OLH's own choice, but not too many to enumerate."""
    return min(LocalHashing(budget).size, _MOST_VALUES)


def of_subspace(budget: float) -> list[Example]:
    """As many bits as OLH would have."""
    return [Example(names.SUBSPACE, Subspace(budget, values(budget).bit_length() - 1))]


def of_whole_number(budget: float) -> list[Example]:
    """The same over 33 bits."""
    return [Example(names.WHOLE_NUMBER, WholeNumber(budget, values(budget).bit_length() - 1))]


def of_original(budget: float) -> list[Example]:
    """With few channels and few rows of its counting part."""
    return [Example(names.SH_ORIGINAL, OriginalHistogram(budget, channels=CHANNELS, rows=16), budget)]


def of_pem(budget: float) -> list[Example]:
    """PEM, with a hash small enough to enumerate."""
    return [Example(names.PEM, PrefixExtending(budget, size=values(budget)), budget)]


def of_tree(budget: float) -> list[Example]:
    """TreeHist: one bit, so as it is."""
    return [Example(names.TREEHIST, TreeHistogram(budget), budget)]


def of_rappor(budget: float) -> list[Example]:
    """RAPPOR with a small filter."""
    return [Example(names.RAPPOR, Rappor(budget, bits=16), budget)]
