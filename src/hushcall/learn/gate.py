"""The server, before anyone spends a budget: how many phones a bucket has comes in, whether it runs leaves.

Where nothing could be found, nobody should spend anything: phones in buckets that do not pass spend nothing, and
what they send is cover. There are two rules, as there are two ways to find numbers.
"""

from __future__ import annotations

from hushcall import checks
from hushcall.learn.decision import Rule, Support

POWER = 0.9
"""What "would be found" means, here and in every plan."""


def more_than_tau(users: int, tau: int, tolerance: int = 0) -> bool:
    """The paper's rule for histograms, and what the rivals are held to: more than τ phones report, liars set aside.

    τ is where enough of a number's bits are shown at all (``occupancy``), so a smaller bucket spells out nothing.
    """
    checks.whole("users", users, 0)
    checks.whole("tau", tau, 0)
    return users - tolerance > tau


def all_of_them_found(law: Support, rule: Rule) -> bool:
    """The rule where every number is tested: one that *all* these phones report would be listed with 90 % power.

    Where that one would not be, no other would be either.
    """
    return law.power(law.reports, rule.least(law)) >= POWER
