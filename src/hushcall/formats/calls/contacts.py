r"""The phone reads this to know whom it never reports: a file of contacts comes in, their numbers leave.

>>> sorted(read_contacts(b"# family\n202-555-0143  # home\n+1 202 555 0199\n").numbers)
['+1 202 555 0199', '202-555-0143']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hushcall.errors import InvalidData, InvalidParameter
from hushcall.formats.calls.call import LONGEST_NUMBER, tidy
from hushcall.formats.calls.termux import json_list, text_of
from hushcall.formats.calls.texts import HEAD_BYTES, check_size, decode, head_text, lines
from hushcall.formats.calls.vcard import phone_numbers

_DIALLED = re.compile(r"[+(*#]*\d")  # a number that starts otherwise would never match a call, and nobody would notice


@dataclass(frozen=True, slots=True)
class Contacts:
    """The numbers of a file of contacts, as it writes them, and what could not be read."""

    numbers: frozenset[str] = frozenset()
    malformed: int = 0
    first_problem: str = ""  # which entry, and which rule was broken; never a phone number
    format: str = ""


def _plain(data: bytes) -> Iterable[str]:
    """One number a line; what follows a # is a comment."""
    return filter(str.strip, (line.partition("#")[0] for line in lines(decode(data))))


def _termux(data: bytes) -> Iterable[Any]:
    """The JSON that ``termux-contact-list`` prints."""
    return json_list("Termux contact list", data)


def _vcard(data: bytes) -> Iterable[str]:
    return phone_numbers(decode(data))


FORMATS: dict[str, Callable[[bytes], Iterable[Any]]] = {"vcard": _vcard, "termux": _termux, "plain": _plain}


def detect_contacts(head: bytes) -> str:
    """The name of the format of a file that begins with ``head``. A plain list is what is neither of the others."""
    text = head_text(head)
    if re.match(r"begin:vcard", text, re.IGNORECASE):
        return "vcard"
    return "termux" if text.startswith("[") else "plain"


def read_contacts(data: bytes, format: str | None = None) -> Contacts:  # noqa: A002 (what the user calls it)
    """The numbers of a file of contacts: vCard, Termux JSON, or one number a line. Without ``format`` it is guessed."""
    check_size("contacts", data)
    name = detect_contacts(data[:HEAD_BYTES]) if format is None else format
    if name not in FORMATS:
        raise InvalidParameter("format", f"be one of {', '.join(FORMATS)}", name)
    numbers: set[str] = set()
    malformed, first_problem = 0, ""
    for place, entry in enumerate(FORMATS[name](data) if data and not data.isspace() else (), 1):
        try:
            numbers.add(_number(text_of(entry, "number")))
        except InvalidData as problem:
            malformed += 1
            first_problem = first_problem or f"entry {place}: {problem.field} must {problem.rule}"
    if malformed and not numbers:
        rule = f"be vCard, termux-contact-list JSON or one number a line ({first_problem})"
        raise InvalidData("contacts", rule, f"{malformed} malformed entries")
    return Contacts(frozenset(numbers), malformed, first_problem, name)


def _number(text: str) -> str:
    number = tidy(text)
    if not _DIALLED.match(number) or not number.isprintable() or len(number) > LONGEST_NUMBER:
        rule = f"begin like a number, be printable and at most {LONGEST_NUMBER} characters long"
        raise InvalidData("number", rule, f"{len(number)} characters")
    return number
