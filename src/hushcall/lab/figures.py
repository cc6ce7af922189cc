"""Figures in one style: readable without a caption, safe for colour-blind eyes, SVG or PNG by the file's ending."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hushcall.errors import InvalidParameter, MissingExtra

try:
    from matplotlib import rcParams
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import ScalarFormatter
except ImportError:
    raise MissingExtra("drawing a picture", "lab") from None

rcParams["svg.hashsalt"] = "hushcall"  # the same figure gives the same bytes
rcParams["svg.fonttype"] = "none"  # text stays text: smaller files, searchable

# Okabe and Ito's palette: distinguishable with any kind of colour vision.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#F0E442",
)
PALETTE = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, "#000000", YELLOW)
MARKERS = "osD^vPX*"


def check_path(path: Path) -> None:
    """Refuse a picture that could not be written, before the work that it would show."""
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InvalidParameter("picture", "end with .png, .svg or .pdf", str(path))
    if not path.absolute().parent.is_dir():
        raise InvalidParameter("picture", "be in a folder that exists", str(path))


def save(figure: Figure, path: Path) -> None:
    """Write the figure; the same figure gives the same bytes."""
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else {}
    figure.savefig(path, dpi=160, bbox_inches="tight", metadata=metadata)


def tidy(axes: Axes) -> None:
    """No box, a faint grid: what is left is the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, alpha=0.25)


def true_against_estimated(
    found: Sequence[tuple[int, float, float, float]],
    missed: Sequence[int],
    title: str,
    path: Path,
) -> None:
    """Each spammer as a point: how many phones it called, and how many the server thinks, with its interval."""
    figure = Figure(figsize=(7, 5))
    axes = figure.subplots()
    top = max([*(high for *_, high in found), *missed, 10]) * 1.1
    axes.plot([0, top], [0, top], color="0.6", linewidth=1, label="exactly right")
    if found:
        true, estimate, low, high = (list(column) for column in zip(*found, strict=True))
        below = [max(e - lo, 0) for e, lo in zip(estimate, low, strict=True)]
        over = [max(hi - e, 0) for e, hi in zip(estimate, high, strict=True)]
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
    axes.set_xlabel("phones that the number really called")
    axes.set_ylabel("phones, as estimated from private reports")
    axes.set_title(title)
    axes.set_xlim(0, top)
    axes.set_ylim(-0.02 * top, top)
    axes.legend(loc="upper left", frameon=False)
    tidy(axes)
    save(figure, path)


def detectable_curves(
    by_epsilon: Mapping[str, Sequence[tuple[float, float]]],
    by_users: Mapping[str, Sequence[tuple[float, float]]],
    titles: tuple[str, str],
    path: Path,
) -> None:
    """The smallest count found with 90 % power, against ε (left) and against users (right), one line a mechanism."""
    figure = Figure(figsize=(12, 5))
    left, right = figure.subplots(1, 2, sharey=True)
    names = list(dict.fromkeys([*by_epsilon, *by_users]))
    for axes, curves, title in ((left, by_epsilon, titles[0]), (right, by_users, titles[1])):
        for name, points in curves.items():
            if points:
                place = names.index(name)
                x, y = zip(*points, strict=True)
                axes.plot(x, y, color=PALETTE[place], marker=MARKERS[place], markersize=5, label=name)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(ScalarFormatter())
        axes.set_title(title)
        tidy(axes)
    left.set_xlabel("ε of one report")
    left.set_ylabel("reports of one number needed to find it\n(90 % power; lower is better)")
    right.set_xscale("log")
    right.xaxis.set_major_formatter(ScalarFormatter())
    right.set_xlabel("phones that report in the bucket")
    handles = {
        label: line for axes in (left, right) for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles.keys(), loc="lower center", ncols=4, frameon=False, bbox_to_anchor=(0.5, -0.08)
    )
    save(figure, path)
