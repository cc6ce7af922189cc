"""PhoneBlock's dialect: lists come in, the answers of its API leave. Pure: the server's routes only call these.

Apps that speak to PhoneBlock (SpamBlocker among them) work with a hushcall server by changing one URL:

- ``/api/blocklist?since=N`` → :func:`changes_between` and :func:`document`;
- ``/api/check?sha1=…`` → :meth:`CheckIndex.check` and :func:`check_document`;
- ``/api/check-prefix?sha1=…`` → :meth:`CheckIndex.prefix` and :func:`prefix_document`: the server learns four hex
  digits of a hash, no number.

PhoneBlock counts votes and knows kinds of spam; we estimate how many phones reported a number on its last day, and
know no kind. So votes are that estimate, rounded down to one of PhoneBlock's steps, and at least 2, since the number
*is* listed; and the rating is its "bad, kind unknown".

>>> from dataclasses import replace
>>> entry = Entry("+12025550143", 1_800_000_000, 1_800_086_400, 2, 118.2, 97.0, 140.1, 1e-9)
>>> votes(entry), votes(replace(entry, estimate=49.6)), votes(replace(entry, estimate=0.3))
(100, 50, 2)
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hushcall.errors import InvalidList, InvalidParameter
from hushcall.protocol.blocklist import E164, Blocklist, Entry

Format = Literal["json", "xml"]

STEPS = (2, 4, 10, 20, 50, 100)
LISTED, UNLISTED = "B_MISSED", "A_LEGITIMATE"
MEDIA_TYPES: dict[Format, str] = {"json": "application/json", "xml": "application/xml"}
SHORTEST_PREFIX = 4
"""Hex digits that a client has to give at least: 16 bits of a hash, shared by thousands of numbers."""

_HEX = re.compile("[0-9A-Fa-f]+")


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


def votes(entry: Entry) -> int:
    """The estimate as PhoneBlock's clients filter it: the highest step that it reaches, at least the lowest one."""
    return max((step for step in STEPS if step <= round(entry.estimate)), default=STEPS[0])


def rating(count: int) -> str:
    """``B_MISSED`` (bad, kind unknown) for a listed number, ``A_LEGITIMATE`` for one that is not, or no more."""
    return LISTED if count else UNLISTED


def changes_between(old: Blocklist | None, new: Blocklist, formerly: Iterable[str] = ()) -> list[Change]:
    """What a client that holds ``old`` (nothing, if it asks for the first time) has to be told to hold ``new``.

    Like PhoneBlock, a number is told again only when it crosses a step of votes. Where a client's version is no longer
    kept, give no ``old`` and all numbers ``formerly`` listed: they are removed, whatever the client still holds.
    """
    before = {} if old is None else {entry.number: entry for entry in old.entries}
    after = {entry.number for entry in new.entries}
    put = [
        Change(entry.number, votes(entry), entry.last * 1000)
        for entry in new.entries
        if entry.number not in before or votes(before[entry.number]) != votes(entry)
    ]
    last_seen = {number: entry.last for number, entry in before.items()}
    gone = (last_seen.keys() | frozenset(formerly)) - after
    return put + [Change(number, 0, last_seen.get(number, new.made) * 1000) for number in sorted(gone)]


def document(changes: Sequence[Change], version: int, fmt: Format) -> tuple[bytes, str]:
    """The answer of ``/api/blocklist`` and its media type. ``version`` is what the client gives as ``since`` next."""
    rows = [
        {"phone": c.phone, "votes": c.votes, "rating": c.rating, "lastActivity": c.last_activity_ms} for c in changes
    ]
    if fmt == "json":
        return _json({"numbers": rows, "version": version}), MEDIA_TYPES[fmt]
    return _xml("blocklist", {"version": version}, [("phone-info", row) for row in rows]), MEDIA_TYPES[fmt]


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
        if type(change.votes) is not int or change.votes not in (0, *STEPS):
            raise InvalidList("votes", f"be 0 or one of {STEPS}", change.votes)
        if type(change.last_activity_ms) is not int:
            raise InvalidList("lastActivity", "be milliseconds", change.last_activity_ms)
    if type(version) is not int or document(changes, version, "json")[0] != data:
        raise InvalidList("document", "be written as this release writes it", f"{len(data)} bytes")
    return changes, version


def sha1_of(number: str) -> str:
    """A number's hash as PhoneBlock's clients send it: of ``+`` and the digits, in capital hex."""
    return hashlib.sha1(number.encode(), usedforsecurity=False).hexdigest().upper()


class CheckIndex:
    """A list, findable by the hash of a number or by the beginning of one."""

    def __init__(self, blocklist: Blocklist) -> None:
        by_hash = {sha1_of(entry.number): entry for entry in blocklist.entries}
        self._hashes = sorted(by_hash)
        self._entries = by_hash

    def check(self, sha1: str) -> Entry | None:
        """The entry whose number has this hash, if it is listed."""
        return self._entries.get(_hex("sha1", sha1, 40))

    def prefix(self, sha1: str) -> list[Entry]:
        """Every entry whose number's hash begins like this, in the order of the hashes."""
        start = _hex("sha1", sha1, SHORTEST_PREFIX)
        first, after = bisect_left(self._hashes, start), bisect_left(self._hashes, start + "G")
        return [self._entries[found] for found in self._hashes[first:after]]


def check_document(entry: Entry | None, fmt: Format) -> tuple[bytes, str]:
    """The answer of ``/api/check`` and its media type. Of a number that is not listed we know nothing, not even it."""
    info = _info(entry)
    if fmt == "json":
        return _json(info), MEDIA_TYPES[fmt]
    return _xml("phone-info", info, []), MEDIA_TYPES[fmt]


def prefix_document(entries: Iterable[Entry], fmt: Format) -> tuple[bytes, str]:
    """The answer of ``/api/check-prefix`` and its media type. Ranges of numbers are never listed, so both are empty."""
    rows = [_info(entry) for entry in entries]
    if fmt == "json":
        return _json({"numbers": rows, "range10": [], "range100": []}), MEDIA_TYPES[fmt]
    return _xml("prefix-check-result", {}, [("phone-info", row) for row in rows]), MEDIA_TYPES[fmt]


def _info(entry: Entry | None) -> dict[str, Any]:
    count = 0 if entry is None else votes(entry)
    return {
        "phone": "" if entry is None else entry.number,
        "votes": count,
        "votesWildcard": count,
        "rating": rating(count),
        "whiteListed": False,
        "blackListed": False,
        "archived": False,
        "dateAdded": 0 if entry is None else entry.first * 1000,
        "lastUpdate": 0 if entry is None else entry.last * 1000,
    }


def _hex(field: str, text: str, least: int) -> str:
    if not _HEX.fullmatch(text) or not least <= len(text) <= 40:
        raise InvalidParameter(field, f"be {least} to 40 hex digits" if least < 40 else "be 40 hex digits", text)
    return text.upper()


def _json(value: dict[str, Any]) -> bytes:
    # No blanks: SpamBlocker looks for "rating":"… in the text of the answer.
    return json.dumps(value, separators=(",", ":")).encode()


def _xml(root: str, attributes: dict[str, Any], rows: Iterable[tuple[str, dict[str, Any]]]) -> bytes:
    inner = "".join(f"<{name}{_attributes(row)}/>\n" for name, row in rows)
    return f'<?xml version="1.0" encoding="utf-8"?>\n<{root}{_attributes(attributes)}>\n{inner}</{root}>\n'.encode()


def _attributes(values: dict[str, Any]) -> str:
    # Values are numbers, truths, ratings and phone numbers: none of them needs escaping.
    return "".join(
        f' {key}="{str(value).lower() if isinstance(value, bool) else value}"' for key, value in values.items()
    )
