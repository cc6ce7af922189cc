"""The figures of the experiments: rows come in, one picture each leaves; means with one standard deviation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hushcall.lab.figures import BLUE, GREEN, MARKERS, ORANGE, PALETTE, RED, save, tidy
from hushcall.lab.study.experiments import SCANNED
from hushcall.mechanisms import names

Row = dict[str, Any]


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
            linestyle="--" if "list" in str(name) else "-",
            label=(labels or {}).get(name, str(name)),
        )
    axes.legend(frameon=False)
    tidy(axes)


def _bars(axes: Axes, rows: Sequence[Row], x: str, name: str) -> None:
    """True, undetected and false heavy hitters side by side, one cluster per value of x, largest budget first."""
    values = sorted({row[x] for row in rows}, reverse=x != "tau")
    for place, (key, label, colour) in enumerate(
        (("true", "true (THH)", BLUE), ("undetected", "undetected (UHH)", ORANGE), ("false", "false (FHH)", RED))
    ):
        mine = [next(row for row in rows if row[x] == value) for value in values]
        places = [at + (place - 1) * 0.27 for at in range(len(values))]
        heights, errors = [row[key] for row in mine], [row[f"{key}_sd"] for row in mine]
        axes.bar(places, heights, 0.25, yerr=errors, capsize=2, color=colour, label=label)
    axes.set_xticks(range(len(values)), [f"{value:g}" for value in values])
    axes.set_title(name)
    tidy(axes)


def _same_height(panels: Sequence[Axes]) -> None:
    """Bars of neighbouring panels are read against each other."""
    top = max(axes.get_ylim()[1] for axes in panels)
    for axes in panels:
        axes.set_ylim(0, top)


def _scores(rows: Sequence[Row], x: str, across: str, title: str, path: Path) -> None:
    """F1 against x, and what it is made of for both randomisers."""
    figure = Figure(figsize=(14, 4.6), layout="constrained")
    left, *rest = figure.subplots(1, 3)
    _lines(left, rows, "randomiser", x, "f1")
    left.set_xlabel(across)
    left.set_ylabel("F1")
    left.set_ylim(0, 1.02)
    left.set_title("F1")
    for axes, kind in zip(rest, ("basic", "extended"), strict=True):
        _bars(axes, [row for row in rows if row["randomiser"] == kind], x, f"{kind} randomiser")
        axes.set_xlabel(across.split(",", maxsplit=1)[0])
        axes.set_ylabel("heavy hitters in the month")
    _same_height(rest)
    figure.legend(*rest[1].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(title)
    save(figure, path)


def draw_f1(rows: Sequence[Row], title: str, path: Path) -> None:
    """F1 against the budget, a line a mechanism."""
    _scores(rows, "epsilon_hh", "ε_HH, budget for finding numbers", title, path)


def draw_tau(rows: Sequence[Row], title: str, path: Path) -> None:
    """F1 against the threshold τ."""
    _scores(rows, "tau", "τ, reports above which a number is heavy", title, path)


def draw_cbr(rows: Sequence[Row], title: str, path: Path) -> None:
    """CBR/CBR* against ε, one line per θ."""
    figure = Figure(figsize=(7.5, 5), layout="constrained")
    axes = figure.subplots()
    axes.axhline(1, color="0.5", linewidth=1, linestyle="--")
    axes.annotate("without privacy (CBR*)", (0.98, 1), xycoords=("axes fraction", "data"), ha="right", va="bottom")
    labels = {row["theta"]: f"θ = {row['theta']} (CBR* {row['plain_cbr']:.1%})" for row in rows}
    _lines(axes, rows, "theta", "epsilon", "relative_cbr", labels)
    axes.set_xlabel("ε of one report")
    axes.set_ylabel("calls blocked, relative to no privacy")
    axes.set_ylim(0, 1.15)
    axes.set_title(title)
    save(figure, path)


def draw_rounds(rows: Sequence[Row], title: str, path: Path) -> None:
    """F1 against T, the repetitions of the histogram."""
    figure = Figure(figsize=(6.5, 4.5), layout="constrained")
    axes = figure.subplots()
    ordered = sorted(rows, key=lambda row: row["rounds"])
    axes.errorbar(
        [row["rounds"] for row in ordered],
        [row["f1"] for row in ordered],
        [row["f1_sd"] for row in ordered],
        color=BLUE,
        marker="o",
        capsize=3,
    )
    axes.set_xticks([row["rounds"] for row in ordered])
    axes.set_xlabel("T, protocol rounds that share the budget")
    axes.set_ylabel("F1")
    axes.set_title(title)
    tidy(axes)
    save(figure, path)


def draw_compare(rows: Sequence[Row], title: str, path: Path) -> None:
    """F1 against ε, one line per mechanism; crosses are the full decoder on whole days."""
    figure = Figure(figsize=(10, 6), layout="constrained")
    axes = figure.subplots()
    shown = [row for row in rows if row["mechanism"] not in ("none", names.SH_ORIGINAL) and row["path"] == "fast"]
    _lines(axes, shown, "mechanism", "epsilon", "f1")
    full = [row for row in rows if row["path"] == "full decoder"]
    for name, colour in ((names.SUBSPACE, BLUE), (names.PEM, RED), (names.TREEHIST, GREEN)):
        mine = [row for row in full if row["mechanism"] == name]
        if mine:
            label = f"{name}, full decoder, {mine[0]['days']} days"
            axes.plot(
                [r["epsilon"] for r in mine], [r["f1"] for r in mine], "x", color=colour, markersize=10, label=label
            )
    axes.set_xlabel("ε of one report, exactly accounted")
    axes.set_ylabel("F1")
    axes.set_ylim(0, 1.02)
    axes.set_title(title)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
    save(figure, path)


def draw_real(rows: Sequence[Row], title: str, path: Path) -> None:
    """CBR/CBR* of daily and windowed decisions on real complaints."""
    figure = Figure(figsize=(7.5, 5), layout="constrained")
    axes = figure.subplots()
    axes.axhline(1, color="0.5", linewidth=1, linestyle="--")
    axes.annotate("daily list without privacy", (0.98, 1), xycoords=("axes fraction", "data"), ha="right", va="bottom")
    ours = [row for row in rows if row["mechanism"] == names.SUBSPACE and row["level"] > 0.01 and not row["tolerance"]]
    labels = {"1": "subspace, daily", "7": "subspace, last 7 days together", SCANNED: "subspace, scan over windows"}
    _lines(axes, ours, "window", "epsilon", "relative_cbr", labels)
    paper = [row for row in rows if row["mechanism"] == names.SH_EXTENDED]
    if paper:
        label = "the paper's protocol, τ = 143"
        axes.plot(
            [r["epsilon"] for r in paper],
            [r["relative_cbr"] for r in paper],
            "x",
            color=RED,
            markersize=10,
            label=label,
        )
    axes.set_xlabel("ε of one report")
    axes.set_ylabel("calls blocked, relative to no privacy")
    axes.set_ylim(bottom=-0.05)
    axes.set_title(title)
    axes.legend(frameon=False)
    save(figure, path)


DRAWINGS = {
    "f1": draw_f1,
    "tau": draw_tau,
    "cbr": draw_cbr,
    "rounds": draw_rounds,
    "compare": draw_compare,
    "real": draw_real,
}
