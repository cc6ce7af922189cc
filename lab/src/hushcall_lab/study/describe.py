"""Facts about a table of calls: what the paper's appendix says about its data."""

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushcall.protocol.numbers import NANP
from hushcall_lab.data.datasets import Calls
from hushcall_lab.study.metrics import WINDOW_DAYS, blocking_rates

HEAVY = 143
"""The paper's smallest τ."""
LEVELS = (1, 10, 20, 50, 100, HEAVY)


def by_area_code(calls: Calls) -> dict[str, int]:
    """By the caller's area code, in the plan's order: the law of made-up callers."""
    counts = Counter(calls.area.tolist())
    return {str(area): counts[area] for area in NANP.area_codes}


def summary(calls: Calls) -> dict[str, Any]:
    daily = [calls.counts(day) for day in range(calls.days)]
    pairs = np.concatenate([counts for *_, counts in daily])
    per_day = calls.per_day
    busiest = int(per_day.argmax())
    busy = [int((buckets(calls, day) > HEAVY).sum()) for day in range(calls.days)]
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
        "buckets_above_143_a_day": {"least": min(busy), "median": float(np.median(busy)), "most": max(busy)},
        "area_codes_with_a_number_above_143": len(np.unique(np.concatenate([a[n > HEAVY] for a, _, n in daily]))),
        "median_blocked_by_past_week": {str(level): blocked(calls, level) for level in LEVELS[1:]},
        "problems": dict(calls.problems),
        "notes": dict(calls.notes),
    }


def buckets(calls: Calls, day: int) -> NDArray[np.int64]:
    return np.bincount(calls.area[calls.day == day], minlength=1000)


def tail_exponent(pairs: NDArray[np.int64], above: int = 100) -> float | None:
    """Hill's estimate (1975) of Pareto's exponent, or None where fewer than ten pairs lie above.

    >>> tail_exponent(np.rint(100.5 * np.linspace(0.0005, 0.9995, 1000) ** (-1 / 1.5)).astype(int))
    1.5
    """
    tail = pairs[pairs > above]
    # Integers above 100 stand for all values from 100.5 on.
    return None if len(tail) < 10 else round(len(tail) / float(np.log(tail / (above + 0.5)).sum()), 2)


def blocked(calls: Calls, above: int, window: int = WINDOW_DAYS) -> float | None:
    """The median share of a day's calls from numbers with more than ``above`` calls on one of the days before.

    That is CBR*, the paper's call blocking rate without privacy. None where the calls span no window.
    """
    days = [calls.counts_by_number(day) for day in range(calls.days)]
    listed = [{number for number, count in day.items() if count > above} for day in days]
    rates = blocking_rates(listed, days, window)
    return float(np.median(rates)) if rates else None


def _mean(values: NDArray[np.int64]) -> float | None:
    return round(float(values.mean()), 1) if len(values) else None
