"""Every plan that this release knows, by name: settings, rounds and lists name one, and here it becomes a value.

>>> plan_named("nanp-2026").country_code
1
"""

from __future__ import annotations

from hushcall.errors import InvalidParameter
from hushcall.numbers.nanp import NANP
from hushcall.numbers.plan import NumberingPlan

PLANS = {plan.name: plan for plan in (NANP,)}


def plan_named(name: str) -> NumberingPlan:
    """The plan of that name, or an error that lists the names there are."""
    try:
        return PLANS[name]
    except KeyError:
        raise InvalidParameter("plan", f"be one of {', '.join(PLANS)}", name) from None
