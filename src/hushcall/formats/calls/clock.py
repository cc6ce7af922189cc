"""The readers' clock: a local date as a log writes it comes in, Unix seconds leave; and back, for the writers.

>>> from datetime import UTC
>>> ISO.read("2024-03-01 10:11:12", UTC), ISO.write(1_709_287_872, UTC)
(1709287872, '2024-03-01 10:11:12')
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, tzinfo

from hushcall.errors import InvalidData


@dataclass(frozen=True)
class DateLayout:
    """How a log writes dates. A year of two digits lies in this century."""

    words: str
    pattern: re.Pattern[str]
    strftime: str

    def read(self, text: str, zone: tzinfo) -> int:
        """The moment of a local date.

        An hour that exists twice (clocks go back) is the first of the two. One that doesn't exist (clocks go forward)
        is read as if the clocks had not been changed yet.
        """
        found = self.pattern.fullmatch(text.strip())
        if found is None:
            raise InvalidData("date", f"be written {self.words}", f"{len(text)} characters")
        parts = {name: int(digits) for name, digits in found.groupdict().items()}
        year = parts["year"] + (2000 if len(found["year"]) == 2 else 0)
        try:
            moment = datetime(
                year,
                parts["month"],
                parts["day"],
                parts["hour"],
                parts["minute"],
                parts.get("second", 0),
                tzinfo=zone,
            )
            return int(moment.timestamp())
        except (ValueError, OverflowError):
            raise InvalidData("date", "exist in the calendar", f"{len(text)} characters") from None

    def write(self, at: int, zone: tzinfo) -> str:
        """The local date of a moment, as the log would write it in that zone."""
        return datetime.fromtimestamp(at, zone).strftime(self.strftime)

    def found_in(self, text: str) -> bool:
        """Whether ``text`` is written this way, for guessing formats."""
        return self.pattern.fullmatch(text.strip()) is not None


# \d is any script's digit: Android writes dates in the digits of the phone's language, and int() reads them all.
ISO = DateLayout(
    "yyyy-mm-dd hh:mm:ss",
    re.compile(
        r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[ T]"
        r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.\d{1,9})?"
    ),
    "%Y-%m-%d %H:%M:%S",
)
DOTTED = DateLayout(
    "dd.mm.yy hh:mm",
    re.compile(r"(?P<day>\d\d)\.(?P<month>\d\d)\.(?P<year>\d\d(?:\d\d)?) (?P<hour>\d\d):(?P<minute>\d\d)"),
    "%d.%m.%y %H:%M",
)
DAY_FIRST = DateLayout(
    "ddmmyyyy hhmm",
    re.compile(r"(?P<day>\d\d)(?P<month>\d\d)(?P<year>\d{4}) (?P<hour>\d\d)(?P<minute>\d\d)"),
    "%d%m%Y %H%M",
)
AMERICAN = DateLayout(
    "mmddyyyy hhmm",
    re.compile(r"(?P<month>\d\d)(?P<day>\d\d)(?P<year>\d{4}) (?P<hour>\d\d)(?P<minute>\d\d)"),
    "%m%d%Y %H%M",
)


def day_comes_first(pairs: Iterable[tuple[int, int]]) -> bool | None:
    """Whether these first and second parts of dates are day and month; None where no day after the 12th tells.

    Nor is it told where some dates say this and some say that: a date is never guessed.

    >>> day_comes_first([(3, 1), (13, 2)]), day_comes_first([(3, 13)]), day_comes_first([(3, 1)])
    (True, False, None)
    """
    parts = {(one, two) for one, two in pairs if min(one, two) <= 12}  # else it is no date at all
    first, second = any(one > 12 for one, _ in parts), any(two > 12 for _, two in parts)
    return None if first == second else first
