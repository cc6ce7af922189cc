"""Whether a bucket's parameters may meet a number at all: they come in, yes or a reason leaves, and no number is asked.

A server chooses the parameters. If some of them worked for one number and failed for another, then whether a report
arrives would be a fact about the number that no ε covers. So they are settled here, for every number of the plan alike:
the mechanism is the round's, an item is exactly as wide as the plan's, and a rehearsal with an item that is nobody's
has built everything that :meth:`privatise` needs.
"""

from __future__ import annotations

from hushcall.errors import InvalidParameter
from hushcall.mechanisms.schemes import scheme_named
from hushcall.numbers import NumberingPlan
from hushcall.report.mechanism import Mechanism


def require(mechanism: Mechanism, named: str, plan: NumberingPlan, public: bytes) -> None:
    """:class:`InvalidParameter` unless a report of any number of the plan can be made; ``named`` is the round's."""
    if mechanism.name != named:
        raise InvalidParameter("mechanism", f"be the one that the round announced, {named}", mechanism.name)
    bits = scheme_named(named).items.bits(plan)
    # A histogram's counting part takes the item too, and says for itself how wide it is.
    widths = {part.item_bits for part in (mechanism, getattr(mechanism, "oracle", mechanism))}
    if widths != {bits}:
        raise InvalidParameter("item_bits", f"be {bits}, the width of an item of plan {plan.name}", sorted(widths))
    # Odds are worked out when they are first used: what cannot be must fail here, not beside a number. No real coins.
    mechanism.privatise((1 << bits) - 1, public, bytes)
