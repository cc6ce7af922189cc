"""Phone numbers as the protocol sees them, and the plans that say which ones exist."""

from hushcall.numbers.nanp import NANP
from hushcall.numbers.plan import Number, NumberingPlan
from hushcall.numbers.plans import PLANS, plan_named

__all__ = ["NANP", "PLANS", "Number", "NumberingPlan", "plan_named"]
