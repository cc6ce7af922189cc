"""Files of complaints come in, one table of calls leaves: who was called by which number on which day.

>>> calls = Calls.of(datetime.date(2020, 2, 17), [0, 0, 2], [202, 202, 800], [5550143, 5550143, 5550199], [212, 0, 0])
>>> len(calls), calls.days, calls.date(2).isoformat()
(3, 3, '2020-02-19')
>>> [column.tolist() for column in calls.counts(0)]
[[202], [5550143], [2]]

Nothing in a row is fatal, because published data has everything in it: what cannot be used is counted by reason.
"""

from __future__ import annotations

import datetime
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushcall import checks
from hushcall.errors import InvalidData, InvalidParameter
from hushcall.lab.data import tables
from hushcall.numbers import NANP

Counts = tuple[tuple[str, int], ...]
Progress = Callable[[int, int], None]

# A typing slip such as 0202-02-14 would stretch the calendar over centuries; the registry itself began in 2003.
FIRST_YEAR, LAST_YEAR = 2000, 2099


def quiet(_done: int, _total: int) -> None:
    """A listener for progress that shows nothing."""


@dataclass(frozen=True)
class Calls:
    """A table of calls, one row each, sorted by day."""

    first: datetime.date  # day 0
    day: NDArray[np.int32]  # days since first
    area: NDArray[np.int16]  # area code of the caller
    suffix: NDArray[np.int32]
    reporter: NDArray[np.int16]  # consumer's area code, 0 where unknown
    problems: Counts = ()  # what was left out, and how often
    notes: Counts = ()  # what was odd and kept, and how often

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
        """Calls from columns of any integer type."""
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
        """Calendar days from the first to the last call, gaps included."""
        return int(self.day[-1]) + 1 if len(self) else 0

    def date(self, day: int) -> datetime.date:
        """The date of a day, which tables count from the first one on."""
        return self.first + datetime.timedelta(days=day)

    @property
    def per_day(self) -> NDArray[np.int64]:
        """How many calls each day has."""
        return np.bincount(self.day, minlength=self.days)

    def on(self, day: int) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
        """That day's calls: (area codes, suffixes)."""
        here = self._rows(day, day + 1)
        return self.area[here], self.suffix[here]

    def counts(self, day: int) -> tuple[NDArray[np.int16], NDArray[np.int32], NDArray[np.int64]]:
        """The distinct numbers of a day: (area codes, suffixes, calls of each)."""
        numbers, counts = np.unique(self.numbers[self._rows(day, day + 1)], return_counts=True)
        areas, suffixes = np.divmod(numbers, NANP.suffixes)
        return areas.astype(np.int16), suffixes.astype(np.int32), counts

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The ten digits of each caller as one integer."""
        return self.area.astype(np.int64) * NANP.suffixes + self.suffix

    def between(self, start: datetime.date, stop: datetime.date) -> Calls:
        """The calls from ``start`` to before ``stop``; a start before the first call moves to it."""
        if start >= stop:
            raise InvalidParameter("stop", f"be after {start}", stop.isoformat())
        start = max(start, self.first)
        offset = (start - self.first).days
        here = self._rows(offset, max((stop - self.first).days, offset))
        return replace(self._take(here), first=start, day=self.day[here] - np.int32(offset))

    def capped(self, most: int) -> Calls:
        """At most ``most`` calls for each (day, number, consumer's area code): the cap against repeat filers.

        Where the consumer is unknown nothing is capped: those rows have nothing in common.
        """
        checks.whole("most", most, 1)
        order = np.lexsort((self.reporter, self.numbers, self.day))
        keys = np.stack([self.reporter[order], self.numbers[order], self.day[order]])
        new = np.ones(len(self), np.bool_)
        new[1:] = (np.diff(keys) != 0).any(axis=0)
        starts = np.flatnonzero(new)
        place = np.arange(len(self)) - np.repeat(starts, np.diff(starts, append=len(self)))
        keep = np.ones(len(self), np.bool_)
        keep[order] = (place < most) | (keys[0] == 0)
        dropped = int((~keep).sum())
        more = ((f"more than {most} a day from one area code", dropped),) if dropped else ()
        return replace(self._take(keep), problems=self.problems + more)

    def _rows(self, start: int, stop: int) -> slice:
        # Of the column's own type: another would make numpy convert the column first.
        low, high = np.searchsorted(self.day, np.clip([start, stop], 0, 2**31 - 1).astype(np.int32))
        return slice(int(low), int(high))

    def _take(self, rows: slice | NDArray[np.bool_]) -> Calls:
        return replace(
            self, day=self.day[rows], area=self.area[rows], suffix=self.suffix[rows], reporter=self.reporter[rows]
        )


def load(paths: Sequence[Path], progress: Progress = quiet) -> Calls:
    """The calls of files and folders; bad rows are counted in ``problems``, :class:`InvalidData` means unusable."""
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
        found = ", ".join(f"{count} × {reason}" for reason, count in problems.most_common()) or "no rows"
        raise InvalidData("data", "hold at least one call with a date and a valid number", found)
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
    """(day, ten digits, consumer's area code, fingerprint), or a ValueError that names what is wrong."""
    if row is None:
        raise ValueError("row cut short")
    date, caller, consumer, mark = row
    return _ordinal(date.strip()[:10]), _number(caller), _known_area(consumer.strip()), mark


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
    """The rules of :meth:`NumberingPlan.parse` for digits as the FTC prints them, at a hundredth of its cost."""
    digits = text
    if not (text.isascii() and text.isdigit()):
        digits = "".join(filter("0123456789".__contains__, text))
        if not text.strip():
            raise ValueError("no number")
    if len(digits) == 11 and digits[0] == "1":
        digits = digits[1:]
    if len(digits) != 10:
        raise ValueError("malformed number")
    if not _known_area(digits[:3]):
        raise ValueError("area code not in the plan")
    if digits[3] < "2":
        raise ValueError("impossible suffix")
    return int(digits)


_AREAS = {str(area): area for area in NANP.area_codes}


def _known_area(text: str) -> int:
    return _AREAS.get(text, 0)


def save(calls: Calls, path: Path) -> None:
    """Write ``date,caller,consumer_area_code`` as .csv, .csv.gz or .parquet: all of it, or nothing."""
    if not len(calls):
        raise InvalidParameter("calls to save", "be at least one", 0)
    dates = [calls.date(day).isoformat() for day in range(calls.days)]
    consumers = ["" if area == 0 else str(area) for area in calls.reporter.tolist()]
    tables.write(path, [dates[day] for day in calls.day.tolist()], list(map(str, calls.numbers.tolist())), consumers)
