"""What readers make of a call log: one call, and what a whole file or chunk of a log came to.

>>> Call("+12025550143", 1_709_287_872, CallKind.MISSED).hidden
False
>>> Call("", 1_709_287_872, CallKind.MISSED).hidden
True
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from enum import StrEnum

from hushcall.errors import InvalidData

LATEST = 4_102_444_800  # 2100-01-01: a later call is a slip, or somebody's attack on a date parser
LONGEST_NUMBER = 80
LONGEST_NAME = 200

# What logs write instead of a number that was withheld, and instead of a name that the phone doesn't know.
_HIDDEN = frozenset(
    (
        *("-", "-1", "-2", "-3", "null", "none", "unknown", "private", "anonymous", "anonym", "restricted", "withheld"),
        *("unavailable", "payphone", "no-number", "out-of-area", "o", "p"),
    )
)
_NAMELESS = frozenset(("-", "null", "unknown", "(unknown)", "unknown_caller", "no name", "no-name"))


class CallKind(StrEnum):
    """What became of a call. Only some of them count as an unknown caller (``phone.calls.candidates``)."""

    INCOMING = "incoming"
    OUTGOING = "outgoing"
    MISSED = "missed"
    VOICEMAIL = "voicemail"
    REJECTED = "rejected"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class Call:
    """One call: the other party's number as the log has it, when it began (Unix seconds), and what became of it.

    ``name`` is the one from the phone's own contacts. A name that came with the call is not taken: the caller chose it.
    """

    number: str
    at: int
    kind: CallKind
    name: str = ""

    def __post_init__(self) -> None:
        if not self.number.isprintable() or len(self.number) > LONGEST_NUMBER:
            rule = f"be printable and at most {LONGEST_NUMBER} characters long"
            raise InvalidData("number", rule, f"{len(self.number)} characters")
        if not 0 <= self.at < LATEST:
            raise InvalidData("date", "lie between 1970 and 2100", self.at)

    @property
    def hidden(self) -> bool:
        """Whether the caller withheld the number."""
        return not self.number


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The calls of a file, in its order, and what could not be read."""

    calls: tuple[Call, ...] = ()
    malformed: int = 0
    first_problem: str = ""  # where, and which rule was broken; never a phone number
    consumed: int = 0  # bytes read: the next chunk of a growing log starts here
    format: str = ""


def tidy(text: str) -> str:
    """``text`` without the invisible marks that phones put around numbers, and with plain spaces.

    >>> tidy("\u202a+1\u00a0202\u00a0555\u00a00143\u202c")
    '+1 202 555 0143'
    """
    if text.isprintable():
        return text.strip()
    return " ".join("".join(char for char in text if unicodedata.category(char) != "Cf").split())


def known_number(text: str) -> str:
    """The number that a log shows, or ``""`` where it says in its own way that there is none."""
    number = tidy(text)
    return "" if number.casefold() in _HIDDEN else number


def known_name(text: str) -> str:
    """The contact's name that a log shows, or ``""`` where it says in its own way that there is none."""
    name = "".join(char if char.isprintable() else " " for char in text[:LONGEST_NAME]).strip()
    return "" if name.casefold() in _NAMELESS else name
