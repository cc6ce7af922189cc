"""The answers of PhoneBlock's API, so that its apps (SpamBlocker among them) can use a hushcall server by its URL.

PhoneBlock counts votes and knows kinds of spam. We estimate how many phones reported a number on its last day, and know
no kind. So votes are the estimate, rounded down to one of PhoneBlock's steps and at least 10, because clients drop
numbers with up to 4 votes by default. A number that only warns has two votes. Fields have PhoneBlock's names.

>>> from dataclasses import replace
>>> entry = Entry("+12025550143", 1_800_000_000, 1_800_086_400, 2, 118.2, 97.0, 140.1, 1e-9)
>>> votes(entry), votes(replace(entry, estimate=49.6)), votes(replace(entry, estimate=0.3))
(100, 50, 10)
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from hushcall.errors import InvalidParameter
from hushcall.formats.ranges import Range, ranges_of
from hushcall.protocol.blocklist import Blocklist, Entry

Format = Literal["json", "xml"]
T = TypeVar("T")

STEPS = (10, 20, 50, 100)
WARNED = 2  # votes of a number that only warns
UNKNOWN = "unknown"  # stands for a number that is known by its hash only
LISTED, UNLISTED = "B_MISSED", "A_LEGITIMATE"
MIN_PREFIX = 4
"""Hex digits that a client sends at least: 16 bits of a hash, shared by thousands of numbers."""

_HEX = re.compile("[0-9A-Fa-f]+")


@dataclass(frozen=True, slots=True)
class Change:
    """A number to add or update, or with no votes to remove."""

    phone: str
    votes: int
    last_activity_ms: int


def votes(entry: Entry, *, block: bool = True) -> int:
    return max((step for step in STEPS if step <= round(entry.estimate)), default=STEPS[0]) if block else WARNED


def votes_in(blocklist: Blocklist, entry: Entry) -> int:
    return votes(entry, block=blocklist.header.block(entry))


def rating(count: int) -> str:
    return LISTED if count else UNLISTED


def changes_between(old: Blocklist | None, new: Blocklist) -> list[Change]:
    """The changes for a client that holds ``old``. A number seen again is sent again: clients forget inactive ones."""

    def rows(blocklist: Blocklist) -> dict[str, Change]:
        entries = blocklist.entries
        return {e.number: Change(e.number, votes_in(blocklist, e), e.last * 1000) for e in entries}

    before, after = rows(old) if old else {}, rows(new)
    changed = [change for number, change in after.items() if before.get(number) != change]
    return changed + [replace(before[number], votes=0) for number in sorted(before.keys() - after.keys())]


def largest(changes: Sequence[Change], limit: int) -> list[Change]:
    """At most ``limit`` numbers to add, those with most votes and then the latest, and all removals."""
    ranked = sorted(changes, key=lambda change: (-change.votes, -change.last_activity_ms, change.phone))
    chosen = {change.phone for change in ranked[:limit]} | {change.phone for change in changes if change.votes == 0}
    return [change for change in changes if change.phone in chosen]


def document(changes: Sequence[Change], version: int, fmt: Format) -> tuple[bytes, str]:
    """The answer of ``/api/blocklist`` and its media type. The client's next request has ``since=version``."""
    rows = [
        {"phone": c.phone, "votes": c.votes, "rating": rating(c.votes), "lastActivity": c.last_activity_ms}
        for c in changes
    ]
    return _written(fmt, "blocklist", {"numbers": rows, "version": version})


def sha1_of(number: str) -> str:
    """A number's hash as PhoneBlock's clients send it: of ``+`` and the digits, in upper-case hex."""
    return hashlib.sha1(number.encode(), usedforsecurity=False).hexdigest().upper()


@dataclass(frozen=True, slots=True)
class Rated:
    entry: Entry
    votes: int


class CheckIndex:
    """Looks a list and its blocks up by the hash of a number or a prefix, or by the beginning of a hash."""

    def __init__(self, blocklist: Blocklist) -> None:
        rated = (Rated(entry, votes_in(blocklist, entry)) for entry in blocklist.entries)
        self._entries = _ByHash({sha1_of(row.entry.number): row for row in rated})
        self.ranges = ranges_of(blocklist, warned=True)
        self._tens = _ByHash({sha1_of(block.prefix): block for block in self.ranges.tens})
        self._hundreds = _ByHash({sha1_of(block.prefix): block for block in self.ranges.hundreds if not block.passing})

    def check(self, sha1: str) -> Rated | None:
        return self._entries.items.get(_hex("sha1", sha1, 40))

    def wildcard(self, prefix10: str | None, prefix100: str | None) -> int:
        """The votes of a block, by the hashes of the number without its last digit and without its last two."""
        ten = self._tens.items.get(prefix10.upper()) if prefix10 else None
        hundred = self._hundreds.items.get(prefix100.upper()) if prefix100 else None
        return max((range_votes(block) for block in (ten, hundred) if block), default=0)

    def prefix(self, sha1: str) -> list[Rated]:
        return self._entries.beginning(_hex("sha1", sha1, MIN_PREFIX))

    def blocks(self, prefix10: str | None, prefix100: str | None) -> tuple[list[Range], list[Range]]:
        tens = self._tens.beginning(_hex("prefix10", prefix10, MIN_PREFIX)) if prefix10 else []
        hundreds = self._hundreds.beginning(_hex("prefix100", prefix100, MIN_PREFIX)) if prefix100 else []
        return tens, hundreds


class _ByHash(Generic[T]):
    def __init__(self, items: dict[str, T]) -> None:
        self.items, self._hashes = items, sorted(items)

    def beginning(self, start: str) -> list[T]:
        first, after = bisect_left(self._hashes, start), bisect_left(self._hashes, start + "G")
        return [self.items[sha1] for sha1 in self._hashes[first:after]]


def check_document(rated: Rated | None, fmt: Format, phone: str = UNKNOWN, wildcard: int = 0) -> tuple[bytes, str]:
    """The answer of ``/api/num`` and ``/api/check``, and its media type.

    ``phone`` is shown for a number that is not listed. ``wildcard``: the votes of the block that it lies in.
    """
    return _written(fmt, "phone-info", _info(rated, phone, wildcard))


def prefix_document(
    entries: Iterable[Rated], fmt: Format, blocks: tuple[Iterable[Range], Iterable[Range]] = ((), ())
) -> tuple[bytes, str]:
    tens, hundreds = (
        [{"prefix": block.prefix, "votes": range_votes(block), "cnt": block.listed} for block in group]
        for group in blocks
    )
    rows = [_info(entry) for entry in entries]
    return _written(fmt, "prefix-check-result", {"numbers": rows, "range10": tens, "range100": hundreds})


def range_votes(block: Range) -> int:
    """A block's votes: the sum of its numbers' estimates, at least the lowest step for each. Few if it only warns."""
    return max(round(block.estimate), STEPS[0] * max(block.listed, 1)) if block.blocks else WARNED


def _info(rated: Rated | None, phone: str = UNKNOWN, wildcard: int = 0) -> dict[str, Any]:
    entry, count = (None, 0) if rated is None else (rated.entry, rated.votes)
    return {
        "phone": phone if entry is None else entry.number,
        "votes": count,
        "rating": rating(count or wildcard),
        "votesWildcard": max(count, wildcard),
        "whiteListed": False,
        "blackListed": False,
        "archived": False,
        "dateAdded": 0 if entry is None else entry.first * 1000,
        "lastUpdate": 0 if entry is None else entry.last * 1000,
        "calls": 0 if entry is None else max(0, round(entry.estimate)),
        "heat": 0.0 if entry is None else max(0.0, entry.estimate),
        "spamConfidence": 0 if entry is None else min(99, round(100 * (1 - entry.p_value))),
    }


def _hex(field: str, text: str, min_digits: int) -> str:
    if not _HEX.fullmatch(text) or not min_digits <= len(text) <= 40:
        raise InvalidParameter(
            field, f"be {min_digits} to 40 hex digits" if min_digits < 40 else "be 40 hex digits", text
        )
    return text.upper()


def _written(fmt: Format, root: str, values: dict[str, Any]) -> tuple[bytes, str]:
    """As JSON, or as PhoneBlock's XML: an element for each list of rows, attributes for all other values."""
    if fmt == "json":  # no blanks: SpamBlocker searches the answer for the text "rating":"…
        return json.dumps(values, separators=(",", ":")).encode(), "application/json"
    inner = ""
    for key, rows in values.items():
        if isinstance(rows, list):
            name = "phone-info" if key == "numbers" else "range-match"
            elements = "".join(f"<{name}{_attributes(row)}/>\n" for row in rows)
            inner += f"<{_dashed(key)}>\n{elements}</{_dashed(key)}>\n"
    text = f'<?xml version="1.0" encoding="utf-8"?>\n<{root}{_attributes(values)}>\n{inner}</{root}>\n'
    return text.encode(), "application/xml"


def _attributes(values: dict[str, Any]) -> str:
    """No value needs escaping."""
    texts = {key: "false" if value is False else value for key, value in values.items() if not isinstance(value, list)}
    return "".join(f' {_dashed(key)}="{text}"' for key, text in texts.items())


def _dashed(name: str) -> str:
    """``lastActivity`` → ``last-activity``, ``range10`` → ``range-10``."""
    return re.sub("([A-Z]|[0-9]+)", r"-\1", name).lower()
