"""The owner's own list: numbers and beginnings of numbers come in, allow or block leaves, before any shared list.

It is kept on the phone and never leaves it. What the owner allows is never reported either; what the owner blocks may
be, like any stranger's call.

>>> own = Personal({"+1900*": Action.BLOCK, "+19005550143": Action.ALLOW})
>>> own.verdict("+19005550143"), own.verdict("+19005550144"), own.verdict("+12025550143")
(<Action.ALLOW: 'allow'>, <Action.BLOCK: 'block'>, None)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hushcall.errors import InvalidData, InvalidParameter
from hushcall.phone.home.action import Action

if TYPE_CHECKING:
    from hushcall.numbers import NumberingPlan
    from hushcall.phone.home.store import Store

SETTING = "personal"
PREFIX = "*"
_PATTERN = re.compile(r"\+[1-9][0-9]{0,14}\*|\+[1-9][0-9]{2,14}")


@dataclass(frozen=True)
class Personal:
    """Numbers (``+12025550143``) and prefixes (``+1900*``), each with what to do."""

    entries: Mapping[str, Action] = field(default_factory=dict)

    def verdict(self, number: str) -> Action | None:
        """What the owner wants for a number (E.164): the longest entry that fits counts; None where none does."""
        if number in self.entries:
            return self.entries[number]
        for length in range(len(number), 1, -1):
            if (found := self.entries.get(number[:length] + PREFIX)) is not None:
                return found
        return None

    def with_entry(self, pattern: str, action: Action | None) -> Personal:
        """The list with an entry more, changed, or (without an action) less."""
        if action is None and pattern not in self.entries:
            raise InvalidParameter("entry", "be on your own list", pattern)
        others = {known: what for known, what in self.entries.items() if known != pattern}
        return Personal(others if action is None else {**others, pattern: action})

    @classmethod
    def load(cls, store: Store) -> Personal:
        """As it is kept in the store's settings; empty where nothing was kept."""
        try:
            kept = json.loads(store.get(SETTING, "{}"))
            return cls({str(pattern): Action(what) for pattern, what in kept.items()})
        except (ValueError, AttributeError):
            raise InvalidData("own list", "be as this release keeps it", "another") from None

    def save(self, store: Store) -> None:
        """Keep it in the store's settings, all or nothing."""
        store.put(SETTING, json.dumps({pattern: what.value for pattern, what in sorted(self.entries.items())}))


def pattern_of(text: str, plan: NumberingPlan) -> str:
    """An entry as the owner writes it: a number in any usual notation, or its beginning and a star.

    Numbers of other countries may be meant, too; a beginning is read as it stands, and so needs its plus.
    """
    bare = re.sub(r"[\s().-]", "", text)
    pattern = re.sub(r"^00(?=[1-9])", "+", bare) if PREFIX in bare else any_e164(text, plan)
    if not _PATTERN.fullmatch(pattern):
        raise InvalidParameter("entry", "be a number, or its beginning from the + on and a star (+1900*)", text)
    return pattern


def any_e164(text: str, plan: NumberingPlan) -> str:
    """A caller of any country as E.164, or nothing: the owner's own list knows more than the plan's numbers."""
    import phonenumbers

    try:
        parsed = phonenumbers.parse(re.sub(r"^\s*00(?=[1-9])", "+", text), plan.region)
    except (phonenumbers.NumberParseException, TypeError, AttributeError):
        return ""
    return str(phonenumbers.format_number(parsed, phonenumbers.PhoneNumberFormat.E164))
