"""The base of all exports. An export is a function of the list alone, dates included: equal lists give equal bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from hushcall import checks
from hushcall.formats import MARK
from hushcall.protocol.blocklist import Blocklist, Entry, iso

__all__ = ["MARK", "Writer", "shortened", "why"]


@dataclass(frozen=True)
class Writer:
    name: str
    title: str
    filename: str
    media_type: str
    write: Callable[[Blocklist], bytes]


def why(entry: Entry) -> str:
    """Why a number is listed, without any character that a format would have to escape.

    >>> why(Entry("+12025550143", 0, 1_800_000_000, 3, 118.2, 97.0, 140.1, 1e-9))
    'hushcall: seen 3 days - about 118 phones on 2027-01-15'
    """
    if entry.source:
        return f"{MARK}: {entry.source}"
    phones, days = max(1, round(entry.estimate)), entry.days
    counted = f"{days} day{'s' * (days > 1)} - about {phones} phone{'s' * (phones > 1)}"
    return f"{MARK}: seen {counted} on {iso(entry.last)[:10]}{' - by a hint' if entry.hinted else ''}"


def shortened(blocklist: Blocklist, limit: int | None) -> Blocklist:
    """The list with its ``limit`` largest entries only, for routers that store few."""
    if limit is None or limit >= len(blocklist.entries):
        return blocklist
    checks.whole("limit", limit, 1)
    ranked = sorted(blocklist.entries, key=lambda entry: (-entry.estimate, -entry.days, entry.number))
    return replace(blocklist, entries=tuple(sorted(ranked[:limit], key=lambda entry: entry.number)))
