"""Phone numbers as the protocol sees them, and the plans that say which ones exist."""

from hushcall.numbers.plan import NANP, Number, NumberingPlan

__all__ = ["NANP", "Number", "NumberingPlan"]
