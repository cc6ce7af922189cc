"""PhoneBlock's dialect: lists come in, the answers of its API leave. Pure: the server's routes only call these.

Apps that speak to PhoneBlock (SpamBlocker among them) work with a hushcall server by changing one URL:

- ``/api/blocklist?since=N`` → :func:`changes_between` and :func:`document`;
- ``/api/num/…`` and ``/api/check?sha1=…`` → :meth:`CheckIndex.check` and :func:`check_document`;
- ``/api/check-prefix?sha1=…`` → :meth:`CheckIndex.prefix` and :func:`prefix_document`: the server learns four hex
  digits of a hash, no number.

PhoneBlock counts votes and knows kinds of spam; we estimate how many phones reported a number on its last day, and
know no kind. So votes are that estimate, rounded down to one of PhoneBlock's steps, and at least 10, since the number
*is* listed, and clients drop what has no more than 4 by default; and the rating is its "bad, kind unknown". A number
that only warns yet has two votes, whatever its estimate: clients that block ask for more. Fields have the names that
its own models write, in JSON as in XML.

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
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from hushcall.errors import InvalidList, InvalidParameter
from hushcall.formats.ranges import Range, ranges_of
from hushcall.protocol.blocklist import E164, Blocklist, Entry

Format = Literal["json", "xml"]
T = TypeVar("T")

STEPS = (10, 20, 50, 100)
WARNED = 2
"""The votes of a number that only warns: clients block what has more than four, by default."""
UNKNOWN = "unknown"
"""What stands for a number that a hash does not reveal."""
LISTED, UNLISTED = "B_MISSED", "A_LEGITIMATE"
MEDIA_TYPES: dict[Format, str] = {"json": "application/json", "xml": "application/xml"}
SHORTEST_PREFIX = 4
"""Hex digits that a client has to give at least: 16 bits of a hash, shared by thousands of numbers."""

_HEX = re.compile("[0-9A-Fa-f]+")
_CAPITAL = re.compile("([A-Z])")


@dataclass(frozen=True, slots=True)
class Change:
    """A number to put, or with no votes to remove; when it was last seen, in milliseconds."""

    phone: str
    votes: int
    last_activity_ms: int

    @property
    def rating(self) -> str:
        """PhoneBlock's kind of call: we know none, so listed or not is all it tells."""
        return rating(self.votes)


def votes(entry: Entry, *, block: bool = True) -> int:
    """The estimate as PhoneBlock's clients filter it: the highest step that it reaches, at least the lowest one.

    What only warns has fewer than any of them.
    """
    return max((step for step in STEPS if step <= round(entry.estimate)), default=STEPS[0]) if block else WARNED


def votes_in(made: Blocklist, entry: Entry) -> int:
    """The votes of an entry under its list's own rule of when to block."""
    return votes(entry, block=made.terms.block(entry))


def rating(count: int) -> str:
    """``B_MISSED`` (bad, kind unknown) for a listed number, ``A_LEGITIMATE`` for one that is not, or no more."""
    return LISTED if count else UNLISTED


def changes_between(old: Blocklist | None, new: Blocklist, formerly: Iterable[str] = ()) -> list[Change]:
    """What a client that holds ``old`` (nothing, if it asks for the first time) has to be told to hold ``new``.

    A number is told again when it crosses a step of votes or was seen again: clients forget what has not been active
    for long. Where a client's version is no longer kept, give no ``old`` and all numbers ``formerly`` listed: they are
    removed, whatever the client still holds.
    """
    before = {} if old is None else {entry.number: entry for entry in old.entries}
    after = {entry.number for entry in new.entries}
    put = [
        Change(entry.number, votes_in(new, entry), entry.last * 1000)
        for entry in new.entries
        if entry.number not in before or _told(old, before[entry.number]) != _told(new, entry)
    ]
    last_seen = {number: entry.last for number, entry in before.items()}
    gone = (last_seen.keys() | frozenset(formerly)) - after
    return put + [Change(number, 0, last_seen.get(number, new.made) * 1000) for number in sorted(gone)]


def _told(made: Blocklist | None, entry: Entry) -> tuple[int, int]:
    return votes(entry) if made is None else votes_in(made, entry), entry.last


def largest(changes: Sequence[Change], limit: int) -> list[Change]:
    """At most ``limit`` numbers to put, those with most votes and then the latest; removals are never left out."""
    ranked = sorted(changes, key=lambda change: (-change.votes, -change.last_activity_ms, change.phone))
    kept = {change.phone for change in ranked[:limit]} | {change.phone for change in changes if change.votes == 0}
    return [change for change in changes if change.phone in kept]


def document(changes: Sequence[Change], version: int, fmt: Format) -> tuple[bytes, str]:
    """The answer of ``/api/blocklist`` and its media type. ``version`` is what the client gives as ``since`` next."""
    rows = [
        {"phone": c.phone, "votes": c.votes, "rating": c.rating, "lastActivity": c.last_activity_ms} for c in changes
    ]
    if fmt == "json":
        return _json({"numbers": rows, "version": version}), MEDIA_TYPES[fmt]
    return _xml("blocklist", {"version": version}, {"numbers": [("phone-info", row) for row in rows]}), MEDIA_TYPES[fmt]


def parse(data: bytes) -> tuple[list[Change], int]:
    """The changes and the version of a JSON document, strictly: only what :func:`document` writes is one."""
    try:
        found = json.loads(data)
        version = found["version"]
        changes = [Change(row["phone"], row["votes"], row["lastActivity"]) for row in found["numbers"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidList("document", "be PhoneBlock's JSON", data) from None
    for change in changes:
        if not isinstance(change.phone, str) or not E164.fullmatch(change.phone):
            raise InvalidList("phone", "be a plus and 7 to 15 digits", change.phone)
        if type(change.votes) is not int or change.votes not in (0, WARNED, *STEPS):
            raise InvalidList("votes", f"be 0, {WARNED} or one of {STEPS}", change.votes)
        if type(change.last_activity_ms) is not int:
            raise InvalidList("lastActivity", "be milliseconds", change.last_activity_ms)
    if type(version) is not int or document(changes, version, "json")[0] != data:
        raise InvalidList("document", "be written as this release writes it", f"{len(data)} bytes")
    return changes, version


def sha1_of(number: str) -> str:
    """A number's hash as PhoneBlock's clients send it: of ``+`` and the digits, in capital hex."""
    return hashlib.sha1(number.encode(), usedforsecurity=False).hexdigest().upper()


@dataclass(frozen=True, slots=True)
class Rated:
    """An entry and its votes."""

    entry: Entry
    votes: int


class CheckIndex:
    """A list and its blocks, findable by the hash of a number or of a prefix, or by the beginning of one."""

    def __init__(self, blocklist: Blocklist) -> None:
        rated = (Rated(entry, votes_in(blocklist, entry)) for entry in blocklist.entries)
        self._entries = _Hashed({sha1_of(one.entry.number): one for one in rated})
        self.ranges = ranges_of(blocklist)
        self._tens = _Hashed({sha1_of(found.prefix): found for found in self.ranges.tens})
        self._hundreds = _Hashed({sha1_of(found.prefix): found for found in self.ranges.hundreds})

    def check(self, sha1: str) -> Rated | None:
        """The entry whose number has this hash, if it is listed."""
        return self._entries.found.get(_hex("sha1", sha1, 40))

    def wildcard(self, prefix10: str | None, prefix100: str | None) -> int:
        """The votes of a block, by the hashes of the number without its last digit and without its last two."""
        found = [self._tens.found.get(prefix10.upper())] if prefix10 else []
        found += [self._hundreds.found.get(prefix100.upper())] if prefix100 else []
        return max((range_votes(block) for block in found if block), default=0)

    def prefix(self, sha1: str) -> list[Rated]:
        """Every entry whose number's hash begins like this, in the order of the hashes."""
        return self._entries.beginning(_hex("sha1", sha1, SHORTEST_PREFIX))

    def blocks(self, prefix10: str | None, prefix100: str | None) -> tuple[list[Range], list[Range]]:
        """The blocks of ten and of a hundred whose prefixes' hashes begin like these."""
        ten = self._tens.beginning(_hex("prefix10", prefix10, SHORTEST_PREFIX)) if prefix10 else []
        hundred = self._hundreds.beginning(_hex("prefix100", prefix100, SHORTEST_PREFIX)) if prefix100 else []
        return ten, hundred


class _Hashed(Generic[T]):
    """Things by the hash of their number, sorted."""

    def __init__(self, found: dict[str, T]) -> None:
        self.found, self._hashes = found, sorted(found)

    def beginning(self, start: str) -> list[T]:
        first, after = bisect_left(self._hashes, start), bisect_left(self._hashes, start + "G")
        return [self.found[hashed] for hashed in self._hashes[first:after]]


def check_document(
    found: Rated | None, fmt: Format, phone: str = UNKNOWN, wildcard: Range | int | None = None
) -> tuple[bytes, str]:
    """The answer of ``/api/num`` and ``/api/check``, and its media type.

    ``phone`` is what a number that is not listed is called; ``wildcard`` the block that it lies in, or its votes.
    """
    info = _info(found, phone, range_votes(wildcard) if isinstance(wildcard, Range) else wildcard or 0)
    if fmt == "json":
        return _json(info), MEDIA_TYPES[fmt]
    return _xml("phone-info", info), MEDIA_TYPES[fmt]


def prefix_document(
    entries: Iterable[Rated], fmt: Format, blocks: tuple[Iterable[Range], Iterable[Range]] = ((), ())
) -> tuple[bytes, str]:
    """The answer of ``/api/check-prefix`` and its media type: numbers, blocks of ten and blocks of a hundred."""
    rows = [_info(entry) for entry in entries]
    tens, hundreds = ([_match(block) for block in found] for found in blocks)
    if fmt == "json":
        return _json({"numbers": rows, "range10": tens, "range100": hundreds}), MEDIA_TYPES[fmt]
    parts = {
        "numbers": [("phone-info", row) for row in rows],
        "range-10": [("range-match", row) for row in tens],
        "range-100": [("range-match", row) for row in hundreds],
    }
    return _xml("prefix-check-result", {}, parts), MEDIA_TYPES[fmt]


def range_votes(block: Range) -> int:
    """A block's votes: all of its listed numbers', at least the lowest step for each."""
    return max(round(block.estimate), STEPS[0] * block.listed)


def _match(block: Range) -> dict[str, Any]:
    return {"prefix": block.prefix, "votes": range_votes(block), "cnt": block.listed}


def _info(found: Rated | None, phone: str = UNKNOWN, wildcard: int = 0) -> dict[str, Any]:
    entry, count = (None, 0) if found is None else (found.entry, found.votes)
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


def _hex(field: str, text: str, least: int) -> str:
    if not _HEX.fullmatch(text) or not least <= len(text) <= 40:
        raise InvalidParameter(field, f"be {least} to 40 hex digits" if least < 40 else "be 40 hex digits", text)
    return text.upper()


def _json(value: dict[str, Any]) -> bytes:
    # No blanks: SpamBlocker looks for "rating":"… in the text of the answer.
    return json.dumps(value, separators=(",", ":")).encode()


def _xml(
    root: str, attributes: dict[str, Any], parts: dict[str, list[tuple[str, dict[str, Any]]]] | None = None
) -> bytes:
    """A document as PhoneBlock's reader wants it: each list of rows in an element of its own, all else attributes."""
    inner = "".join(
        f"<{part}>\n" + "".join(f"<{name}{_attributes(row)}/>\n" for name, row in rows) + f"</{part}>\n"
        for part, rows in (parts or {}).items()
    )
    return f'<?xml version="1.0" encoding="utf-8"?>\n<{root}{_attributes(attributes)}>\n{inner}</{root}>\n'.encode()


def _attributes(values: dict[str, Any]) -> str:
    """``lastActivity`` is ``last-activity`` there. Numbers, truths, ratings and phone numbers need no escaping."""
    return "".join(
        f' {_dashed(key)}="{str(value) if value is not False else "false"}"' for key, value in values.items()
    )


def _dashed(key: str) -> str:
    return _CAPITAL.sub(r"-\1", key).lower()
