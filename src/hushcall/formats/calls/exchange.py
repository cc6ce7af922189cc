"""What the logs of telephone exchanges (Asterisk, FreeSWITCH) share: rows of CSV, and who of the two is outside.

Such a log says who called whom, but not which of them is the stranger. An internal extension has few digits; where both
numbers are long, the dialplan context tells, or the channels do; where nothing tells, the call is taken for one that
somebody inside made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from hushcall.errors import InvalidData
from hushcall.formats.calls.call import Call, CallKind, known_number
from hushcall.formats.calls.texts import first_lines

OUTSIDE_DIGITS = 7
COMES_IN = re.compile(r"trunk|pstn|did|inbound|incoming|outside|external|public|ingress|(?:^|[-_])in$", re.IGNORECASE)
"""Contexts in which calls arrive, by the names that administrators give them."""
GOES_OUT = re.compile(r"outbound|outgoing|dialout|outrt|(?:^|[-_])out$", re.IGNORECASE)
"""Contexts through which calls leave: whoever is the source there is one of us."""


def columns(line: str, least: int) -> list[str]:
    """The fields of a row, of which there must be ``least``."""
    import csv

    try:
        row = next(csv.reader([line], strict=True), [])
    except csv.Error:
        raise InvalidData("line", "be well-formed CSV", f"{len(line)} characters") from None
    if len(row) < least:
        raise InvalidData("line", f"have at least {least} columns", len(row))
    return row


def first_rows(head: bytes, least: int) -> Iterable[list[str]]:
    """The rows among the first lines of a file, for guessing what it is."""
    for line in first_lines(head):
        try:
            yield columns(line, least)
        except InvalidData:
            continue


def outside(number: str) -> bool:
    """Whether a number belongs to somebody outside: extensions are shorter, and names of extensions have no digits."""
    return sum(char.isdecimal() for char in number) >= OUTSIDE_DIGITS


def stranger(source: str, target: str, came_in: bool) -> tuple[str, bool] | None:
    """The outside party and whether it was called (rather than calling); ``None`` for a call from desk to desk.

    Where both numbers are long, only what shows that the call ``came_in`` makes the caller the stranger: the other
    mistake would take the exchange's own number, or somebody whom a desk called, for a spammer.

    >>> stranger("2025550143", "100", False), stranger("100", "2025550143", True), stranger("100", "101", False)
    (('2025550143', False), ('2025550143', True), None)
    """
    caller = known_number(source)
    from_inside = bool(caller) and not outside(caller)
    if outside(target) and (from_inside or not came_in):
        return known_number(target), True
    return None if from_inside else (caller, False)


def outside_call(source: str, target: str, came_in: bool, at: int, incoming: CallKind) -> Call | None:
    """The call with the outside party, ``incoming`` unless it was called; ``None`` for a call from desk to desk."""
    found = stranger(source, target, came_in)
    if found is None:
        return None
    number, called = found
    return Call(number, at, CallKind.OUTGOING if called else incoming)


def quoted(values: Iterable[str]) -> str:
    """A row of CSV with every field in quotes, as these exchanges write it."""
    return ",".join('"' + value.replace('"', '""') + '"' for value in values) + "\n"
