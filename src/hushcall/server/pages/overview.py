"""What an operator sees first: the tables come in, rounds with their progress and participation leave as plain values.

A handful of queries, however many rounds and buckets there are, and their answer is kept for a second: fifty open
pages cost what one costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

import sqlalchemy as sa

from hushcall.protocol.states import ANNOUNCING, CLOSED, COLLECTING, DECODED, PUBLISHED
from hushcall.server.db import schema
from hushcall.server.db.rows import round_rows
from hushcall.server.db.store import Store
from hushcall.server.rounds.round_status import Progress, progress, refused

DONE = {
    ANNOUNCING: "announce",
    COLLECTING: "report",
    CLOSED: "decode",
    DECODED: "sign",
    PUBLISHED: "done",
}
"""What happens while a round is in each phase, in a word."""
BARS = {
    ANNOUNCING: "Time to announce",
    COLLECTING: "Reports of the phones that were asked",
    CLOSED: "Parts decoded",
    DECODED: "Done",
    PUBLISHED: "Done",
}
"""What the bar of each phase counts."""
HISTORY = 30
"""How many rounds back participation is shown."""
SHOWN = 4
"""How many rounds under way are shown at most."""
Value = TypeVar("Value")


class Kept(Generic[Value]):
    """A value that is worked out at most once in so many seconds; whoever asks meanwhile gets the last one."""

    def __init__(self, make: Callable[[], Value], seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._make, self._seconds, self._clock = make, seconds, clock
        self._lock, self._until = Lock(), float("-inf")
        self._value: Value

    def get(self) -> Value:
        """The value, at most that old."""
        with self._lock:  # one works it out, the others wait for it
            if self._clock() >= self._until:
                self._value = self._make()
                self._until = self._clock() + self._seconds
            return self._value

    def forget(self) -> None:
        """Work it out anew next time: something was changed."""
        with self._lock:
            self._until = float("-inf")


@dataclass(frozen=True)
class Took:
    """How many devices took part in a round, and how many uploads were refused."""

    round: int
    opens: int
    devices: int
    refused: int


@dataclass(frozen=True)
class Overview:
    """The rounds under way (newest first), participation (oldest first), refused uploads of the newest rounds."""

    rounds: tuple[Progress, ...]
    took: tuple[Took, ...]
    refused: tuple[tuple[str, int], ...]
    devices: int


def overview(store: Store) -> Overview:
    """Everything live, in one transaction."""
    with store.read() as connection:
        newest_first = sa.select(schema.rounds).order_by(schema.rounds.c.id.desc())
        rows = round_rows(connection, newest_first.limit(HISTORY))
        unfinished = round_rows(connection, newest_first.where(schema.rounds.c.state != PUBLISHED).limit(SHOWN))
        shown = [*rows[:1], *(row for row in unfinished if not rows or row.id != rows[0].id)][:SHOWN]
        rounds = tuple(progress(connection, shown))
        counts = refused(connection, [row.id for row in rows])
        devices = connection.execute(sa.select(sa.func.count()).where(schema.devices.c.revoked.is_(None))).scalar_one()
    live = {one.id: one.announced for one in rounds}
    by_round: dict[int, int] = {}
    by_name: dict[str, int] = {}
    for round_id, name, value in counts:
        by_round[round_id] = by_round.get(round_id, 0) + value
        by_name[name] = by_name.get(name, 0) + value
    took = (Took(r.id, r.opens, live.get(r.id, r.announced), by_round.get(r.id, 0)) for r in reversed(rows))
    most_first = sorted(by_name.items(), key=lambda item: (-item[1], item[0]))
    return Overview(rounds, tuple(took), tuple(most_first), devices)
