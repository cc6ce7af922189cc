"""When a round's phases begin and end: the settings and the round before come in, four moments leave. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from hushcall.server.db.rows import RoundRow
from hushcall.server.settings import RoundSettings


@dataclass(frozen=True)
class Timing:
    """Unix seconds; ``next`` is when the following round opens."""

    opens: int
    collects: int
    closes: int
    next: int


def timing_of(settings: RoundSettings, newest: RoundRow | None, now: int) -> Timing:
    """The moments of a round that is opened now, after ``newest``."""
    opens, length = now, settings.period
    if newest is not None and now > newest.next:
        opens, length = slot(newest.next, now, settings.period, settings.announce)
    collects = opens + round(length * settings.announce)
    closes = opens + round(length * (settings.announce + settings.collect))
    return Timing(opens, collects, closes, opens + length)


def collecting_from(row: RoundRow, now: int) -> Timing:
    """The moments of a round that starts to collect now: phones get their full time, even if the server overslept."""
    late = max(now - row.collects, 0)
    closes = row.closes + late
    return Timing(row.opens, min(row.collects, now) + late, closes, max(row.next, closes))


def slot(due: int, now: int, period: int, announce: float) -> tuple[int, int]:
    """(opening, length) of a round that opens late: in the rhythm of those before, and with time to announce.

    A server that slept into the announcing keeps the slot; one that slept through it opens now, and fits the phases
    into what is left of the slot, or, where that is less than half, into the next one too.
    """
    opens = due + (now - due) // period * period
    if now < opens + period * announce:
        return opens, period
    left = opens + period - now
    return now, left if 2 * left >= period else left + period
