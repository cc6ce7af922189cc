"""Before anyone deploys a rival: its chance to find a number, from the laws of its own decisions.

Each stage of PEM and TreeHist sees its share of the reports and keeps what reaches a cut; stages are independent.
RAPPOR is reckoned as if it were given ``CANDIDATES`` numbers to choose among. These are approximations (the cut of PEM
is where noise fills its places in expectation, RAPPOR's noise is taken as normal); the experiments measure.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy import stats

from hushcall.learn.comparators.prefix_extending import PrefixExtendingLearner
from hushcall.learn.comparators.rappor import RapporLearner
from hushcall.learn.comparators.splitting import roots
from hushcall.learn.comparators.tree_histogram import TreeHistogramLearner
from hushcall.learn.decision import Support
from hushcall.privacy.coins import ONE

CANDIDATES = 1000
Rival = PrefixExtendingLearner | TreeHistogramLearner | RapporLearner


def rival_chance(learner: Rival, users: int, tau: float) -> Callable[[int], float]:
    """The probability that a number is listed, as a function of its holders among ``users`` reports."""
    if isinstance(learner, RapporLearner):
        return _rappor_chance(learner, users, tau)
    groups = learner.mechanism.groups
    law = Support(max(users // groups, 1), learner.law(1).p, learner.law(1).q)
    lengths = learner.mechanism.lengths
    nodes, cuts = len(roots(lengths[0], learner.mechanism.item_bits, learner.domain)), []
    for stage, length in enumerate(lengths):
        last = stage == groups - 1
        if isinstance(learner, PrefixExtendingLearner):
            places = learner.k if last else learner.k * learner.breadth
            cuts.append(law.threshold(0.5, max(nodes / (2 * places), 1)))
            kept = learner.k * learner.breadth
        else:
            cuts.append(law.threshold(learner.level, nodes) if last else learner.cut(law.reports, nodes))
            kept = int(learner.noise) + 1
        if not last:
            nodes = min(kept, nodes) << (lengths[stage + 1] - length)
    enough = math.floor(law.reports * law.q + tau / groups * (law.p - law.q)) + 1
    cuts[-1] = max(cuts[-1], enough)

    def chance(holders: int) -> float:
        mine = min(holders // groups, law.reports)
        return math.prod(law.power(mine, cut) for cut in cuts)

    return chance


def _rappor_chance(learner: RapporLearner, users: int, tau: float) -> Callable[[int], float]:
    keep, flip = (weight / ONE for weight in learner.mechanism.flips.odds)
    # Every phone adds the mean of h noisy bits, each off by a coin's variance over (keep − flip)².
    spread = flip * (1 - flip) / (keep - flip) ** 2 + learner.chance * (1 - learner.chance)
    error = math.sqrt(users * spread / learner.mechanism.functions) / (1 - learner.chance)
    cut = max(stats.norm.isf(learner.level / CANDIDATES) * error, tau)
    return lambda holders: float(stats.norm.sf((cut - holders) / error))
