"""How much privacy a population buys: a month of complaints comes in, the share of calls that each ε blocks leaves.

Every complaint stands for S phones, and as many phones without a call send dummies. Nothing is drawn: a number's chance
to be found is computed from the law of its count (``Learner.chance``), by day and by windows, with the area code in the
clear and with the number protected whole. A call is blocked if its number was found on one of the seven days before.
Days are taken as independent; of overlapping windows only the best counts, so the windowed shares are what is blocked
*at least*.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hushcall.lab.data.datasets import Calls
from hushcall.lab.figures import MARKERS, PALETTE, save, tidy
from hushcall.lab.study.experiments import REAL_LEVEL, Statement
from hushcall.learn.bucket_setup import open_bucket
from hushcall.mechanisms import names
from hushcall.numbers import NANP
from hushcall.privacy.shuffle import DELTA, shuffled_epsilon
from hushcall.profiles import DEFAULT, WINDOWS, Profile
from hushcall.protocol.items import WHOLE
from hushcall.protocol.seeds import SEED_BYTES

MECHANISMS = (names.SUBSPACE, names.WHOLE_NUMBER)
SCALES = (1, 10, 70, 700)
EPSILONS = (1.0, 2.0, 4.0, 6.0, 8.0)
THETA = 10
LIST_DAYS = 7
GRID = 1.04  # sizes are rounded to it: a chance is then computed once for many buckets


@dataclass(frozen=True)
class Month:
    """Who called how often on which day, for the numbers that called on several; and how busy each area code was."""

    calls: Calls

    @cached_property
    def repeating(self) -> list[tuple[int, dict[int, int]]]:
        """(area code, {day: calls}) of every number that a list could ever block."""
        keys = self.calls.area.astype(np.int64) * NANP.suffixes + self.calls.suffix
        seen: dict[int, dict[int, int]] = {}
        for key, day in zip(keys.tolist(), self.calls.day.tolist(), strict=True):
            days = seen.setdefault(key, {})
            days[day] = days.get(day, 0) + 1
        return [(key // NANP.suffixes, days) for key, days in seen.items() if len(days) > 1]

    @cached_property
    def a_day(self) -> NDArray[np.int64]:
        """The calls of each day."""
        return np.bincount(self.calls.day, minlength=self.calls.days)

    @cached_property
    def crowds(self) -> dict[int, list[float]]:
        """{area code: phones on each day}, for S = 1: those with a call, and dummies, evenly over the area codes.

        There are as many dummies as calls. WHOLE stands for all area codes.
        """
        out = {WHOLE: (2.0 * self.a_day).tolist()}
        for area in np.unique(self.calls.area).tolist():
            mine = np.bincount(self.calls.day[self.calls.area == area], minlength=self.calls.days)
            out[area] = (mine + self.a_day / len(NANP.area_codes)).tolist()
        return out

    def usual_crowd(self, *, bucketed: bool) -> float:
        """How many phones a report hides among: the median bucket, or all."""
        if not bucketed:
            return statistics.median(self.crowds[WHOLE])
        return statistics.median(size for area, sizes in self.crowds.items() if area != WHOLE for size in sizes)


Chance = Callable[[int, int], float]
"""(phones, holders among them) → the chance of a find."""


def blocked(month: Month, chance: Chance, scale: int, windows: Sequence[int], *, bucketed: bool) -> float:
    """The share of a day's calls whose number was on the list, as a mean over the days."""
    blocked_on = np.zeros(month.calls.days)
    for area, days in month.repeating:
        if max(days) < LIST_DAYS:
            continue
        found = _found(days, month.crowds[area if bucketed else WHOLE], chance, scale, windows)
        for day, count in days.items():
            if day >= LIST_DAYS:
                blocked_on[day] += count * _listed(found[day - LIST_DAYS : day], windows)
    judged = np.flatnonzero(month.a_day[LIST_DAYS:]) + LIST_DAYS
    return float(np.mean(blocked_on[judged] / month.a_day[judged]))


def _found(
    days: Mapping[int, int], crowds: Sequence[float], chance: Chance, scale: int, windows: Sequence[int]
) -> list[float]:
    """The chance that each day's decision finds a number, by the best of its windows; up to the last day it called."""
    out = []
    for day in range(max(days)):
        best = 0.0
        for length in windows:
            inside = range(max(day - length + 1, 0), day + 1)
            if held := sum(days.get(one, 0) for one in inside):
                best = max(best, chance(round(scale * sum(crowds[one] for one in inside)), scale * held))
        out.append(best)
    return out


def _listed(found: Sequence[float], windows: Sequence[int]) -> float:
    """The chance that a number was found on one of these days: days are independent, overlapping windows are not."""
    return 1 - math.prod(1 - each for each in found) if tuple(windows) == (1,) else max(found, default=0.0)


def private(profile: Profile, buckets: int = len(NANP.area_codes)) -> Chance:
    """A mechanism's chance, by its own law; sizes are rounded to a grid of four per cent."""

    @lru_cache(maxsize=1 << 16)
    def chance(size: int, holders: int) -> float:
        learner = _learner(size)
        return learner.chance(size, profile.tau)(min(holders, size)) if learner else 0.0

    @lru_cache(maxsize=1 << 12)
    def _learner(size: int) -> Any:
        longest = max(profile.windows)
        return open_bucket(profile, NANP, max(size // longest, 1), bytes(SEED_BYTES), buckets)

    def rounded(size: int, holders: int) -> float:
        return chance(max(round(GRID ** round(math.log(size, GRID))), holders), holders)

    return rounded


def plain(size: int, holders: int) -> float:
    """Without privacy everything above θ is listed."""
    del size
    return float(holders > THETA)


def rows(month: Month, quick: bool) -> Iterator[dict[str, Any]]:
    """One row per crowd, ε and way of protecting numbers.

    ``central_epsilon`` is what the crowd makes of ε (``privacy.shuffle``): the ε of one report against everybody who
    sees what the crowd said and not who said what, readers of the list among them.
    """
    for scale in SCALES[::2] if quick else SCALES:
        a_day = round(scale * float(np.mean(month.a_day)))
        best = blocked(month, plain, scale, (1,), bucketed=True)
        for epsilon in EPSILONS[::2] if quick else EPSILONS:
            for mechanism in MECHANISMS:
                daily = replace(DEFAULT, mechanism=mechanism, epsilon=epsilon, tau=THETA, level=REAL_LEVEL)
                daily = replace(daily, windows=(1,), tolerance=0)
                scan, bucketed = replace(daily, windows=WINDOWS), daily.bucketed
                crowd = round(scale * month.usual_crowd(bucketed=bucketed))
                yield {
                    "scale": scale,
                    "calls_a_day": a_day,
                    "mechanism": mechanism,
                    "epsilon": epsilon,
                    "crowd": crowd,
                    "central_epsilon": shuffled_epsilon(epsilon, max(crowd, 1)),
                    "no_privacy": best,
                    "daily": blocked(month, private(daily), scale, (1,), bucketed=bucketed),
                    "windowed": blocked(month, private(scan), scale, WINDOWS, bucketed=bucketed),
                }


def document(
    calls: Calls, quick: bool, progress: Callable[[int, int], None] = lambda _done, _total: None
) -> dict[str, Any]:
    """The table, and what it says."""
    found = []
    total = len(MECHANISMS) * (len(SCALES[::2]) * len(EPSILONS[::2]) if quick else len(SCALES) * len(EPSILONS))
    for row in rows(Month(calls), quick):
        found.append(row)
        progress(len(found), total)
    return {
        "title": "How much privacy a population buys (share of all calls blocked, θ = 10)",
        "about": "expected values from the laws: every complaint stands for S phones, dummies double the crowd",
        "rows": found,
        "statements": [asdict(one) for one in statements(found)],
    }


_TITLES = {
    names.SUBSPACE: "area code in the clear: a bucket hides one",
    names.WHOLE_NUMBER: "nothing in the clear: all hide one",
}


def draw(found: Sequence[Mapping[str, Any]], title: str, path: Path) -> None:
    """The share of calls blocked against the crowd, a line for each ε: dashed by day, solid by windows.

    Below, what the same crowd makes of ε.
    """
    figure = Figure(figsize=(11, 8), layout="constrained")
    above, below = figure.subplots(2, 2, sharex=True, sharey="row", height_ratios=(3, 2))
    for axes, crowds, mechanism in zip(above, below, MECHANISMS, strict=True):
        mine = [row for row in found if row["mechanism"] == mechanism]
        for place, epsilon in enumerate(sorted({row["epsilon"] for row in mine})):
            line = [row for row in mine if row["epsilon"] == epsilon]
            calls, look = [row["calls_a_day"] for row in line], {"marker": MARKERS[place % len(MARKERS)]}
            look["color"] = PALETTE[place % len(PALETTE)]
            axes.plot(calls, [100 * row["daily"] for row in line], linestyle="--", **look)
            axes.plot(calls, [100 * row["windowed"] for row in line], label=f"ε = {epsilon:g}", **look)
            crowds.plot(calls, [row["central_epsilon"] for row in line], **look)
        best = {row["calls_a_day"]: 100 * row["no_privacy"] for row in mine}
        axes.plot(list(best), list(best.values()), color="0.5", linewidth=1, label="no privacy, daily")
        axes.set_xscale("log")
        axes.set_title(_TITLES[mechanism])
        crowds.set_yscale("log")
        crowds.set_xlabel("calls a day")
        tidy(axes)
        tidy(crowds)
    above[0].set_ylabel("calls blocked, % (dashed: daily, solid: windows)")
    below[0].set_ylabel(f"ε of the crowd (δ = {DELTA:g})")
    above[0].legend(frameon=False)
    figure.suptitle(title)
    save(figure, path)


def statements(found: Sequence[Mapping[str, Any]]) -> list[Statement]:
    """Users are privacy, and windows are users."""
    ours = [row for row in found if row["mechanism"] == names.SUBSPACE]
    largest = max(row["scale"] for row in ours)
    at_four = {row["scale"]: row["daily"] for row in ours if row["epsilon"] == 4.0}
    if at_four:
        text = ", ".join(f"{share:.1%}" for _, share in sorted(at_four.items()))
        shares = [share for _, share in sorted(at_four.items())]
        grows = Statement("more users block more at the same ε = 4", text, shares == sorted(shares))
    else:
        grows = Statement("more users block more", "not measured", False)
    gains = [row["windowed"] >= row["daily"] - 0.002 for row in ours if row["scale"] < largest]
    text = f"{sum(gains)} of {len(gains)} rows"
    gained = Statement("windows block at least as much as days, but for 0.2 points", text, all(gains))
    whole = [row for row in found if row["mechanism"] == names.WHOLE_NUMBER and row["scale"] == largest]
    hidden = all(row["central_epsilon"] < 1 for row in whole)
    text = ", ".join(f"{row['central_epsilon']:.2g} of {row['epsilon']:g}" for row in whole)
    says = f"with nothing in the clear the largest crowd makes every ε smaller than 1 (δ = {DELTA:g})"
    return [grows, gained, Statement(says, text, hidden)]
