"""What a report reveals: its bytes, and (of mechanisms that send one value) their exact odds for other numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from hushcall.client.reporting.participation import latest
from hushcall.client.storage.store import Store
from hushcall.errors import InvalidParameter
from hushcall.mechanisms.mechanism import Mechanism, OneResponse, report_bytes
from hushcall.mechanisms.parameters import from_plain
from hushcall.mechanisms.registry import spec_named
from hushcall.mechanisms.subspace.client import Subspace
from hushcall.protocol.exact import exp_below
from hushcall.protocol.numbers import NANP, Number, NumberingPlan
from hushcall.protocol.randomness import ONE, ByteSource
from hushcall.protocol.seeds import TICKET_BYTES, derive, report_seed
from hushcall.protocol.wire import HEADER_BYTES


@dataclass(frozen=True)
class Sent:
    """A report, and all that decided its odds. ``number`` and ``dummy`` never leave the client."""

    number: Number
    mechanism: Mechanism
    profile: str  # the mechanism by the round's name, which decides what of a number is the item
    public: bytes
    report: bytes
    plan: NumberingPlan = NANP
    dummy: bool = False
    round: int | None = None

    @classmethod
    def last(cls, store: Store, plan: NumberingPlan = NANP) -> Sent:
        row = latest(store, reported=True)
        if row is None or row.report is None or row.public is None or row.parameters is None:
            raise InvalidParameter("report", "have been made first", "none yet")
        number, mechanism = plan.parse(row.number), from_plain(row.parameters)
        report = row.report[: report_bytes(mechanism)]  # without the padding
        return cls(number, mechanism, mechanism.name, row.public, report, plan, row.dummy, row.round)


@dataclass(frozen=True, slots=True)
class Odds:
    """How likely one number makes the bytes that were sent."""

    number: Number
    fits: bool  # whether no other report is likelier for it
    probability: Fraction
    ratio: Fraction  # to that of the client's own number


@dataclass(frozen=True)
class Explanation:
    """What ``hushcall phone explain`` shows. ``odds`` is empty where they are not computed."""

    report: bytes
    parts: tuple[tuple[str, str, str], ...]  # name, hexadecimal, meaning
    clear: str
    epsilon: Fraction
    odds: tuple[Odds, ...] = ()
    worst: Fraction | None = None
    fitting: int | None = None  # about so many numbers fit

    @property
    def bound(self) -> float:
        """e^ε as a float to print: the most that one number may be likelier than another."""
        return math.exp(self.epsilon)

    @property
    def holds(self) -> bool:
        """Whether the worst ratio is within e^ε, in exact arithmetic."""
        return self.worst is None or self.worst <= exp_below(self.epsilon)


def explain(sent: Sent, others: Iterable[Number]) -> Explanation:
    """The bytes of a report, and their odds for its number and for ``others``."""
    mechanism, spec, plan = sent.mechanism, spec_named(sent.profile), sent.plan
    parts = (
        ("version", sent.report[:1].hex(), "of the wire format"),
        ("mechanism", sent.report[1:2].hex(), f"{mechanism.name}, as for everybody in the round"),
        ("body", sent.report[HEADER_BYTES:].hex(), "the only part that depends on the number"),
    )
    clear = f"the area code, {sent.number.area}" if spec.bucketed else spec.items.in_the_clear
    if not spec.one_value:
        return Explanation(sent.report, parts, clear, mechanism.cost)
    mechanism = cast(OneResponse, mechanism)
    keep, other = Fraction(mechanism.response.keep, ONE), Fraction(mechanism.response.other, ONE)
    value = mechanism.parse(sent.report)
    numbers = (sent.number, *others)
    fits = [mechanism.hashed(spec.items.item(number, plan), sent.public) == value for number in numbers]
    chances = [keep if fit else other for fit in fits]
    odds = tuple(Odds(*row, row[2] / chances[0]) for row in zip(numbers, fits, chances, strict=True))
    existing = plan.valid_suffixes * (1 if spec.bucketed else len(plan.area_codes))
    return Explanation(sent.report, parts, clear, mechanism.cost, odds, keep / other, existing // mechanism.size)


def example(rand: ByteSource, mechanism: Subspace | None = None) -> Sent:
    used = mechanism or Subspace(4.0, 5)  # as the profile ``balanced`` has it for a thousand clients in an area code
    number, public = NANP.parse("+12025550143"), report_seed(derive("example"), bytes(TICKET_BYTES))
    return Sent(number, used, used.name, public, used.privatise(number.suffix, public, rand))
