"""Blocks of numbers that somebody rents to call from: a list comes in, prefixes that are mostly spam leave.

It only reads what was listed, so it costs no privacy. A block of ten stands for one where at least four of its numbers
are listed, a block of a hundred for one that has at least three such blocks of ten: as PhoneBlock has them, so that its
clients mean the same by them. A lone number never makes a block.

>>> from hushcall.protocol.blocklist import Entry
>>> listed = [Entry(f"+4930123456{n}", 0, 0, 1, 20.0, 10.0, 30.0, 1e-9) for n in range(4)]
>>> ranges(listed).tens
(Range(prefix='+4930123456', listed=4, estimate=80.0),)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from hushcall.protocol.blocklist import Entry

LEAST_OF_TEN = 4
LEAST_TENS = 3


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """A block: how its numbers begin, how many of them are listed, and how many phones reported those, all together."""

    prefix: str
    listed: int
    estimate: float


@dataclass(frozen=True)
class Ranges:
    """The blocks of ten and of a hundred of a list, by prefix."""

    tens: tuple[Range, ...] = ()
    hundreds: tuple[Range, ...] = ()

    @cached_property
    def _by_prefix(self) -> dict[str, Range]:
        return {found.prefix: found for found in (*self.tens, *self.hundreds)}

    def around(self, number: str) -> Range | None:
        """The block that a number (E.164) lies in: of two, that of which more numbers are listed."""
        found = [self._by_prefix.get(number[:-2]), self._by_prefix.get(number[:-1])]
        return max((block for block in found if block), key=lambda block: block.listed, default=None)


def ranges(entries: Iterable[Entry]) -> Ranges:
    """The blocks that these entries show."""
    tens: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        tens[entry.number[:-1]].append(entry)
    full = {prefix: found for prefix, found in tens.items() if len(found) >= LEAST_OF_TEN}
    hundreds: dict[str, list[list[Entry]]] = defaultdict(list)
    for prefix, found in full.items():
        hundreds[prefix[:-1]].append(found)
    wide = {prefix: [*chain(*found)] for prefix, found in hundreds.items() if len(found) >= LEAST_TENS}
    return Ranges(_blocks(full), _blocks(wide))


def _blocks(found: dict[str, list[Entry]]) -> tuple[Range, ...]:
    total = {prefix: round(sum(entry.estimate for entry in entries), 1) for prefix, entries in found.items()}
    return tuple(sorted(Range(prefix, len(entries), total[prefix]) for prefix, entries in found.items()))
