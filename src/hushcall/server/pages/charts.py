"""Figures as shapes: counts come in, positions of SVG rectangles and their titles leave.

Shapes carry classes and attributes, never styles: the pages' content policy forbids those, and both colour schemes
come from one stylesheet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hushcall.server.pages.findings import Bucket
from hushcall.server.pages.overview import Took
from hushcall.server.pages.words import count, day
from hushcall.wording import counted

LEVELS = 5
COLUMNS = 26
CELL = 40


@dataclass(frozen=True)
class Bar:
    """One round of the participation chart; ``refused`` is the height of the part above it."""

    x: float
    y: float
    width: float
    height: float
    refused: float
    title: str


@dataclass(frozen=True)
class Chart:
    """Bars in a box of ``width`` by ``height``; ``top`` is what the box's height stands for."""

    bars: tuple[Bar, ...]
    width: int
    height: int
    top: int


def participation(took: Sequence[Took], width: int = 600, height: int = 140, least: int = 12) -> Chart:
    """A bar a round. Few rounds still get slim bars: an empty place is a round to come."""
    top = nice(max((one.devices + one.refused for one in took), default=0))
    step = width / max(len(took), least)
    bars = []
    for place, one in enumerate(took):
        tall, refused = (height * part / top for part in (one.devices, one.refused))
        words = f"Round {one.round}, {day(one.opens)}: {counted(one.devices, 'device')}, {count(one.refused)} refused"
        bars.append(
            Bar(
                round(place * step, 2),
                round(height - tall, 2),
                round(step * 0.62, 2),
                round(tall, 2),
                round(refused, 2),
                words,
            )
        )
    return Chart(tuple(bars), width, height, top)


def nice(value: float) -> int:
    """The next round number up: 1, 2 or 5 with noughts."""
    if value <= 1:
        return 1
    unit = 10 ** math.floor(math.log10(value))
    return int(next(step * unit for step in (1, 2, 5, 10) if step * unit >= value))


@dataclass(frozen=True)
class Cell:
    """One bucket of the heat map. ``level`` 0 is one that was skipped, 1 to 5 go from few phones to many."""

    x: int
    y: int
    level: int
    code: int
    found: int
    title: str


@dataclass(frozen=True)
class HeatMap:
    """All of them, in a box."""

    cells: tuple[Cell, ...]
    width: int
    height: int
    steps: tuple[tuple[int, int], ...]  # the levels that there are, and the most phones of each
    skipped: bool
    found: bool


def heat_map(buckets: Sequence[Bucket]) -> HeatMap:
    """Buckets in the order of their codes, coloured on a logarithmic scale."""
    sizes = [bucket.users for bucket in buckets if bucket.runs]
    low, high = math.log(max(min(sizes, default=1), 1)), math.log(max(max(sizes, default=1), 1))
    span = max(high - low, 1e-9)
    columns = max(min(COLUMNS, len(buckets)), 1)
    cells = []
    for place, bucket in enumerate(buckets):
        row, column = divmod(place, columns)
        share = (math.log(max(bucket.users, 1)) - low) / span
        level = min(int(share * LEVELS) + 1, LEVELS) if bucket.runs else 0
        state = f"runs, {count(bucket.found)} found" if bucket.runs else "skipped"
        title = f"{bucket.code}: {counted(bucket.users, 'phone')}, {state}"
        cells.append(Cell(column * CELL, row * CELL, level, bucket.code, bucket.found, title))
    levels = sorted({cell.level for cell in cells} - {0})
    steps = tuple((level, round(math.exp(low + span * level / LEVELS))) for level in levels)
    size = (columns * CELL, max(-(-len(buckets) // columns), 1) * CELL)
    return HeatMap(tuple(cells), *size, steps, any(not cell.level for cell in cells), any(c.found for c in cells))


@dataclass(frozen=True)
class Sighting:
    """A number's estimate in one round, with its interval, as percentages of the widest."""

    low: float
    high: float
    estimate: float


def sightings(rows: Sequence[tuple[float, float, float]]) -> list[Sighting]:
    """(estimate, low, high) of each round on one scale."""
    top = max((max(row) for row in rows), default=1.0) or 1.0
    return [
        Sighting(round(100 * max(low, 0.0) / top, 2), round(100 * high / top, 2), round(100 * max(at, 0.0) / top, 2))
        for at, low, high in rows
    ]
