"""Phone numbers as the protocol sees them, and the plans that say which ones exist."""

from hushcall.numbers.nanp import NANP
from hushcall.numbers.plan import Number, NumberingPlan
from hushcall.numbers.plans import PLANS, SHIPPED, plan_named

__all__ = ["NANP", "PLANS", "SHIPPED", "Number", "NumberingPlan", "plan_named"]
