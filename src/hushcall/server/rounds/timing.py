"""When a round's phases begin and end: the settings and the round before come in, four moments leave. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from hushcall.protocol.states import ANNOUNCING, COLLECTING, PUBLISHED
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
    collects = max(min(row.collects, now) + late, row.opens)  # a clock may have been set back since
    return Timing(row.opens, collects, closes, max(row.next, closes))


def brought_back(row: RoundRow, now: int) -> Timing | None:
    """The moments of a round whose phase would last for more than twice its length from now; None where it does not.

    A clock that was ahead for a while and moved a round meanwhile leaves deadlines that may be days away. The phase
    then begins again now: it lasts as long as it should have, and everything after it moves along.
    """
    length = {
        ANNOUNCING: row.collects - row.opens,
        COLLECTING: row.closes - row.collects,
        PUBLISHED: row.next - row.opens,
    }.get(row.state)
    if length is None or row.deadline is None or row.deadline - now <= 2 * max(length, 1):
        return None
    shift = row.deadline - now - length
    return Timing(row.opens - shift, row.collects - shift, row.closes - shift, row.next - shift)


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
