"""A table of calls comes in; what the paper tells about its data leaves, as numbers and as four pictures.

The appendix "Dataset Properties" of the paper shows complaints a day, complaints a number and day, and one day's area
codes; its appendix on buckets shows how much larger a number looms in its bucket than among all calls.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcall.errors import InvalidParameter
from hushcall.lab.data.datasets import Calls
from hushcall.lab.study.metrics import WINDOW, blocking_rates
from hushcall.numbers import NANP

HEAVY = 143
"""The paper's smallest τ: the least that its protocol looks for."""
STRIPED = 100
"""Complaints a day above which the paper marks a number in its picture of area codes."""
PICTURES = ("per-day", "per-number", "buckets", "amplification")
"""What the pictures' files are called."""
LEVELS = (1, 10, 20, 50, STRIPED, HEAVY)


def by_area_code(calls: Calls) -> dict[int, int]:
    """Complaints about callers of each area code of the plan, in its order: how ``numbers.nanp_callers`` was made."""
    counts = Counter(calls.area.tolist())
    return {area: counts[area] for area in NANP.area_codes}


def summary(calls: Calls) -> dict[str, Any]:
    """What there is to know before an experiment, ready for JSON."""
    daily = [calls.counts(day) for day in range(calls.days)]
    pairs = np.concatenate([counts for *_, counts in daily])
    busiest, per_day = busiest_day(calls), calls.per_day
    weekend = np.array([calls.date(day).weekday() >= 5 for day in range(calls.days)])
    return {
        "calls": len(calls),
        "first": calls.first.isoformat(),
        "last": calls.date(calls.days - 1).isoformat(),
        "days": calls.days,
        "days_without_calls": int((per_day == 0).sum()),
        "busiest": {"date": calls.date(busiest).isoformat(), "calls": int(per_day[busiest])},
        "mean_on_weekdays": _mean(per_day[~weekend]),
        "mean_on_weekends": _mean(per_day[weekend]),
        "numbers": len(np.unique(calls.numbers)),
        "area_codes": len(np.unique(calls.area)),
        "pairs": len(pairs),
        "pairs_with_one_call": float((pairs == 1).mean()),
        "pairs_above": {str(level): int((pairs > level).sum()) for level in LEVELS},
        "most_calls_of_a_number_in_a_day": int(pairs.max()),
        "tail_exponent_above_100": tail_exponent(pairs),
        "buckets_above_143_a_day": _spread([int((buckets(calls, day) > HEAVY).sum()) for day in range(calls.days)]),
        "area_codes_with_a_number_above_143": len(np.unique(np.concatenate([a[n > HEAVY] for a, _, n in daily]))),
        "median_blocked_by_past_week": {str(level): blocked(calls, level) for level in LEVELS[1:]},
        "problems": dict(calls.problems),
        "notes": dict(calls.notes),
    }


def busiest_day(calls: Calls) -> int:
    """The day with most calls, which is the one that pictures of one day show."""
    return int(calls.per_day.argmax())


def buckets(calls: Calls, day: int) -> NDArray[np.int64]:
    """How many calls of a day come from each area code, by area code."""
    return np.bincount(calls.on(day)[0], minlength=1000)


def tail_exponent(pairs: NDArray[np.int64], above: int = STRIPED) -> float | None:
    """Hill's estimate (1975) of Pareto's exponent, or None where fewer than ten pairs lie above.

    >>> tail_exponent(np.rint(100.5 * np.linspace(0.0005, 0.9995, 1000) ** (-1 / 1.5)).astype(int))
    1.5
    """
    tail = pairs[pairs > above]
    # Whole numbers above 100 stand for all values from 100.5 on.
    return None if len(tail) < 10 else round(len(tail) / float(np.log(tail / (above + 0.5)).sum()), 2)


def blocked(calls: Calls, above: int, window: int = WINDOW) -> float | None:
    """The median share of a day's calls from numbers with more than ``above`` calls on one of the days before.

    That is CBR*, the paper's call blocking rate without any privacy. None where the calls span no whole window.
    """
    days = []
    for day in range(calls.days):
        areas, suffixes, counts = calls.counts(day)
        numbers = areas.astype(np.int64) * NANP.suffixes + suffixes
        days.append(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
    listed = [{number for number, count in day.items() if count > above} for day in days]
    rates = blocking_rates(listed, days, window)
    return float(np.median(rates)) if rates else None


def pictures(calls: Calls, folder: Path, ending: str = "png") -> list[Path]:
    """Draw the four pictures into a folder, which is made where it is missing."""
    from hushcall.lab.study import data_figures as draw  # numbers need no matplotlib

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidParameter("pictures", f"be a folder that can be made ({error.strerror})", str(folder)) from None
    paths = [folder / f"{name}.{ending}" for name in PICTURES]
    day = busiest_day(calls)
    date = calls.date(day)
    areas, _, counts = calls.counts(day)
    sizes = buckets(calls, day)
    pairs = np.concatenate([calls.counts(each)[2] for each in range(calls.days)])
    draw.per_day([calls.date(each) for each in range(calls.days)], calls.per_day, paths[0])
    draw.per_number(*np.unique(pairs, return_counts=True), HEAVY, calls.days, paths[1])
    striped = np.bincount(areas, np.where(counts > STRIPED, counts, 0), minlength=len(sizes)).astype(np.int64)
    draw.bucket_sizes(sizes, striped, STRIPED, HEAVY, date, paths[2])
    draw.amplification(areas, counts / counts.sum(), counts / sizes[areas], sizes[areas], HEAVY, date, paths[3])
    return paths


def _mean(values: NDArray[np.int64]) -> float | None:
    return round(float(values.mean()), 1) if len(values) else None


def _spread(values: list[int]) -> dict[str, float]:
    return {"least": min(values), "median": float(np.median(values)), "most": max(values)}
