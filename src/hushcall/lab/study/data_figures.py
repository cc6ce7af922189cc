"""Counts of calls come in, the pictures of the paper's appendix on its data leave: each readable without a caption."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hushcall.lab.figures import PALETTE, save  # first: it says what to install where matplotlib is missing

# isort: split
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, PercentFormatter

BLUE, ORANGE, _, RED = PALETTE[:4]
GREY = "0.45"
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def _tidy(axes: Axes, title: str, across: str, up: str) -> None:
    axes.set_title(title, loc="left")
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="y", alpha=0.25)
    axes.set_axisbelow(True)


def _thousands(value: float, _: int) -> str:
    return f"{value:,.0f}"


def per_day(dates: Sequence[datetime.date], counts: Integers, path: Path) -> None:
    """Complaints each day; weekends in a second colour, so that the weekly pattern meets the eye."""
    figure = Figure(figsize=(9, 4.2))
    axes = figure.subplots()
    weekend = np.array([date.weekday() >= 5 for date in dates])
    place = np.arange(len(dates))
    for these, colour, label in ((~weekend, BLUE, "Monday to Friday"), (weekend, ORANGE, "Saturday and Sunday")):
        axes.bar(place[these], counts[these], color=colour, label=label, width=0.85)
    top = int(counts.argmax())
    axes.annotate(
        f"busiest: {counts[top]:,}", (top, counts[top]), (0, 4), textcoords="offset points", ha="center", fontsize=9
    )
    # A week apart, or as many weeks as leave room for the dates.
    every = 7 * max(1, round(len(dates) / 70))
    axes.set_xticks(place[::every], [f"{date:%a} {date.day} {date:%b}" for date in dates[::every]])
    axes.yaxis.set_major_formatter(FuncFormatter(_thousands))
    axes.set_ylim(0, counts.max() * 1.22)
    axes.legend(frameon=False, loc="upper right", ncols=2)
    span = f"{dates[0].isoformat()} to {dates[-1].isoformat()}"
    _tidy(axes, f"Complaints with a valid number, {span}", "day", "complaints a day")
    save(figure, path)


def per_number(complaints: Integers, pairs: Integers, heavy: int, days: int, path: Path) -> None:
    """How many (day, number) pairs have each count of complaints, both axes logarithmic."""
    figure = Figure(figsize=(7.5, 5))
    axes = figure.subplots()
    over = complaints > heavy
    axes.scatter(
        complaints[~over], pairs[~over], s=18, color=BLUE, label=f"up to {heavy} ({pairs[~over].sum():,} pairs)"
    )
    if over.any():
        label = f"more than {heavy} ({pairs[over].sum():,} pairs)"
        axes.scatter(complaints[over], pairs[over], s=26, marker="^", color=RED, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.7)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(_thousands))
    once = pairs[complaints == 1].sum() / pairs.sum()
    axes.annotate(
        f"{once:.0%} get one complaint that day",
        (complaints[0], pairs[0]),
        (14, -3),
        textcoords="offset points",
        fontsize=9,
    )
    axes.legend(frameon=False, loc="upper right", title="complaints a day")
    _tidy(axes, f"Complaints about one number in one day, {days} days", "complaints that day", "(day, number) pairs")
    axes.grid(visible=True, alpha=0.25)
    save(figure, path)


def bucket_sizes(
    sizes: Integers, striped: Integers, above: int, heavy: int, date: datetime.date, path: Path, most: int = 60
) -> None:
    """The day's complaints by area code, largest first; hatched what is due to numbers with more than ``above``."""
    figure = Figure(figsize=(12, 4.6))
    axes = figure.subplots()
    order = np.argsort(-sizes, kind="stable")
    shown = order[: min(most, int((sizes > 0).sum()))]
    place = np.arange(len(shown))
    axes.bar(place, striped[shown], color=ORANGE, hatch="////", edgecolor="black", linewidth=0.5, width=0.85)
    axes.bar(place, (sizes - striped)[shown], bottom=striped[shown], color=BLUE, width=0.85)
    axes.axhline(heavy, color=GREY, linewidth=1, linestyle="--")
    axes.set_xticks(place, [str(area) for area in shown], rotation=90, fontsize=8)
    axes.set_xlim(-0.7, len(shown) - 0.3)
    axes.yaxis.set_major_formatter(FuncFormatter(_thousands))
    codes, large, hot = int((sizes > 0).sum()), int((sizes > heavy).sum()), int((striped > 0).sum())
    handles = [
        Patch(
            facecolor=ORANGE, edgecolor="black", hatch="////", label=f"numbers with more than {above} (in {hot} codes)"
        ),
        Patch(facecolor=BLUE, label="all other numbers"),
        axes.lines[0],
    ]
    labels = [handles[0].get_label(), handles[1].get_label(), f"{heavy} complaints ({large} codes lie above)"]
    axes.legend(handles, [str(label) for label in labels], frameon=False, loc="upper right")
    part = f"the {len(shown)} busiest of {codes} area codes" if len(shown) < codes else f"{codes} area codes"
    _tidy(axes, f"Complaints by the caller's area code on {date.isoformat()}: {part}", "area code", "complaints")
    save(figure, path)


def amplification(
    areas: NDArray[np.int16],
    before: Floats,
    after: Floats,
    sizes: Integers,
    heavy: int,
    date: datetime.date,
    path: Path,
) -> None:
    """Each number's share of all the day's complaints, and of those of its area code. The two scales differ.

    A bucket of three complaints makes any number look large; the protocol runs only in buckets above ``heavy``, so the
    right picture shows those numbers alone.
    """
    figure = Figure(figsize=(12, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    run = sizes > heavy
    for axes, share, these, colour in ((left, before, np.ones_like(run), BLUE), (right, after, run, RED)):
        place = np.flatnonzero(these)
        axes.vlines(place, 0, share[place], color=colour, linewidth=1)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
        axes.set_ylim(0, max(float(share[place].max(initial=0.0)) * 1.08, 0.001))
        # Numbers lie in their own order: the ticks say where an area code's first digit begins.
        digits = np.arange(2, 10)
        starts = np.searchsorted(areas, (digits * 100).astype(areas.dtype))
        axes.set_xticks(starts, [f"{digit}00" for digit in digits])
        axes.set_xlim(0, len(areas))
    across = "caller's number, in order (ticks: where area codes begin)"
    _tidy(left, f"Before bucketing, {date.isoformat()}", across, "share of all complaints of the day")
    title = f"After: in the {len(np.unique(areas[run]))} area codes with more than {heavy} complaints"
    _tidy(right, title, across, "share of its area code's complaints (another scale)")
    save(figure, path)
