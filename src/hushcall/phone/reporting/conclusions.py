"""What somebody who links all reports of a phone could conclude: a mechanism and a horizon come in, chances leave.

The question is the hardest one for a phone: has this one number called, which it thought of before and which, if so,
calls every day? One report says little; what decides is how many reports there are about one caller, and the horizon
bounds that.

>>> [round(mean_posterior(0.01, 0.638, 32, reports), 2) for reports in (1, 5)]
[0.11, 0.75]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from hushcall.privacy.coins import ONE
from hushcall.report.mechanism import OneValue

PRIOR = 0.01
"""What somebody thought before: one in a hundred that the number calls this phone."""
DAYS = (1, 9, 30)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """After so many days of daily calls by one number: reports about it, and what they would make of a suspicion.

    ``mean`` is the chance that somebody gives the number on average if it really calls; ``most`` is what ε bounds,
    whatever the coins fell; None where the mean is not worked out.
    """

    days: int
    reports: int
    epsilon: float
    mean: float | None
    most: float


def conclusions(cost: Fraction, horizon: int, made: OneValue | None, prior: float = PRIOR) -> list[Conclusion]:
    """For :data:`DAYS` days with a report each; ``made`` is the mechanism where it sends one randomised value."""
    found = []
    for days in DAYS:
        reports = -(-days // horizon)
        mean = None if made is None else mean_posterior(prior, made.response.keep / ONE, made.size, reports)
        bound = math.exp(min(700.0, float(cost) * reports)) * prior / (1 - prior)
        found.append(Conclusion(days, reports, float(cost) * reports, mean, bound / (1 + bound)))
    return found


def mean_posterior(prior: float, keep: float, values: int, reports: int) -> float:
    """The mean chance of the truth after so many reports, each its own value with probability ``keep``.

    Without the caller, a report of somebody else takes any of the ``values`` alike. So a report of the own value weighs
    keep · values, any other one (1 − keep) · values / (values − 1), and how often the own one comes is binomial.
    """
    own, other = keep * values, (1 - keep) * values / (values - 1)
    total = 0.0
    for hits in range(reports + 1):
        chance = math.comb(reports, hits) * keep**hits * (1 - keep) ** (reports - hits)
        odds = prior / (1 - prior) * own**hits * other ** (reports - hits)
        total += chance * odds / (1 + odds)
    return total
