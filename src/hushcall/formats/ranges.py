"""Rented blocks of numbers: prefixes whose numbers are mostly on the list.

A block of ten needs at least four listed numbers, a block of a hundred at least three such blocks of ten: PhoneBlock's
rule. Numbers that only warn do not count. ``+4930123456x`` is ten numbers of eleven digits, and no longer or shorter
number that begins alike. Nothing but the list is read, so blocks cost no privacy. Hundreds that rounds found as such
(:mod:`hushcall.protocol.ranges`) come with them.

>>> from hushcall.protocol.blocklist import Entry
>>> listed = [Entry(f"+4930123456{n}", 0, 0, 1, 20.0, 10.0, 30.0, 1e-9) for n in range(4)]
>>> ranges(listed).tens
(Range(prefix='+4930123456', listed=4, estimate=80.0, free=1, blocks=True, passing=()),)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from hushcall.protocol.blocklist import Blocklist, Entry
from hushcall.protocol.items import OPEN
from hushcall.protocol.ranges import RangeEntry

MIN_LISTED = 4
MIN_TENS = 3


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """A block: a prefix and ``free`` digits, how many of its numbers are listed, and the sum of their estimates.

    One that rounds found as such has none ``listed``, may only warn, and has numbers that pass.
    """

    prefix: str
    listed: int
    estimate: float
    free: int
    blocks: bool = True
    passing: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return int(10**self.free)

    @property
    def pattern(self) -> str:
        return self.prefix + OPEN * self.free

    @property
    def why(self) -> str:
        """Without any character that a format would have to escape."""
        if self.listed:
            return f"{self.listed} of {self.size} numbers listed"
        return f"found as a range - about {max(1, round(self.estimate))} phones"

    @property
    def numbers(self) -> tuple[str, ...]:
        return tuple(f"{self.prefix}{last:0{self.free}d}" for last in range(self.size))


@dataclass(frozen=True)
class Ranges:
    tens: tuple[Range, ...] = ()
    hundreds: tuple[Range, ...] = ()

    @cached_property
    def _by_pattern(self) -> dict[str, Range]:
        return {block.pattern: block for block in (*self.tens, *self.hundreds)}

    @property
    def everywhere(self) -> tuple[Range, ...]:
        """The widest without those in which some numbers pass, for programs that know no exceptions."""
        return tuple(block for block in self.widest if not block.passing)

    @property
    def widest(self) -> tuple[Range, ...]:
        """The blocks of a hundred, and those of ten that none of them blocks as a whole, by prefix."""
        wide = {block.prefix for block in self.hundreds if block.blocks and not block.passing}
        return tuple(sorted((*self.hundreds, *(block for block in self.tens if block.prefix[:-1] not in wide))))

    def around(self, number: str) -> Range | None:
        """The block that a number (E.164) lies in. Of two blocks, the one with more listed numbers."""
        blocks = [self._by_pattern.get(number[:-free] + OPEN * free) for free in (2, 1)]
        around = (block for block in blocks if block and number not in block.passing)
        return max(around, key=lambda block: block.listed, default=None)


def ranges_of(blocklist: Blocklist, *, warned: bool = False) -> Ranges:
    """Those that block. With ``warned``, found ranges that only warn, too."""
    blocked = blocklist.to_block()
    return ranges(blocked.entries, (blocklist if warned else blocked).ranges)


def ranges(entries: Iterable[Entry], of_rounds: Iterable[Entry] = ()) -> Ranges:
    tens: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        tens[entry.number[:-1]].append(entry)
    full = {prefix: listed for prefix, listed in tens.items() if len(listed) >= MIN_LISTED}
    hundreds: dict[str, list[list[Entry]]] = defaultdict(list)
    for prefix, listed in full.items():
        hundreds[prefix[:-1]].append(listed)
    wide = {prefix: [*chain(*parts)] for prefix, parts in hundreds.items() if len(parts) >= MIN_TENS}
    others = {each.prefix: each for each in map(_of_entry, of_rounds) if each.prefix not in wide}
    return Ranges(_blocks(full, 1), tuple(sorted((*_blocks(wide, 2), *others.values()))))


def _of_entry(entry: Entry) -> Range:
    prefix = entry.number.rstrip(OPEN)
    passing = entry.passing if isinstance(entry, RangeEntry) else ()
    return Range(prefix, 0, entry.estimate, len(entry.number) - len(prefix), bool(entry.block), passing)


def _blocks(listed: dict[str, list[Entry]], free: int) -> tuple[Range, ...]:
    total = {prefix: round(sum(entry.estimate for entry in entries), 1) for prefix, entries in listed.items()}
    return tuple(sorted(Range(prefix, len(entries), total[prefix], free) for prefix, entries in listed.items()))
