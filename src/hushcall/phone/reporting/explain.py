"""Exactly what leaves the phone: a report comes in, its bytes and what they would have been for other numbers leave.

The odds are the integers that the randomiser runs on, out of 2⁶⁴, so the ratios are exact. They are worked out for the
mechanisms that send one randomised value; for the others the bound e^ε is shown, which
``hushcall audit`` computes from the running code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from hushcall.errors import InvalidParameter
from hushcall.mechanisms.parameters import from_plain
from hushcall.mechanisms.scheme import Scheme
from hushcall.mechanisms.schemes import scheme_named
from hushcall.numbers import NANP, Number, NumberingPlan
from hushcall.phone.home.store import Store
from hushcall.phone.reporting.participation import Row, latest
from hushcall.privacy.coins import ONE, ByteSource
from hushcall.privacy.exact import exp_below
from hushcall.protocol.seeds import derive, report_seed
from hushcall.protocol.tickets import TICKET_BYTES
from hushcall.protocol.wire import HEADER_BYTES, pack_value, seal
from hushcall.report.mechanism import Mechanism, OneValue, report_bytes
from hushcall.report.subspace import Subspace


@dataclass(frozen=True)
class Sent:
    """A report, and all that decided its odds. ``number`` and ``dummy`` stay on the phone."""

    number: Number
    mechanism: Mechanism
    profile: str  # the mechanism as the round named it: it says what of a number is the item
    public: bytes
    report: bytes
    plan: NumberingPlan = NANP
    dummy: bool = False
    round: int | None = None

    @classmethod
    def from_row(cls, row: Row, plan: NumberingPlan = NANP) -> Sent:
        """The report of a round in the diary."""
        if row.report is None or row.public is None or row.parameters is None or not row.number:
            raise InvalidParameter("round", "have a report that was not forgotten", row.round)
        number, mechanism = plan.parse(row.number), from_plain(row.parameters)
        report = row.report[: report_bytes(mechanism)]  # without the padding
        return cls(number, mechanism, row.mechanism, row.public, report, plan, row.dummy, row.round)

    @classmethod
    def last(cls, store: Store, plan: NumberingPlan = NANP) -> Sent:
        """The newest report of a phone."""
        row = latest(store, reported=True)
        if row is None:
            raise InvalidParameter("report", "have been made first", "none yet")
        return cls.from_row(row, plan)

    @property
    def item(self) -> int:
        """What of the number went into the randomiser."""
        return self.scheme.items.item(self.number, self.plan)

    @property
    def scheme(self) -> Scheme:
        """The mechanism's row of the table."""
        return scheme_named(self.profile)

    @property
    def one_value(self) -> OneValue | None:
        """The mechanism, where its report is one randomised value; None where odds are not worked out."""
        return cast(OneValue, self.mechanism) if self.scheme.one_value else None


@dataclass(frozen=True, slots=True)
class Odds:
    """How likely one number makes the bytes that were sent, and against the phone's own number.

    ``likeliest`` is the report that this number makes most often; any other one it makes as rarely as the rest.
    """

    number: Number
    likeliest: bytes
    probability: Fraction
    ratio: Fraction


@dataclass(frozen=True)
class Explanation:
    """What ``hushcall phone explain`` shows. ``odds`` is empty where they are not worked out."""

    report: bytes
    parts: tuple[tuple[str, str, str], ...]  # name, hexadecimal, meaning
    clear: str
    epsilon: Fraction
    odds: tuple[Odds, ...]
    worst: Fraction | None
    sharing: int | None  # how many items at least look exactly like this one
    values: int | None = None  # how many different reports there could have been
    often: Fraction | None = None  # the chance that a number makes its likeliest report,
    seldom: Fraction | None = None  # and any other one

    @property
    def bound(self) -> float:
        """e^ε, the most that one number may be likelier than another: the promise, as a float to print."""
        return math.exp(self.epsilon)

    @property
    def holds(self) -> bool:
        """Whether the worst ratio is within e^ε, in exact arithmetic."""
        return self.worst is None or self.worst <= exp_below(self.epsilon)


def explain(sent: Sent, others: Iterable[Number]) -> Explanation:
    """The bytes, and the odds of them for the phone's number and for ``others``."""
    body = sent.report[HEADER_BYTES:]
    parts = (
        ("version", sent.report[:1].hex(), "of the wire format"),
        ("mechanism", sent.report[1:2].hex(), f"{sent.mechanism.name}, as for everybody in the round"),
        ("body", body.hex(), "the only part that depends on the number"),
    )
    clear = f"the area code, {sent.number.area}" if sent.scheme.bucketed else sent.scheme.items.in_the_clear
    mechanism = sent.one_value
    if mechanism is None:
        return Explanation(sent.report, parts, clear, sent.mechanism.cost, (), None, None)
    mine = likelihood(sent, sent.item)
    response = mechanism.response
    odds = []
    for number in (sent.number, *others):
        item = sent.scheme.items.item(number, sent.plan)
        chance = likelihood(sent, item)
        odds.append(Odds(number, _likeliest(mechanism, sent.public, item), chance, chance / mine))
    # A linear map of ℓ bits to b takes each of its values at least 2^(ℓ − b) times.
    sharing = 1 << max(0, mechanism.item_bits - mechanism.bits)
    return Explanation(
        sent.report,
        parts,
        clear,
        mechanism.cost,
        tuple(odds),
        Fraction(response.keep, response.other),
        sharing,
        mechanism.size,
        Fraction(response.keep, ONE),
        Fraction(response.other, ONE),
    )


def likelihood(sent: Sent, item: int) -> Fraction:
    """The exact chance that ``item`` makes the bytes that were sent."""
    mechanism = sent.one_value
    if mechanism is None:
        raise InvalidParameter("mechanism", "send one randomised value", sent.mechanism.name)
    odds, true = mechanism.response, mechanism.hashed(item, sent.public) == mechanism.parse(sent.report)
    return Fraction(odds.keep if true else odds.other, ONE)


def _likeliest(mechanism: OneValue, public: bytes, item: int) -> bytes:
    return seal(mechanism.kind, pack_value(mechanism.hashed(item, public), mechanism.size))


def example(coins: ByteSource, mechanism: Subspace | None = None) -> Sent:
    """A report of a fictional number, for whoever wants to see one without a server."""
    used = mechanism or Subspace(4.0, 5)  # what the profile ``balanced`` uses for a thousand phones in an area code
    number, public = NANP.parse("+12025550143"), report_seed(derive("example"), bytes(TICKET_BYTES))
    return Sent(number, used, used.name, public, used.privatise(number.suffix, public, coins))
