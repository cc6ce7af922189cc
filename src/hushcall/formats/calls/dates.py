"""Local dates and durations as call logs write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, tzinfo

from hushcall.errors import InvalidData


@dataclass(frozen=True)
class DateLayout:
    """One way to write a local date. A year of two digits lies in this century."""

    title: str
    pattern: re.Pattern[str]

    def read(self, text: str, zone: tzinfo) -> int:
        """The Unix time. Of an hour that clocks repeat, the first. An hour that they skip has the offset before it."""
        match = self.pattern.fullmatch(text.strip())
        if match is None:
            raise InvalidData("date", f"be written {self.title}", f"{len(text)} characters")
        fields = {name: int(digits) for name, digits in match.groupdict().items()}
        if len(match["year"]) == 2:
            fields["year"] += 2000
        try:
            return int(datetime(**fields, tzinfo=zone).timestamp())
        except (ValueError, OverflowError):
            raise InvalidData("date", "exist in the calendar", f"{len(text)} characters") from None

    def matches(self, text: str) -> bool:
        return self.pattern.fullmatch(text.strip()) is not None


# \d is any script's digit: Android writes dates in the digits of the phone's language, and int() reads them all.
ISO = DateLayout(
    "yyyy-mm-dd hh:mm:ss",
    re.compile(
        r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[ T]"
        r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.\d{1,9})?"
    ),
)
DOTTED = DateLayout(
    "dd.mm.yy hh:mm",
    re.compile(r"(?P<day>\d\d)\.(?P<month>\d\d)\.(?P<year>\d\d(?:\d\d)?) (?P<hour>\d\d):(?P<minute>\d\d)"),
)
DAY_FIRST = DateLayout(
    "ddmmyyyy hhmm",
    re.compile(r"(?P<day>\d\d)(?P<month>\d\d)(?P<year>\d{4}) (?P<hour>\d\d)(?P<minute>\d\d)"),
)
AMERICAN = DateLayout(
    "mmddyyyy hhmm",
    re.compile(r"(?P<month>\d\d)(?P<day>\d\d)(?P<year>\d{4}) (?P<hour>\d\d)(?P<minute>\d\d)"),
)


_CLOCK = re.compile(r"(?:(\d{1,4}):)?(\d{1,7}):(\d\d)")
_PLAIN = re.compile(r"\d{1,8}(?:\.\d{1,9})?")
_WORDS = re.compile(r"(?:(\d{1,4}) ?h[a-z]*)? ?(?:(\d{1,6}) ?m[a-z]*)? ?(?:(\d{1,8}) ?s[a-z]*)?", re.IGNORECASE)


def duration_seconds(text: str, unit_seconds: int = 1) -> int | None:
    """``unit_seconds``: what the last or only number counts. None for anything unreadable.

    >>> duration_seconds("61"), duration_seconds("1:02:03"), duration_seconds("0:02", 60), duration_seconds("1 min 5 s")
    (61, 3723, 120, 65)
    """
    if _PLAIN.fullmatch(text):
        return int(float(text) * unit_seconds)
    clock = _CLOCK.fullmatch(text)
    match = clock or _WORDS.fullmatch(text)
    if not text or match is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return (3600 * hours + 60 * minutes + seconds) * (unit_seconds if clock else 1)


def day_comes_first(pairs: Iterable[tuple[int, int]]) -> bool | None:
    """Whether these first and second parts of dates are day and month.

    None where no day after the 12th shows it, or where dates contradict each other.

    >>> day_comes_first([(3, 1), (13, 2)]), day_comes_first([(3, 13)]), day_comes_first([(3, 1)])
    (True, False, None)
    """
    possible = {pair for pair in pairs if min(pair) <= 12}  # anything else is no date at all
    first, second = any(pair[0] > 12 for pair in possible), any(pair[1] > 12 for pair in possible)
    return None if first == second else first
