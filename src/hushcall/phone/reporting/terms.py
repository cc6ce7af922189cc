"""What the owner agreed to: a server's round and a bucket's parameters come in, a reason to refuse leaves, or none.

The agreement is made when the phone is set up, and a server cannot change it: which mechanisms, how much ε, whether the
area code may travel in the clear, how many reports a day. Anything weaker waits for a new yes: ``hushcall phone init``.
What ε alone does not bound is here too: a mechanism that sends b bits tells the truth with probability
e^ε / (e^ε + 2^b − 1), which a server could drive up by a small b; so b has a least value for every ε.
"""

from __future__ import annotations

from hushcall.mechanisms.schemes import SCHEMES
from hushcall.numbers import NumberingPlan
from hushcall.phone.reporting.ledger import Limits
from hushcall.protocol.round_document import RoundInfo
from hushcall.report.mechanism import Mechanism
from hushcall.report.one_response import least_bits

AGREE = "agree anew with hushcall phone init"


def objection(limits: Limits, plan: NumberingPlan, info: RoundInfo) -> str:
    """Why this round is not what the owner agreed to; empty where it is. Looked at before anything is announced."""
    if info.plan != plan.name:
        return f"The server uses numbering plan {info.plan}, this phone {plan.name}."
    if info.mechanism not in SCHEMES:
        return "The server asks for a kind of report that this phone does not know."
    if info.mechanism not in limits.mechanisms.split():
        agreed = limits.mechanisms.replace(" ", ", ")
        return f"The server uses {info.mechanism}, and the owner agreed to {agreed} ({AGREE} --mechanisms)."
    if SCHEMES[info.mechanism].items.bucketed and not limits.area_in_clear:
        return f"The server wants area codes in the clear, and the owner does not ({AGREE} --area-in-clear)."
    return ""


def weaker(mechanism: Mechanism) -> str:
    """Why a bucket's parameters tell more than was agreed at their ε; empty where they do not."""
    bits, least = getattr(mechanism, "bits", None), least_bits(mechanism.cost)
    if type(bits) is int and bits < least:
        return f"a report would have {bits} bits, and at ε = {float(mechanism.cost):g} at least {least} are agreed to"
    return ""
