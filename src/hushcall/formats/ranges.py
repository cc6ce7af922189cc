"""Blocks of numbers that somebody rents to call from: a list comes in, prefixes that are mostly spam leave.

It only reads what was listed, so it costs no privacy. A block of ten stands for one where at least four of its numbers
are listed, a block of a hundred for one that has at least three such blocks of ten: as PhoneBlock has them, so that its
clients mean the same by them. A lone number never makes a block, and only numbers that block do, not those that warn.

A block is as long as its listed numbers: ``+4930123456x`` is ten numbers of eleven digits, and nobody whose number is
longer or shorter and begins alike.

>>> from hushcall.protocol.blocklist import Entry
>>> listed = [Entry(f"+4930123456{n}", 0, 0, 1, 20.0, 10.0, 30.0, 1e-9) for n in range(4)]
>>> ranges(listed).tens
(Range(prefix='+4930123456', listed=4, estimate=80.0, free=1),)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from hushcall.protocol.blocklist import Blocklist, Entry

LEAST_OF_TEN = 4
LEAST_TENS = 3
OPEN = "x"


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """A block: how its numbers begin, how many of them are listed, and how many phones reported those, all together.

    ``free`` digits follow the prefix.
    """

    prefix: str
    listed: int
    estimate: float
    free: int

    @property
    def size(self) -> int:
        """How many numbers it has: ten or a hundred."""
        return int(10**self.free)

    @property
    def pattern(self) -> str:
        """Its numbers, an x for each digit that is free."""
        return self.prefix + OPEN * self.free

    @property
    def numbers(self) -> tuple[str, ...]:
        """All of them, listed or not."""
        return tuple(f"{self.prefix}{last:0{self.free}d}" for last in range(self.size))


@dataclass(frozen=True)
class Ranges:
    """The blocks of ten and of a hundred of a list, by prefix."""

    tens: tuple[Range, ...] = ()
    hundreds: tuple[Range, ...] = ()

    @cached_property
    def _by_pattern(self) -> dict[str, Range]:
        return {found.pattern: found for found in (*self.tens, *self.hundreds)}

    @property
    def widest(self) -> tuple[Range, ...]:
        """All that the blocks cover, by prefix: those of a hundred, and those of ten that lie in none of them."""
        wide = {found.prefix for found in self.hundreds}
        return tuple(sorted((*self.hundreds, *(found for found in self.tens if found.prefix[:-1] not in wide))))

    def around(self, number: str) -> Range | None:
        """The block that a number (E.164) lies in: of two, that of which more numbers are listed."""
        found = [self._by_pattern.get(number[:-free] + OPEN * free) for free in (2, 1)]
        return max((block for block in found if block), key=lambda block: block.listed, default=None)


def ranges_of(blocklist: Blocklist) -> Ranges:
    """The blocks of a list: of the numbers in it that block."""
    return ranges(blocklist.to_block().entries)


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
    return Ranges(_blocks(full, 1), _blocks(wide, 2))


def _blocks(found: dict[str, list[Entry]], free: int) -> tuple[Range, ...]:
    total = {prefix: round(sum(entry.estimate for entry in entries), 1) for prefix, entries in found.items()}
    return tuple(sorted(Range(prefix, len(entries), total[prefix], free) for prefix, entries in found.items()))
