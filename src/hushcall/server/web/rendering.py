"""Templates with their filters, charts and static files. Nothing is fetched from elsewhere.

A chart is positions of SVG shapes, which have classes and never styles: the pages' content policy forbids these.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import jinja2

from hushcall.protocol import states
from hushcall.protocol.blocklist import iso
from hushcall.wording import counted

HTML = "text/html; charset=utf-8"
MEDIA_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
_FOLDER = Path(__file__).parent
LEVELS, COLUMNS, CELL = 5, 26, 40
"""Of the heat map."""
WIDTH, HEIGHT, MIN_PLACES = 600, 140, 12
"""Of the chart of participation."""


def count(value: float) -> str:
    return f"{value:,.0f}"


def figure(value: float) -> str:
    """Three significant digits, without trailing zeros."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    if abs(value) >= 1e6 or abs(value) < 1e-4:
        digits, _, power = f"{value:.2e}".partition("e")
        raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"{digits.rstrip('0').rstrip('.')} × 10{raised}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def bound(value: float) -> str:
    """An upper bound: three significant digits, never rounded down."""
    if value <= 0 or value >= 1e6 or not math.isfinite(value):
        return figure(value)
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return figure(math.ceil(value / step - 1e-9) * step)


def percent(share: float) -> str:
    """98.2 %, with a non-breaking space. Only certainty is shown as 100 %."""
    value = 100 * share
    if 0 < value < 0.01:
        return "under\u00a00.01\u00a0%"
    if 99 < value < 100:
        return f"{math.floor(value * 100) / 100:g}\u00a0%"
    return f"{value:.3g}\u00a0%"


def day(seconds: int) -> str:
    at = datetime.fromtimestamp(seconds, UTC)
    return f"{at.day} {at:%B %Y}"


def moment(seconds: int) -> str:
    at = datetime.fromtimestamp(seconds, UTC)
    return f"{at.day} {at:%b %Y, %H:%M} UTC"


def span(seconds: float) -> str:
    """5 h, 12 min, 40 s. It is coarse, so that a page without events stays the same for a while."""
    seconds = max(int(seconds), 0)
    if seconds >= 2 * 86_400:
        return counted(seconds // 86_400, "day")
    if seconds >= 2 * 3600:
        return f"{seconds // 3600} h"
    return f"{seconds // 60} min" if seconds >= 120 else f"{seconds // 5 * 5} s"


def from_now(seconds: int, now: int) -> str:
    return f"in {span(seconds - now)}" if seconds >= now else f"{span(now - seconds)} ago"


def number(text: str) -> str:
    """+12025550143 as +1 202 555 0143. Numbers of other plans are not grouped."""
    return f"{text[:2]} {text[2:5]} {text[5:8]} {text[8:]}" if len(text) == 12 and text.startswith("+1") else text


_FILTERS = (count, figure, bound, percent, day, moment, iso, span, from_now, number)


@dataclass(frozen=True)
class Served:
    data: bytes
    media: str
    etag: str

    @classmethod
    def of(cls, data: bytes, media: str = HTML) -> Served:
        """The tag is a digest, so that the same bytes have the same tag in every worker."""
        return cls(data, media, f'"{hashlib.sha256(data).hexdigest()}"')


@cache
def static_files() -> Mapping[str, Served]:
    """Every file of the folder, by name. No other file is served, whatever path is requested."""
    return {
        path.name: Served.of(path.read_bytes(), MEDIA_TYPES[path.suffix])
        for path in sorted((_FOLDER / "static").iterdir())
        if path.suffix in MEDIA_TYPES and path.is_file()
    }


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update({function.__name__: function for function in _FILTERS}, plural=counted)
    environment.globals["states"] = states
    return environment


def render(template: str, **values: object) -> bytes:
    return _templates().get_template(template).render(**values).encode()


@dataclass(frozen=True)
class Participation:
    round: int
    opens: int
    devices: int
    refused: int


@dataclass(frozen=True)
class Bar:
    """One round of the participation chart. ``refused`` is the height of the part above it."""

    row: Participation
    x: float
    y: float
    width: float
    height: float
    refused: float


def participation(rounds: Sequence[Participation]) -> tuple[list[Bar], int]:
    """The bars of a chart, and the count at its upper edge. Few rounds leave places empty for rounds to come."""
    top = nice(max((row.devices + row.refused for row in rounds), default=0))
    step = WIDTH / max(len(rounds), MIN_PLACES)
    bars = []
    for place, row in enumerate(rounds):
        bar, refused = (HEIGHT * part / top for part in (row.devices, row.refused))
        x, y, slim = round(place * step, 2), round(HEIGHT - bar, 2), round(step * 0.62, 2)
        bars.append(Bar(row, x, y, slim, round(bar, 2), round(refused, 2)))
    return bars, top


def nice(value: float) -> int:
    """The next number up that is 1, 2 or 5 times a power of ten."""
    if value <= 1:
        return 1
    unit = 10 ** math.floor(math.log10(value))
    return int(next(step * unit for step in (1, 2, 5, 10) if step * unit >= value))


@dataclass(frozen=True)
class Bucket:
    """One area code of a round. ``code`` 0 is a round without buckets."""

    code: int
    users: int
    runs: bool
    found: int


@dataclass(frozen=True)
class Cell:
    """One bucket of the heat map. ``level`` 0 is a skipped one, 1 to 5 go from few phones to many."""

    bucket: Bucket
    x: int
    y: int
    level: int


@dataclass(frozen=True)
class HeatMap:
    """``steps`` are the levels in use, with the most phones of each."""

    cells: tuple[Cell, ...]
    width: int
    height: int
    steps: tuple[tuple[int, int], ...]


def heat_map(buckets: Sequence[Bucket]) -> HeatMap:
    sizes = [bucket.users for bucket in buckets if bucket.runs]
    low, high = math.log(max(min(sizes, default=1), 1)), math.log(max(max(sizes, default=1), 1))
    span = max(high - low, 1e-9)
    columns = max(min(COLUMNS, len(buckets)), 1)
    cells = []
    for place, bucket in enumerate(buckets):
        row, column = divmod(place, columns)
        share = (math.log(max(bucket.users, 1)) - low) / span
        level = min(int(share * LEVELS) + 1, LEVELS) if bucket.runs else 0
        cells.append(Cell(bucket, column * CELL, row * CELL, level))
    levels = sorted({cell.level for cell in cells} - {0})
    steps = tuple((level, round(math.exp(low + span * level / LEVELS))) for level in levels)
    return HeatMap(tuple(cells), columns * CELL, max(-(-len(buckets) // columns), 1) * CELL, steps)


def sightings(rows: Sequence[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """(estimate, low, high) of each round, as percentages of the widest."""
    top = max((max(row) for row in rows), default=1.0) or 1.0
    scaled = [[round(100 * max(value, 0.0) / top, 2) for value in row] for row in rows]
    return [(estimate, low, high) for estimate, low, high in scaled]
