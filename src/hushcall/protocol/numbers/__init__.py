"""Phone numbers as the protocol sees them, and the plans that say which ones exist."""

from hushcall.protocol.numbers.plan import Number, NumberingPlan
from hushcall.protocol.numbers.plans import NANP, PLANS, SHIPPED, plan_named

__all__ = ["NANP", "PLANS", "SHIPPED", "Number", "NumberingPlan", "plan_named"]
