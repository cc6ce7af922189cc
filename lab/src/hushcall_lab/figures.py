"""Figures in one style, as SVG, PNG or PDF by the file's ending, in colours for any kind of colour vision."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hushcall.errors import InvalidParameter

rcParams["svg.hashsalt"] = "hushcall"  # the same figure gives the same bytes
rcParams["svg.fonttype"] = "none"  # text stays text: smaller files, searchable

BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"  # of Okabe and Ito's palette
PALETTE = (BLUE, ORANGE, GREEN, RED, "#CC79A7", "#56B4E9", "#000000", "#F0E442")
MARKERS = "osD^vPX*"
Row = dict[str, Any]


def check_path(path: Path) -> None:
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InvalidParameter("picture", "end with .png, .svg or .pdf", str(path))
    if not path.absolute().parent.is_dir():
        raise InvalidParameter("picture", "be in a folder that exists", str(path))


def save(figure: Figure, path: Path) -> None:
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else {}
    figure.savefig(path, dpi=160, bbox_inches="tight", metadata=metadata)


def name_axes(axes: Axes, title: str, across: str, up: str) -> None:
    axes.set_title(title)
    axes.set_xlabel(across)
    axes.set_ylabel(up)


def tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, alpha=0.25)


def true_against_estimated(
    found: Sequence[tuple[int, float, float, float]], missed: Sequence[int], title: str, path: Path
) -> None:
    figure = Figure(figsize=(7, 5))
    axes = figure.subplots()
    top = max([*(high for *_, high in found), *missed, 10]) * 1.1
    axes.plot([0, top], [0, top], color="0.6", linewidth=1, label="exactly right")
    if found:
        true, estimate, low, high = (list(column) for column in zip(*found, strict=True))
        below = [max(middle - end, 0) for middle, end in zip(estimate, low, strict=True)]
        over = [max(end - middle, 0) for middle, end in zip(estimate, high, strict=True)]
        axes.errorbar(
            true,
            estimate,
            [below, over],
            fmt="o",
            color=BLUE,
            capsize=3,
            label=f"found ({len(found)}), with 95 % interval",
        )
    if missed:
        axes.plot(missed, [0] * len(missed), "x", color=RED, markersize=9, label=f"missed ({len(missed)})")
    name_axes(axes, title, "phones that the number really called", "phones, as estimated from private reports")
    axes.set_xlim(0, top)
    axes.set_ylim(-0.02 * top, top)
    axes.legend(loc="upper left", frameon=False)
    tidy(axes)
    save(figure, path)


def _lines(axes: Axes, rows: Sequence[Row], group: str, x: str, y: str, labels: dict[Any, str] | None = None) -> None:
    for place, name in enumerate(dict.fromkeys(row[group] for row in rows)):
        points = sorted((row for row in rows if row[group] == name), key=lambda row: row[x])
        axes.errorbar(
            [row[x] for row in points],
            [row[y] for row in points],
            [row.get(f"{y}_sd", 0.0) for row in points],
            color=PALETTE[place % len(PALETTE)],
            marker=MARKERS[place % len(MARKERS)],
            capsize=3,
            label=(labels or {}).get(name, str(name)),
        )
    axes.legend(frameon=False)
    tidy(axes)


def _bars(axes: Axes, rows: Sequence[Row], x: str) -> None:
    values = sorted({row[x] for row in rows}, reverse=x != "tau")
    for place, (key, label, colour) in enumerate(
        (("true", "true (THH)", BLUE), ("undetected", "undetected (UHH)", ORANGE), ("false", "false (FHH)", RED))
    ):
        bars = [next(row for row in rows if row[x] == value) for value in values]
        places = [at + (place - 1) * 0.27 for at in range(len(values))]
        heights, errors = [row[key] for row in bars], [row[f"{key}_sd"] for row in bars]
        axes.bar(places, heights, 0.25, yerr=errors, capsize=2, color=colour, label=label)
    axes.set_xticks(range(len(values)), [f"{value:g}" for value in values])
    tidy(axes)


def _scores(x: str, across: str, rows: Sequence[Row], title: str, path: Path) -> None:
    figure = Figure(figsize=(14, 4.6), layout="constrained")
    scores, *panels = figure.subplots(1, 3)
    _lines(scores, rows, "randomiser", x, "f1")
    name_axes(scores, "F1", across, "F1")
    scores.set_ylim(0, 1.02)
    for axes, kind in zip(panels, ("basic", "extended"), strict=True):
        _bars(axes, [row for row in rows if row["randomiser"] == kind], x)
        name_axes(axes, f"{kind} randomiser", across.split(",", maxsplit=1)[0], "heavy hitters in the month")
    top = max(axes.get_ylim()[1] for axes in panels)
    for axes in panels:
        axes.set_ylim(0, top)
    figure.legend(*panels[1].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(title)
    save(figure, path)


def draw_cbr(rows: Sequence[Row], title: str, path: Path) -> None:
    figure = Figure(figsize=(7.5, 5), layout="constrained")
    axes = figure.subplots()
    axes.axhline(1, color="0.5", linewidth=1, linestyle="--")
    axes.annotate("without privacy (CBR*)", (0.98, 1), xycoords=("axes fraction", "data"), ha="right", va="bottom")
    labels = {row["theta"]: f"θ = {row['theta']} (CBR* {row['plain_cbr']:.1%})" for row in rows}
    _lines(axes, rows, "theta", "epsilon", "relative_cbr", labels)
    name_axes(axes, title, "ε of one report", "calls blocked, relative to no privacy")
    axes.set_ylim(0, 1.15)
    save(figure, path)


DRAWINGS: dict[str, Callable[[Sequence[Row], str, Path], None]] = {
    "f1": partial(_scores, "epsilon_hh", "ε_HH, budget for finding numbers"),
    "tau": partial(_scores, "tau", "τ, reports above which a number is heavy"),
    "cbr": draw_cbr,
}
