"""The ranges that rounds found: hundreds of numbers, in a small signed file beside the list, which has no deltas.

The first line is a JSON header. Each further line is an entry as in the list, whose ``number`` is ``+120255501xx``, and
with those of its numbers that pass all the same (``except``).

>>> entry = RangeEntry("+120255501xx", 0, 0, 1, 150.0, 120.0, 180.0, 1e-9, 1, False, passing=("+12025550143",))
>>> ranges = RangeList(4, 0, (entry,))
>>> ranges.around("+12025550144") == entry, ranges.around("+12025550143")
(True, None)
>>> RangeList.from_bytes(ranges.to_bytes()) == ranges
True
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

from hushcall import checks
from hushcall.errors import InvalidList, InvalidParameter
from hushcall.protocol.blocklist import E164, Entry, iso, unix
from hushcall.protocol.items import HUNDRED, OPEN
from hushcall.protocol.numbers.plan import NumberingPlan

RANGES_TARGET = "ranges.jsonl"
FORMAT = "hushcall-ranges/1"


@dataclass(frozen=True, slots=True, order=True)
class RangeEntry(Entry):
    """A listed hundred. ``estimate`` is of its reports about hundreds. Numbers of ``passing`` are not meant."""

    passing: tuple[str, ...] = ()
    PATTERN: ClassVar = re.compile(r"\+[1-9][0-9]{4,12}xx", re.ASCII)

    def line(self) -> bytes:
        line = Entry.line(self)
        passing = json.dumps(self.passing, separators=(",", ":")).encode()
        return line[:-2] + b',"except":%b}\n' % passing if self.passing else line

    @classmethod
    def of_line(cls, line: bytes) -> RangeEntry:
        entry = cls.from_line(line)
        passing = json.loads(line).get("except", [])
        if not isinstance(passing, list) or not all(isinstance(each, str) and E164.fullmatch(each) for each in passing):
            raise InvalidList("except", "be a list of numbers", passing)
        return replace(entry, passing=tuple(passing))

    @property
    def prefix(self) -> str:
        return self.number.rstrip(OPEN)

    @property
    def numbers(self) -> tuple[str, ...]:
        return tuple(f"{self.prefix}{last:02d}" for last in range(100))


def range_of(number: str) -> str:
    """The hundred that a number lies in, or the hundred itself."""
    return number[: -HUNDRED.open_digits] + OPEN * HUNDRED.open_digits


def number_or_range(text: str, plan: NumberingPlan) -> str:
    """A number, or a hundred that ends in ``xx``, in any notation, as lists write it."""
    bare = text.strip().lower()
    if bare.endswith(OPEN * HUNDRED.open_digits):
        return range_of(str(plan.parse(bare.rstrip(OPEN) + "0" * HUNDRED.open_digits)))
    return str(plan.parse(text))


@dataclass(frozen=True)
class RangeList:
    """One version. ``round`` is the newest round, ``made`` when that closed (unix seconds)."""

    round: int
    made: int
    entries: tuple[RangeEntry, ...] = field(repr=False)

    def __post_init__(self) -> None:
        checks.whole("round", self.round, 0)
        if any(a.number >= b.number for a, b in pairwise(self.entries)):
            raise InvalidList("ranges", "be sorted, each once", f"{len(self.entries)} entries")

    @cached_property
    def _by_number(self) -> dict[str, RangeEntry]:
        return {entry.number: entry for entry in self.entries}

    def around(self, number: str) -> RangeEntry | None:
        """The range that a number lies in, unless it passes. Of a range, that range."""
        entry = self._by_number.get(range_of(number))
        return None if entry is None or number in entry.passing else entry

    def to_bytes(self) -> bytes:
        """Equal lists give equal bytes."""
        head = {"format": FORMAT, "round": self.round, "made": iso(self.made), "entries": len(self.entries)}
        first = json.dumps(head, separators=(",", ":")).encode() + b"\n"
        return b"".join([first, *(entry.line() for entry in self.entries)])

    @classmethod
    def from_bytes(cls, data: bytes) -> RangeList:
        """Reads a file strictly: only what :meth:`to_bytes` writes is one."""
        first, *lines = data.splitlines(keepends=True) or [b""]
        try:
            head = json.loads(first)
            ranges = cls(head["round"], unix(head["made"]), tuple(RangeEntry.of_line(line) for line in lines))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError, InvalidParameter) as error:
            raise InvalidList("ranges", f"be a file of {FORMAT}", first) from error
        if ranges.to_bytes() != data:
            raise InvalidList("ranges", "be written as this release writes it", f"{len(data)} bytes")
        return ranges


NO_RANGES = RangeList(0, 0, ())
