"""One call, and the result of reading a call log."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from enum import StrEnum

from hushcall.errors import InvalidData
from hushcall.formats import MARK

MAX_TIME = 4_102_444_800  # 2100-01-01: a later date is an error
MAX_NUMBER_LENGTH = 80
MAX_NAME_LENGTH = 200

# Written by logs instead of a withheld number, and instead of a name that is not in the contacts.
_WITHHELD = frozenset(
    (
        *("-", "-1", "-2", "-3", "null", "none", "unknown", "private", "anonymous", "anonym", "restricted", "withheld"),
        *("unavailable", "payphone", "no-number", "out-of-area", "o", "p"),
    )
)
_ANONYMOUS = frozenset(("-", "null", "unknown", "(unknown)", "unknown_caller", "no name", "no-name"))


class CallKind(StrEnum):
    """What became of a call. ``client.calls.candidates`` says which kinds count as an unknown caller."""

    INCOMING = "incoming"
    OUTGOING = "outgoing"
    MISSED = "missed"
    VOICEMAIL = "voicemail"
    REJECTED = "rejected"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class Call:
    """One call: the other party's number as logged, its start in Unix seconds, and its kind."""

    number: str
    at: int
    kind: CallKind
    name: str = ""  # from the phone's own contacts, never from the network: the caller chooses that one
    duration_seconds: int | None = None  # how long the two were connected. None where the log does not say

    def __post_init__(self) -> None:
        if not self.number.isprintable() or len(self.number) > MAX_NUMBER_LENGTH:
            rule = f"be printable and at most {MAX_NUMBER_LENGTH} characters long"
            raise InvalidData("number", rule, f"{len(self.number)} characters")
        if not 0 <= self.at < MAX_TIME:
            raise InvalidData("date", "lie between 1970 and 2100", self.at)
        if self.duration_seconds is not None and self.duration_seconds < 0:
            raise InvalidData("duration", "be no less than 0", self.duration_seconds)

    @property
    def hidden(self) -> bool:
        return not self.number


@dataclass(frozen=True, slots=True)
class ReadResult:
    calls: tuple[Call, ...] = ()
    malformed: int = 0
    first_problem: str = ""  # the place and the broken rule, never a phone number
    consumed: int = 0  # bytes; the next chunk of a growing log starts here
    format: str = ""


def tidy(text: str) -> str:
    """Removes invisible formatting characters and normalises blanks.

    >>> tidy("\u202a+1\u00a0202\u00a0555\u00a00143\u202c")
    '+1 202 555 0143'
    """
    if text.isprintable():
        return text.strip()
    return " ".join("".join(char for char in text if unicodedata.category(char) != "Cf").split())


def clean_number(text: str) -> str:
    """The number in a log's field, or ``""`` for any spelling of "withheld"."""
    number = tidy(text)
    return "" if number.casefold() in _WITHHELD else number


def clean_name(text: str) -> str:
    """The name in a log's field, or ``""`` for any spelling of "unknown", and for entries of exported lists."""
    name = "".join(char if char.isprintable() else " " for char in text[:MAX_NAME_LENGTH]).strip()
    return "" if name.casefold() in _ANONYMOUS or name.startswith(MARK) else name
