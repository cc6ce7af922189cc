"""A table of calls, read from published files of complaints: the caller, the day, and the consumer's area code.

>>> calls = Calls.of(datetime.date(2020, 2, 17), [0, 0, 2], [202, 202, 800], [5550143, 5550143, 5550199], [212, 0, 0])
>>> len(calls), calls.days, calls.date(2).isoformat()
(3, 3, '2020-02-19')
>>> [column.tolist() for column in calls.counts(0)]
[[202], [5550143], [2]]

No row is fatal, because published data contain all kinds of errors. Rows that cannot be used are counted by reason.
"""

from __future__ import annotations

import datetime
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushcall import checks
from hushcall.errors import InvalidData, InvalidParameter
from hushcall.mechanisms.aggregator import Progress, quiet
from hushcall.protocol.numbers import NANP
from hushcall_lab.data import tables

Counts = tuple[tuple[str, int], ...]

# A typing error such as 0202-02-14 would stretch the calendar over centuries. The registry began in 2003.
FIRST_YEAR, LAST_YEAR = 2000, 2099


@dataclass(frozen=True)
class Calls:
    first: datetime.date  # day 0
    day: NDArray[np.int32]  # days since first
    area: NDArray[np.int16]  # area code of the caller
    suffix: NDArray[np.int32]
    reporter: NDArray[np.int16]  # consumer's area code, 0 where unknown
    problems: Counts = ()  # reasons for rows left out, and their number
    notes: Counts = ()  # oddities of rows that are in, and their number

    def __post_init__(self) -> None:
        rows = len(self.day)
        if any(len(column) != rows for column in (self.area, self.suffix, self.reporter)):
            raise InvalidParameter("columns of calls", "have one length", rows)
        if rows and (self.day[0] < 0 or (np.diff(self.day) < 0).any()):
            raise InvalidParameter("days of calls", "be sorted and start at 0 or later", int(self.day.min()))

    @classmethod
    def of(
        cls,
        first: datetime.date,
        day: ArrayLike,
        area: ArrayLike,
        suffix: ArrayLike,
        reporter: ArrayLike,
        problems: Counts = (),
        notes: Counts = (),
    ) -> Calls:
        return cls(
            first,
            np.asarray(day, np.int32),
            np.asarray(area, np.int16),
            np.asarray(suffix, np.int32),
            np.asarray(reporter, np.int16),
            problems,
            notes,
        )

    def __len__(self) -> int:
        return len(self.day)

    @property
    def days(self) -> int:
        return int(self.day[-1]) + 1 if len(self) else 0

    def date(self, day: int) -> datetime.date:
        return self.first + datetime.timedelta(days=day)

    @property
    def per_day(self) -> NDArray[np.int64]:
        return np.bincount(self.day, minlength=self.days)

    def counts(self, day: int) -> tuple[NDArray[np.int16], NDArray[np.int32], NDArray[np.int64]]:
        """The distinct numbers of a day: (area codes, suffixes, calls of each)."""
        numbers, counts = np.unique(self.numbers[self._rows(day, day + 1)], return_counts=True)
        areas, suffixes = np.divmod(numbers, NANP.suffixes)
        return areas.astype(np.int16), suffixes.astype(np.int32), counts

    def counts_by_number(self, day: int) -> dict[int, int]:
        """{national number: calls on that day}."""
        numbers, counts = np.unique(self.numbers[self._rows(day, day + 1)], return_counts=True)
        return dict(zip(numbers.tolist(), counts.tolist(), strict=True))

    @property
    def numbers(self) -> NDArray[np.int64]:
        return self.area.astype(np.int64) * NANP.suffixes + self.suffix

    def between(self, start: datetime.date, stop: datetime.date) -> Calls:
        if start >= stop:
            raise InvalidParameter("stop", f"be after {start}", stop.isoformat())
        start = max(start, self.first)
        offset = (start - self.first).days
        rows = self._rows(offset, max((stop - self.first).days, offset))
        return replace(self._take(rows), first=start, day=self.day[rows] - np.int32(offset))

    def thinned(self, factor: int, seed: int) -> Calls:
        checks.whole("thin", factor, 2)
        return self._take(np.random.default_rng([seed, factor]).random(len(self)) < 1 / factor)

    def _rows(self, start: int, stop: int) -> slice:
        # Of the column's type, or numpy would convert the column.
        low, high = np.searchsorted(self.day, np.clip([start, stop], 0, 2**31 - 1).astype(np.int32))
        return slice(int(low), int(high))

    def _take(self, rows: slice | NDArray[np.bool_]) -> Calls:
        return replace(
            self, day=self.day[rows], area=self.area[rows], suffix=self.suffix[rows], reporter=self.reporter[rows]
        )


def load(paths: Sequence[Path], progress: Progress = quiet) -> Calls:
    """The calls of files and folders. Bad rows are counted in ``problems``."""
    files, foreign = tables.find(paths)
    columns = array("i"), array("q"), array("h"), array("q")  # day, number, consumer, fingerprint
    problems: Counter[str] = Counter()
    for done, path in enumerate(files):
        progress(done, len(files))
        with tables.opened(path) as rows:
            for row in rows:
                try:
                    cells = _parse(row)
                except ValueError as reason:
                    problems[str(reason)] += 1
                    continue
                for column, cell in zip(columns, cells, strict=True):
                    column.append(cell)
    progress(len(files), len(files))
    day, number, reporter, mark = (np.array(column) for column in columns)
    if not len(day):
        rejected = ", ".join(f"{count} × {reason}" for reason, count in problems.most_common()) or "no rows"
        raise InvalidData("data", "hold at least one call with a date and a valid number", rejected)
    marks = mark[mark != 0]
    notes = {
        "exact duplicate, kept": len(marks) - len(np.unique(marks)),  # two people may file in the same second
        "date out of order, sorted": int((np.diff(day) < 0).sum()),
        "foreign file in a folder, passed over": foreign,
    }
    order = np.argsort(day, kind="stable")
    area, suffix = np.divmod(number[order], NANP.suffixes)
    return Calls.of(
        datetime.date.fromordinal(int(day.min())),
        day[order] - day.min(),
        area,
        suffix,
        reporter[order],
        tuple(problems.most_common()),
        tuple((note, count) for note, count in notes.items() if count),
    )


def _parse(row: tables.Row | None) -> tuple[int, int, int, int]:
    """(day, ten digits, consumer's area code, fingerprint). A ValueError names the problem."""
    if row is None:
        raise ValueError("row cut short")
    date, caller, consumer, mark = row
    return _ordinal(date.strip()[:10]), _number(caller), _AREAS.get(consumer.strip(), 0), mark


@lru_cache(1 << 12)
def _ordinal(text: str) -> int:
    if not text:
        raise ValueError("no date")
    try:
        date = datetime.date.fromisoformat(text)
    except ValueError:
        raise ValueError("malformed date") from None
    if not FIRST_YEAR <= date.year <= LAST_YEAR:
        raise ValueError(f"date not in {FIRST_YEAR} to {LAST_YEAR}")
    return date.toordinal()


def _number(text: str) -> int:
    """As :meth:`NumberingPlan.parse` for digits as the FTC prints them, at a hundredth of its cost."""
    digits = text
    if not (text.isascii() and text.isdigit()):
        digits = "".join(filter("0123456789".__contains__, text))
        if not text.strip():
            raise ValueError("no number")
    if len(digits) == 11 and digits[0] == "1":
        digits = digits[1:]
    if len(digits) != 10:
        raise ValueError("malformed number")
    if digits[:3] not in _AREAS:
        raise ValueError("area code not in the plan")
    if digits[3] < "2":
        raise ValueError("impossible suffix")
    return int(digits)


_AREAS = {str(area): area for area in NANP.area_codes}


def save(calls: Calls, path: Path) -> None:
    if not len(calls):
        raise InvalidParameter("calls to save", "be at least one", 0)
    dates = [calls.date(day).isoformat() for day in range(calls.days)]
    consumers = ["" if area == 0 else str(area) for area in calls.reporter.tolist()]
    tables.write(path, [dates[day] for day in calls.day.tolist()], list(map(str, calls.numbers.tolist())), consumers)
