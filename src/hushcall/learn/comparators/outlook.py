"""Before anyone deploys a rival: its chance to find a number, from the laws of its own decisions.

Each stage of PEM and TreeHist sees its share of the reports and keeps what reaches a cut; stages are independent.
These are approximations (the cut of PEM is where noise fills its places in expectation); the experiments measure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from hushcall.learn.comparators.splitting import roots
from hushcall.learn.decision import Support
from hushcall.report.splitting import PrefixSplit


class Staged(Protocol):
    """A learner that descends from short prefixes to long ones."""

    @property
    def mechanism(self) -> PrefixSplit:
        """The phones' half, with the parameters that were planned with."""

    @property
    def domain(self) -> range:
        """The items that exist: what spells no number is never listed."""

    def law(self, reports: int) -> Support:
        """The odds of support at every stage."""

    def stage(self, law: Support, nodes: int, *, last: bool) -> tuple[int, int]:
        """(the count that is kept, how many nodes are kept) where so many nodes are looked at."""


def staged_chance(learner: Staged, users: int, tau: float) -> Callable[[int], float]:
    """The probability that a number is listed, as a function of its holders among ``users`` reports."""
    chosen, lengths = learner.mechanism, learner.mechanism.lengths
    groups, odds = chosen.groups, learner.law(1)
    law = Support(max(users // groups, 1), odds.p, odds.q)
    nodes, cuts = len(roots(lengths[0], chosen.item_bits, learner.domain)), []
    for place, length in enumerate(lengths):
        last = place == groups - 1
        cut, kept = learner.stage(law, nodes, last=last)
        cuts.append(cut)
        if not last:
            nodes = min(kept, nodes) << (lengths[place + 1] - length)
    cuts[-1] = max(cuts[-1], law.needed(tau / groups))

    def chance(holders: int) -> float:
        mine = min(holders // groups, law.reports)
        return math.prod(law.power(mine, cut) for cut in cuts)

    return chance


def described(groups: int) -> str:
    """Into how many groups the phones are split."""
    return f"{groups} groups"
