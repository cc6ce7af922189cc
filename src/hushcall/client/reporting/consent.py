"""What the owner agreed to, which no server can change, and checks of a server's round and parameters against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hushcall import checks
from hushcall.errors import InvalidParameter
from hushcall.mechanisms.mechanism import least_bits
from hushcall.mechanisms.registry import MECHANISMS, spec_named

if TYPE_CHECKING:
    from hushcall.client.storage.store import Store
    from hushcall.mechanisms.mechanism import Mechanism
    from hushcall.protocol.numbers import NumberingPlan
    from hushcall.protocol.round_document import RoundInfo

HOME_AREA = "home_area"
"""Setting: the owner's own area code. Made-up callers share it as often as real ones do. It is never sent."""
WHOLE_NUMBERS = "whole_numbers"
"""Setting: a whole-number round was joined. Area codes in the clear then need the owner's yes again."""
_CAPS = ("report", "window", "life")


class Rejection(str):
    """Why the client does not take part or makes no report: a clause in words, without a full stop."""

    __slots__ = ()


@dataclass(frozen=True)
class Limits:
    """What the owner allows: ε of one ``report``, in any ``days`` days (``window``), and in all (``life``).

    The defaults are eight reports at ε = 4, since seven times 24 hours touch eight days, and a year of such days.
    """

    report: Fraction = Fraction(4)
    window: Fraction = Fraction(32)
    life: Fraction = Fraction(1460)
    days: int = 7  # over which ε is capped; a reported call is not older
    horizon: int = 30  # days in which one caller is in at most one report
    rounds_per_day: int = 1  # joined, and reports recorded
    area_in_clear: bool = True  # whether the area code of a reported number may travel unprotected
    least_crowd: int = 0  # anonymous clients that a round must have before anything is sent anonymously
    by_name: bool = True  # whether reports may carry the device's name. False: only rounds that take blind tokens
    least_phase: int = 3600  # seconds that every phase of an anonymous round must have
    mechanisms: str = "subspace whole-number"  # names of those that a server may use
    talked_seconds: int = 20  # a caller whom the owner talked to for so long is never reported

    def __post_init__(self) -> None:
        for name in _CAPS:
            checks.positive(f"the cap per {name}", getattr(self, name))
        checks.whole("days", self.days, 1, 366)
        checks.whole("least crowd", self.least_crowd, 0)
        checks.whole("least phase", self.least_phase, 0)
        checks.whole("horizon", self.horizon, self.days, 3660)
        checks.whole("rounds per day", self.rounds_per_day, 1)
        checks.whole("talked seconds", self.talked_seconds, 1)
        if self.report > self.window:
            raise InvalidParameter("the cap per window", "allow at least one report", float(self.window))

    @property
    def window_days(self) -> int:
        return self.days

    @property
    def horizon_days(self) -> int:
        return self.horizon

    def changed(self, changes: Mapping[str, float | str | None]) -> Limits:
        """These limits with some replaced by name. None leaves a limit as it is."""
        values: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
        for name in values.keys() & set(_CAPS):
            checks.positive(f"the cap per {name}", values[name])  # first: there is no fraction of infinity
            values[name] = Fraction(values[name])
        for name in values.get("mechanisms", "").split():
            spec_named(name)
        return replace(self, **values)

    def save(self, store: Store) -> None:
        for field in fields(self):
            store.put(f"limit.{field.name}", str(getattr(self, field.name)))

    @classmethod
    def load(cls, store: Store) -> Limits:
        rows = store.rows("SELECT name, value FROM settings WHERE name GLOB 'limit.*'")
        return cls._parse(frozenset((str(name), str(value)) for name, value in rows))

    @classmethod
    @lru_cache(maxsize=16)  # a session asks several times, and making fractions takes longer than everything else in it
    def _parse(cls, rows: frozenset[tuple[str, str]]) -> Limits:
        saved = dict(rows)
        texts = {field.name: saved.get(f"limit.{field.name}", str(field.default)) for field in fields(cls)}
        values = {field.name: _parsed(field.default, texts[field.name]) for field in fields(cls)}
        return cls(**values)


def _parsed(default: Any, text: str) -> Any:
    return text == str(True) if isinstance(default, bool) else type(default)(text)


def round_rejection(limits: Limits, plan: NumberingPlan, info: RoundInfo) -> Rejection | None:
    if info.plan != plan.name:
        return Rejection(f"the server uses numbering plan {info.plan}, and this phone uses {plan.name}")
    if info.mechanism not in MECHANISMS:
        return Rejection("the server uses a mechanism that this phone does not know")
    if info.mechanism not in limits.mechanisms.split():
        agreed = limits.mechanisms.replace(" ", ", ")
        return Rejection(
            f"the server uses {info.mechanism}, and the owner agreed to {agreed} (hushcall phone init --mechanisms)"
        )
    if MECHANISMS[info.mechanism].items.bucketed and not limits.area_in_clear:
        return Rejection(
            "the server wants area codes in the clear, and the owner does not (hushcall phone init --area-in-clear)"
        )
    return None


def bits_rejection(mechanism: Mechanism) -> Rejection | None:
    bits, min_bits = getattr(mechanism, "bits", None), least_bits(mechanism.cost)
    if type(bits) is not int or bits >= min_bits:
        return None
    epsilon = float(mechanism.cost)
    return Rejection(f"a report would have {bits} bits, and at ε = {epsilon:g} at least {min_bits} are agreed to")


def require_for_all_numbers(mechanism: Mechanism, name: str, plan: NumberingPlan, public: bytes) -> None:
    """Raise :class:`InvalidParameter` unless every number of the plan can be reported in a round of mechanism ``name``.

    If they worked for some numbers only, the absence of a report would tell more than ε covers.
    """
    if mechanism.name != name:
        raise InvalidParameter("mechanism", f"be the one that the round announced, {name}", mechanism.name)
    bits = spec_named(name).items.bits(plan)
    # A histogram's counting part takes the item too, and has its own width.
    widths = {part.item_bits for part in (mechanism, getattr(mechanism, "oracle", mechanism))}
    if widths != {bits}:
        raise InvalidParameter("item_bits", f"be {bits}, the width of an item of plan {plan.name}", sorted(widths))
    # Odds are computed when they are first used. ``bytes`` gives zeros: the rehearsal draws nothing.
    mechanism.privatise((1 << bits) - 1, public, bytes)
