"""Figures as a reader wants them: counts, times and shares come in, short English leaves. The templates' filters."""

from __future__ import annotations

import math
from datetime import UTC, datetime

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def count(value: float) -> str:
    """A count with commas: 8,000,000."""
    return f"{value:,.0f}"


def plural(value: int, noun: str) -> str:
    """A count and its noun: 1 day, 2 days. Only for nouns that take an s."""
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def figure(value: float) -> str:
    """Three digits that matter, and no needless noughts."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    if abs(value) >= 1e6 or abs(value) < 1e-4:
        digits, _, power = f"{value:.2e}".partition("e")
        return f"{digits.rstrip('0').rstrip('.')} × 10{_raised(int(power))}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def bound(value: float) -> str:
    """An upper bound: three digits that matter, never rounded down."""
    if value <= 0 or value >= 1e6 or not math.isfinite(value):
        return figure(value)
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return figure(math.ceil(value / step - 1e-9) * step)


def _raised(power: int) -> str:
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def percent(share: float) -> str:
    """98.2 %, with a space that does not break. What is not certain never shows as 100 %."""
    value = 100 * share
    if 0 < value < 0.01:
        return "under\u00a00.01\u00a0%"
    if 99 < value < 100:
        return f"{math.floor(value * 100) / 100:g}\u00a0%"
    return f"{value:.3g}\u00a0%"


def day(seconds: int) -> str:
    """The day of a moment, in UTC: 14 November 2026."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment.day} {moment:%B %Y}"


def moment(seconds: int) -> str:
    """A moment to the minute: 14 Nov 2026, 09:05 UTC."""
    at = datetime.fromtimestamp(seconds, UTC)
    return f"{at.day} {at:%b %Y, %H:%M} UTC"


def machine_time(seconds: int) -> str:
    """For the attribute of a time element."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19] + "Z"


def span(seconds: float) -> str:
    """5 h, 12 min, 40 s: coarse, so that a page that nothing happens on stays the same for a while."""
    seconds = max(int(seconds), 0)
    if seconds >= 2 * 86_400:
        return plural(seconds // 86_400, "day")
    if seconds >= 2 * 3600:
        return f"{seconds // 3600} h"
    return f"{seconds // 60} min" if seconds >= 120 else f"{seconds // 5 * 5} s"


def from_now(seconds: int, now: int) -> str:
    """How far a moment is from now, either way: in 3 days; 2 h ago."""
    return f"in {span(seconds - now)}" if seconds >= now else f"{span(now - seconds)} ago"


def size(value: int) -> str:
    """Bytes in units of a thousand, as disks are sold: 12.3 MB."""
    amount, unit = float(value), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.3g} {_UNITS[unit]}" if unit else f"{value} {_UNITS[0]}"


def number(text: str) -> str:
    """A number of North America in groups, +12025550143 as +1 202 555 0143; any other as it is."""
    return f"{text[:2]} {text[2:5]} {text[5:8]} {text[8:]}" if len(text) == 12 and text.startswith("+1") else text


FILTERS = {
    "count": count,
    "plural": plural,
    "figure": figure,
    "bound": bound,
    "percent": percent,
    "day": day,
    "moment": moment,
    "machine_time": machine_time,
    "span": span,
    "from_now": from_now,
    "size": size,
    "number": number,
}
