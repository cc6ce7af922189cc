"""What to do with a call, and the owner's own list, which decides before contacts and the shared list.

The own list never leaves the device. An allowed number is never reported. A blocked one is reported before others.

>>> own = Personal({"+1900*": Action.BLOCK, "+19005550143": Action.ALLOW})
>>> own.verdict("+19005550143"), own.verdict("+19005550144"), own.verdict("+12025550143")
(<Action.ALLOW: 'allow'>, <Action.BLOCK: 'block'>, None)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from hushcall.client.storage.store import Store
from hushcall.errors import InvalidData, InvalidParameter
from hushcall.protocol.numbers import NumberingPlan

SETTING = "personal"
PREFIX = "*"
_PATTERN = re.compile(r"\+[1-9][0-9]{0,14}\*|\+[1-9][0-9]{2,14}")


class Action(StrEnum):
    """What to do with a call. A warning is shown, and the call still rings."""

    ALLOW = "allow"
    WARN = "warn"
    BLOCK = "block"


@dataclass(frozen=True)
class Personal:
    """Numbers (``+12025550143``) and prefixes (``+1900*``), each with its action."""

    entries: Mapping[str, Action] = field(default_factory=dict)

    def verdict(self, number: str) -> Action | None:
        if number in self.entries:
            return self.entries[number]
        for length in range(len(number), 1, -1):
            if (action := self.entries.get(number[:length] + PREFIX)) is not None:
                return action
        return None

    def with_entry(self, pattern: str, action: Action | None) -> Personal:
        if action is None and pattern not in self.entries:
            raise InvalidParameter("entry", "be on your own list", pattern)
        entries = {**self.entries}
        entries.pop(pattern, None)
        return Personal(entries if action is None else {**entries, pattern: action})

    @classmethod
    def load(cls, store: Store) -> Personal:
        try:
            entries = json.loads(store.get(SETTING, "{}"))
            return cls({str(pattern): Action(action) for pattern, action in entries.items()})
        except (ValueError, AttributeError):
            raise InvalidData("own list", "be as this release keeps it", "another") from None

    def save(self, store: Store) -> None:
        store.put(SETTING, json.dumps({pattern: action.value for pattern, action in sorted(self.entries.items())}))


def mark(store: Store, plan: NumberingPlan, entries: Iterable[str], action: Action | None) -> Personal:
    """Put numbers and prefixes on the own list, or take them off (None). All of them or, on an error, none."""
    import phonenumbers

    own = Personal.load(store)
    for text in entries:
        pattern = pattern_of(text, plan)
        if action is not None and not pattern.endswith(PREFIX):
            length = phonenumbers.is_possible_number_with_reason(phonenumbers.parse(pattern))
            if length != phonenumbers.ValidationResult.IS_POSSIBLE:
                raise InvalidParameter("entry", "have as many digits as its country's numbers", text)
        own = own.with_entry(pattern, action)
    own.save(store)
    return own


def pattern_of(text: str, plan: NumberingPlan) -> str:
    """An entry from the owner's spelling: a number in any usual notation, or a prefix with its plus and a star."""
    bare = re.sub(r"[\s().-]", "", text)
    pattern = re.sub(r"^00(?=[1-9])", "+", bare) if PREFIX in bare else any_e164(text, plan)
    if not _PATTERN.fullmatch(pattern):
        raise InvalidParameter("entry", "be a number, or its beginning from the + on and a star (+1900*)", text)
    return pattern


def any_e164(text: str, plan: NumberingPlan) -> str:
    """A caller of any country as E.164, or an empty text: the own list may hold numbers outside the plan."""
    import phonenumbers

    try:
        parsed = phonenumbers.parse(re.sub(r"^\s*00(?=[1-9])", "+", text), plan.region)
    except (phonenumbers.NumberParseException, TypeError, AttributeError):
        return ""
    return str(phonenumbers.format_number(parsed, phonenumbers.PhoneNumberFormat.E164))
