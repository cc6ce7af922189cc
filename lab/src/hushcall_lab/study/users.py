"""The share of calls that each ε warns of or blocks, by the size of the population, as shipped but without hints.

Every complaint stands for S phones, and as many phones without a call send dummies. That overstates, by how much is
measured too: a thinned month is scaled back to its own size. Nothing is drawn: a number's chance
to be found follows from the law of its count (``Aggregator.chance``), by day and by windows, with the area code in the
clear and without. A call counts if its number was found on one of the seven days before. Days are taken as
independent. Of overlapping windows only the best counts, so the windowed shares are lower bounds.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from hushcall.mechanisms.bucket_setup import open_bucket
from hushcall.mechanisms.privacy.shuffle import DELTA, shuffled_epsilon
from hushcall.mechanisms.profiles import DEFAULT, WINDOWS, Profile
from hushcall.protocol.items import WHOLE
from hushcall.protocol.numbers import NANP
from hushcall.protocol.seeds import SEED_BYTES
from hushcall_lab.data.datasets import Calls
from hushcall_lab.figures import MARKERS, PALETTE, save, tidy
from hushcall_lab.rivals import names
from hushcall_lab.study.experiments import Statement

MECHANISMS = (names.SUBSPACE, names.WHOLE_NUMBER)
SCALES = (1, 10, 70, 700)
EPSILONS = (1.0, 2.0, 4.0, 6.0, 8.0)
THETA = 10
LIST_DAYS = 7
THIN = 10
"""One complaint of so many is kept and scaled back, to test the scaling."""
GRID = 1.04  # sizes are rounded to its powers, so that a chance is computed once for many buckets


@dataclass(frozen=True)
class Month:
    calls: Calls

    @cached_property
    def repeating(self) -> list[tuple[int, dict[int, int]]]:
        """(area code, {day: calls}) of every number that called on several days. A list can block no other."""
        numbers: dict[int, dict[int, int]] = {}
        for key, day in zip(self.calls.numbers.tolist(), self.calls.day.tolist(), strict=True):
            days = numbers.setdefault(key, {})
            days[day] = days.get(day, 0) + 1
        return [(key // NANP.suffixes, days) for key, days in numbers.items() if len(days) > 1]

    @cached_property
    def crowds(self) -> dict[int, list[float]]:
        """{area code or WHOLE: phones on each day} for S = 1: those with a call, and as many dummies, spread evenly."""
        crowds = {WHOLE: (2.0 * self.calls.per_day).tolist()}
        for area in np.unique(self.calls.area).tolist():
            phones = np.bincount(self.calls.day[self.calls.area == area], minlength=self.calls.days)
            crowds[area] = (phones + self.calls.per_day / len(NANP.area_codes)).tolist()
        return crowds

    def usual_crowd(self, *, bucketed: bool) -> float:
        if not bucketed:
            return statistics.median(self.crowds[WHOLE])
        return statistics.median(size for area, sizes in self.crowds.items() if area != WHOLE for size in sizes)


Chance = Callable[[int, int], float]
"""(phones, holders among them) → the chance that the number is found."""


def blocked(month: Month, chance: Chance, scale: int, windows: Sequence[int], *, bucketed: bool) -> float:
    blocked_on = np.zeros(month.calls.days)
    for area, days in month.repeating:
        if max(days) < LIST_DAYS:
            continue
        chances = _chances(days, month.crowds[area if bucketed else WHOLE], chance, scale, windows)
        for day, count in days.items():
            if day >= LIST_DAYS:
                blocked_on[day] += count * _listed(chances[day - LIST_DAYS : day], windows)
    counted = np.flatnonzero(month.calls.per_day[LIST_DAYS:]) + LIST_DAYS
    return float(np.mean(blocked_on[counted] / month.calls.per_day[counted]))


def _chances(
    days: Mapping[int, int], crowds: Sequence[float], chance: Chance, scale: int, windows: Sequence[int]
) -> list[float]:
    """The chance that each day finds a number, by the best of its windows, up to the last day it called."""
    chances = []
    for day in range(max(days)):
        best = 0.0
        for length in windows:
            inside = range(max(day - length + 1, 0), day + 1)
            if holders := sum(days.get(past, 0) for past in inside):
                best = max(best, chance(round(scale * sum(crowds[past] for past in inside)), scale * holders))
        chances.append(best)
    return chances


def _listed(chances: Sequence[float], windows: Sequence[int]) -> float:
    """The chance that a number was found on one of these days: days are independent, overlapping windows are not."""
    return 1 - math.prod(1 - each for each in chances) if tuple(windows) == (1,) else max(chances, default=0.0)


def private(profile: Profile, buckets: int = len(NANP.area_codes)) -> Chance:
    """A mechanism's chance, by its own law, with sizes rounded to the grid."""

    @lru_cache(maxsize=1 << 16)
    def chance(size: int, holders: int) -> float:
        aggregator = _aggregator(size)
        return aggregator.chance(size, profile.tau)(min(holders, size)) if aggregator else 0.0

    @lru_cache(maxsize=1 << 12)
    def _aggregator(size: int) -> Any:
        longest = max(profile.windows)
        return open_bucket(profile, NANP, max(size // longest, 1), bytes(SEED_BYTES), buckets)

    def rounded(size: int, holders: int) -> float:
        return chance(max(round(GRID ** round(math.log(size, GRID))), holders), holders)

    return rounded


def plain(size: int, holders: int) -> float:
    """The chance without privacy, where everything above θ is listed."""
    del size
    return float(holders > THETA)


def rows(month: Month, thinned: Month, quick: bool) -> Iterator[dict[str, Any]]:
    """One row per scale, ε and mechanism.

    ``rescaled`` is the windowed share of the thinned month with :data:`THIN` phones for each of its complaints.
    ``central_epsilon`` is the ε of a report against those who see the reports without their senders (``shuffle``).
    """
    for scale in SCALES[::2] if quick else SCALES:
        a_day = round(scale * float(np.mean(month.calls.per_day)))
        best = blocked(month, plain, scale, (1,), bucketed=True)
        for epsilon in EPSILONS[::2] if quick else EPSILONS:
            for mechanism in MECHANISMS:
                scan = replace(DEFAULT, mechanism=mechanism, epsilon=epsilon, tau=THETA)
                daily, bucketed = scan.daily, scan.bucketed
                crowd = round(scale * month.usual_crowd(bucketed=bucketed))
                rescaled = None
                if scale == 1:
                    rescaled = blocked(thinned, private(scan), THIN, WINDOWS, bucketed=bucketed)
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
                    "rescaled": rescaled,
                }


def document(
    calls: Calls,
    quick: bool,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    seed: int = 1,
) -> dict[str, Any]:
    table: list[dict[str, Any]] = []
    thinned = Month(calls.thinned(THIN, seed))
    total = len(MECHANISMS) * (len(SCALES[::2]) * len(EPSILONS[::2]) if quick else len(SCALES) * len(EPSILONS))
    for row in rows(Month(calls), thinned, quick):
        table.append(row)
        progress(len(table), total)
    return {
        "title": "How much privacy a population buys (share of all calls warned or blocked, θ = 10)",
        "about": "expected values from the laws, as shipped without hints: complaints are S phones, dummies as many",
        "rows": table,
        "statements": [asdict(statement) for statement in statements(table)],
    }


_TITLES = {
    names.SUBSPACE: "area code in the clear: a bucket hides one",
    names.WHOLE_NUMBER: "nothing in the clear: all hide one",
}


def draw(table: Sequence[Mapping[str, Any]], title: str, path: Path) -> None:
    figure = Figure(figsize=(11, 8), layout="constrained")
    above, below = figure.subplots(2, 2, sharex=True, sharey="row", height_ratios=(3, 2))
    for axes, crowds, mechanism in zip(above, below, MECHANISMS, strict=True):
        panel = [row for row in table if row["mechanism"] == mechanism]
        for place, epsilon in enumerate(sorted({row["epsilon"] for row in panel})):
            line = [row for row in panel if row["epsilon"] == epsilon]
            calls, look = [row["calls_a_day"] for row in line], {"marker": MARKERS[place % len(MARKERS)]}
            look["color"] = PALETTE[place % len(PALETTE)]
            axes.plot(calls, [100 * row["daily"] for row in line], linestyle="--", **look)
            axes.plot(calls, [100 * row["windowed"] for row in line], label=f"ε = {epsilon:g}", **look)
            crowds.plot(calls, [row["central_epsilon"] for row in line], **look)
        best = {row["calls_a_day"]: 100 * row["no_privacy"] for row in panel}
        axes.plot(list(best), list(best.values()), color="0.5", linewidth=1, label="no privacy, daily")
        axes.set_xscale("log")
        axes.set_title(_TITLES[mechanism])
        crowds.set_yscale("log")
        crowds.set_xlabel("calls a day")
        tidy(axes)
        tidy(crowds)
    above[0].set_ylabel("calls warned or blocked, % (dashed: daily, solid: windows)")
    below[0].set_ylabel(f"ε of the crowd (δ = {DELTA:g})")
    above[0].legend(frameon=False)
    figure.suptitle(title)
    save(figure, path)


def statements(table: Sequence[Mapping[str, Any]]) -> list[Statement]:
    ours = [row for row in table if row["mechanism"] == names.SUBSPACE]
    largest = max(row["scale"] for row in ours)
    shares = [share for _, share in sorted((row["scale"], row["daily"]) for row in ours if row["epsilon"] == 4.0)]
    if shares:
        text = ", ".join(f"{share:.1%}" for share in shares)
        grows = Statement("more users block more at the same ε = 4", text, shares == sorted(shares))
    else:
        grows = Statement("more users block more", "not measured", False)
    gains = [row["windowed"] >= row["daily"] - 0.002 for row in ours if row["scale"] < largest]
    text = f"{sum(gains)} of {len(gains)} rows"
    gained = Statement("windows block at least as much as days, but for 0.2 points", text, all(gains))
    hidden = [row for row in table if row["mechanism"] == names.WHOLE_NUMBER and row["scale"] == largest]
    text = ", ".join(f"{row['central_epsilon']:.2g} of {row['epsilon']:g}" for row in hidden)
    says = f"with nothing in the clear the largest anonymity set makes every ε smaller than 1 (δ = {DELTA:g})"
    smaller = Statement(says, text, all(row["central_epsilon"] < 1 for row in hidden))
    return [grows, gained, smaller, *_scaling(ours)]


def _scaling(ours: Sequence[Mapping[str, Any]]) -> list[Statement]:
    """Whether the smallest population comes out the same if most of its complaints are dropped and scaled back."""
    ratios = [row["rescaled"] / row["windowed"] for row in ours if row["rescaled"] and row["windowed"]]
    if not ratios:
        return []
    says = f"a population grows as scaling says: one complaint of {THIN}, for {THIN} phones, blocks the same (± 10 %)"
    text = f"{min(ratios):.1f} to {max(ratios):.1f} times as much"
    why = "read larger populations as upper bounds: a larger one spreads over more numbers"
    good = all(abs(ratio - 1) <= 0.1 for ratio in ratios)
    return [Statement(says, text, good, "" if good else why)]
