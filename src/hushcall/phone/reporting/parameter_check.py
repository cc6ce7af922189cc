"""Whether a bucket's parameters may meet a number at all: they come in, yes or a reason leaves, and no number is asked.

A server chooses the parameters. If some of them worked for one number and failed for another, then whether a report
arrives would be a fact about the number that no ε covers. So they are settled here, for every number of the plan alike:
the mechanism is the round's, an item is exactly as wide as the plan's, and a rehearsal with an item that is nobody's
has built everything that :meth:`privatise` needs.
"""

from __future__ import annotations

from hushcall.errors import InvalidParameter
from hushcall.numbers import NumberingPlan
from hushcall.report.mechanism import Mechanism
from hushcall.report.succinct_histogram import SuccinctHistogram


def item_bits(mechanism: str, plan: NumberingPlan) -> int:
    """How wide an item of a round with this mechanism is, by the plan.

    >>> from hushcall.numbers import NANP
    >>> [item_bits(name, NANP) for name in ("subspace", "whole-number", "sh-original")]
    [24, 33, 34]
    """
    if mechanism == "whole-number":
        return plan.area_bits + plan.suffix_bits
    if mechanism == "sh-original":
        return ((max(plan.area_codes) + 1) * plan.suffixes - 1).bit_length()
    return plan.suffix_bits


def require(mechanism: Mechanism, named: str, plan: NumberingPlan, public: bytes) -> None:
    """:class:`InvalidParameter` unless a report of any number of the plan can be made; ``named`` is the round's."""
    if mechanism.name != named:
        raise InvalidParameter("mechanism", f"be the one that the round announced, {named}", mechanism.name)
    bits = item_bits(named, plan)
    widths = {mechanism.item_bits}
    if isinstance(mechanism, SuccinctHistogram):
        widths.add(mechanism.oracle.item_bits)
    if widths != {bits}:
        raise InvalidParameter("item_bits", f"be {bits}, the width of an item of plan {plan.name}", sorted(widths))
    # Odds are worked out when they are first used: what cannot be must fail here, not beside a number. No real coins.
    mechanism.privatise((1 << bits) - 1, public, bytes)
