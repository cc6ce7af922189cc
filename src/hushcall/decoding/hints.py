"""Hints: numbers that are tested with a share of the level of their own, since somebody named them before the round.

Weighted Bonferroni. Let the groups share the level, Σ shares = 1, and a group of m numbers list a number at p-value ≤
share·level/m. By the union bound a round lists any number without a holder with chance ≤ Σ m·share·level/m = level,
whichever numbers are in the groups, as long as they were chosen without the round's reports. The share of an empty
group goes to all numbers, and hinted numbers are among these too, so a hint never makes a number harder to list than
half of the level does.

Imports no numpy.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hushcall.errors import HushcallError, InvalidParameter
from hushcall.protocol.items import ItemCodec
from hushcall.protocol.numbers import NumberingPlan

if TYPE_CHECKING:
    from hushcall.mechanisms.decision import Rule

HINTED_SHARE = 0.5
"""Of each level, for the numbers that hints name: half, since a threshold hardly feels half of a level."""
LISTED_SHARE = 0.1
"""Of each level, for the numbers that were listed before the window: it is easier to stay than to enter.

Whichever the window's own reports put on the list are not among them: these would be counted twice.
"""
FORMATS = ("hushcall-hints/1", "hushcall-hints/2")
"""The first has the numbers listed before the newest round, the second those before each length of window."""


@dataclass(frozen=True)
class Hints:
    """The items of one bucket that hints name, and {length: those listed before a window, on their own evidence}."""

    hinted: frozenset[int] = frozenset()
    listed: Mapping[int, frozenset[int]] = field(default_factory=dict)

    @property
    def items(self) -> frozenset[int]:
        return self.hinted.union(*self.listed.values())

    @cached_property
    def ordered(self) -> tuple[int, ...]:
        return tuple(sorted(self.items))

    def rules(self, rule: Rule, numbers: int, length: int) -> Iterator[tuple[Rule, frozenset[int] | None, bool]]:
        """(rule, the items that it is for, whether these are hinted). ``numbers`` is how many the bucket has.

        ``length`` is the window's.

        None: for all items, where ``rule`` is as without hints but for the share that the others take. The level is
        that of all buckets together, so each bucket's groups count as often as there are buckets.
        """
        buckets = rule.hypotheses // numbers
        staying = self.listed.get(length, frozenset())
        groups = [group for group in ((self.hinted, HINTED_SHARE, True), (staying, LISTED_SHARE, False)) if group[0]]
        yield replace(rule, level=rule.level * (1 - sum(share for _, share, _ in groups))), None, False
        for items, share, hinted in groups:
            yield replace(rule, level=rule.level * share, hypotheses=len(items) * buckets), items, hinted


NO_HINTS = Hints()


@dataclass(frozen=True)
class RoundHints:
    """The hints of a whole round, as it records them: the same for every decoder."""

    hinted: frozenset[str] = field(default=frozenset(), repr=False)
    listed: Mapping[int, frozenset[str]] = field(default_factory=dict, repr=False)

    def to_bytes(self) -> bytes:
        """Equal hints give equal bytes."""
        return json.dumps(self.to_plain(), separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> RoundHints:
        try:
            return cls.from_plain(json.loads(data))
        except (ValueError, RecursionError):
            raise InvalidParameter("hints", f"be one of {', '.join(FORMATS)}", data[:40]) from None

    def to_plain(self) -> dict[str, Any]:
        listed = {str(length): sorted(numbers) for length, numbers in sorted(self.listed.items()) if numbers}
        if not (self.hinted or listed):
            return {}
        if listed.keys() <= {"1"}:
            return {"format": FORMATS[0], "hinted": sorted(self.hinted), "listed": listed.get("1", [])}
        return {"format": FORMATS[1], "hinted": sorted(self.hinted), "listed": listed}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> RoundHints:
        try:
            if not plain:
                return cls()
            listed = {FORMATS[0]: lambda numbers: {1: numbers}, FORMATS[1]: dict}[plain["format"]](plain["listed"])
            groups = {int(length): frozenset(map(str, numbers)) for length, numbers in listed.items() if numbers}
            return cls(frozenset(map(str, plain["hinted"])), groups)
        except (ValueError, KeyError, TypeError):
            raise InvalidParameter("hints", f"be one of {', '.join(FORMATS)}", str(plain)[:40]) from None

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def by_bucket(self, codec: ItemCodec, plan: NumberingPlan) -> dict[int, Hints]:
        """What the decoder of each bucket needs. What is no number of the plan is left out."""
        buckets: dict[int, dict[int, set[int]]] = {}
        for length, numbers in ((0, self.hinted), *self.listed.items()):
            for text in numbers:
                try:
                    number = plan.parse(text)
                except HushcallError:
                    continue
                groups = buckets.setdefault(codec.bucket(number), {0: set()})
                groups.setdefault(length, set()).add(codec.item(number, plan))
        return {
            bucket: Hints(frozenset(groups.pop(0)), {length: frozenset(items) for length, items in groups.items()})
            for bucket, groups in buckets.items()
        }
