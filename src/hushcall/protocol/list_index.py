"""Search in a list. A hundred thousand entries load in a fraction of a second, because none is parsed.

The list stays one block of bytes, with two tables of its numbers and their places. A lookup bisects them and parses one
line.

>>> index = ListIndex.of_entries(Entry("+12025550143", 1_800_000_000, 1_800_000_000, 1, 5.0, 4.0, 6.0, 1e-9).line())
>>> len(index), index.find("+12025550143").days, list(index.starting("+1202")), list(index.starting("+1203"))
(1, 1, [0], [])
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hushcall.errors import InvalidList
from hushcall.protocol.blocklist import E164, Entry

_MAX_DIGITS = 15
_ENTRY = re.compile(rb'^\{"number":"\+([1-9][0-9]{6,14})",', re.MULTILINE)


@dataclass(frozen=True)
class ListIndex:
    data: bytes = field(repr=False)
    ranks: array[int] = field(repr=False)
    starts: array[int] = field(repr=False)

    @classmethod
    def of_entries(cls, data: bytes) -> ListIndex:
        """Indexes the lines that are entries, sorted by number, each number once. Other lines are skipped."""
        ranks, starts, last = array("Q"), array("Q"), 0
        for match in _ENTRY.finditer(data):
            rank = _rank(match[1])
            if rank <= last:
                raise InvalidList(
                    "list", "be sorted by number, each number once", f"disorder in line {len(starts) + 2}"
                )
            last = rank
            ranks.append(rank)
            starts.append(match.start())
        return cls(data, ranks, starts)

    def __len__(self) -> int:
        return len(self.starts)

    def find(self, number: str) -> Entry | None:
        if not E164.fullmatch(number):
            return None
        rank = _rank(number[1:].encode())
        place = bisect_left(self.ranks, rank)
        return self.at(place) if place < len(self) and self.ranks[place] == rank else None

    def starting(self, prefix: str) -> range:
        digits = prefix.removeprefix("+")
        if not digits:
            return range(len(self))
        after = str(int(digits) + 1)
        if len(after) > len(digits):  # a prefix of nines has no successor
            return range(bisect_left(self.ranks, _floor(digits)), len(self))
        return range(bisect_left(self.ranks, _floor(digits)), bisect_left(self.ranks, _floor(after)))

    def in_company(self, least: int) -> list[int]:
        """The places of numbers that differ from at least ``least`` − 1 others in their last digit only."""
        tens = Counter(map(_ten, self.ranks))
        return [place for place, rank in enumerate(self.ranks) if tens[_ten(rank)] >= least]

    def at(self, place: int) -> Entry:
        start = self.starts[place]
        return Entry.from_line(self.data[start : self.data.index(b"\n", start)])

    def entries(self, places: Iterable[int]) -> list[Entry]:
        return [self.at(place) for place in places]


def checked(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The blocks of a list, if each line after the header is an entry, sorted by number, as many as the header says."""
    last, lines, count, entries = b"", -1, 0, 0
    for place, block in enumerate(blocks):
        entries = json.loads(block[: block.find(b"\n")])["entries"] if place == 0 else entries
        for match in _ENTRY.finditer(block):
            if match[1] <= last:
                raise InvalidList("list", "be sorted by number, each number once", f"disorder in line {count + 2}")
            last, count = match[1], count + 1
        lines += block.count(b"\n")
        yield block
    if not count == lines == entries:
        raise InvalidList("list", f"hold {entries} entries, one a line", f"{count} of them")


def _rank(digits: bytes) -> int:
    """A number as an integer, in the order of text: +12345678 before +1300000."""
    return int(digits.ljust(_MAX_DIGITS, b"0")) * 16 + len(digits)


def _ten(rank: int) -> tuple[int, int]:
    """(prefix, length): equal for numbers that differ in their last digit only."""
    length = rank % 16
    return rank // 16 // 10 ** (_MAX_DIGITS + 1 - length), length


def _floor(digits: str) -> int:
    """Below the rank of every number with this prefix, and above all that sort before them."""
    return int(digits.ljust(_MAX_DIGITS, "0")) * 16
