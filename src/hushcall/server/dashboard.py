"""What an operator sees first: the tables come in, rounds with their progress and participation leave as plain values.

A handful of queries, however many rounds and buckets there are, and their answer is kept for a second: fifty open
pages cost what one costs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.profiles import Profile
from hushcall.server import schema
from hushcall.server.learning import AREA_PARTS
from hushcall.server.store import Store

PHASES = ("announcing", "collecting", "closed", "decoded", "published")
DONE = {
    "announcing": "announce",
    "collecting": "report",
    "closed": "decode",
    "decoded": "sign",
    "published": "done",
}
"""What happens while a round is in each phase, in a word."""
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
class Progress:
    """Where one round stands. ``phase`` is its state, or for a held round the state it goes back to."""

    id: int
    phase: str
    held: bool
    reason: str
    opens: int
    collects: int
    closes: int
    next: int
    profile: Profile
    announced: int
    expected: int  # phones in the buckets that run: as many reports can come
    reports: int
    runs: int
    skipped: int
    parts: int
    decoded: int
    found: int

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        return self.phase == "published"

    @property
    def deadline(self) -> int | None:
        """When this phase ends by the clock; None where it ends when the work is done."""
        return {"announcing": self.collects, "collecting": self.closes, "published": self.next}.get(self.phase)

    def share(self, now: int) -> float:
        """How far this phase is, from 0 to 1."""
        done = {
            "announcing": (now - self.opens, self.collects - self.opens),
            "collecting": (self.reports, self.expected),
            "closed": (self.decoded, self.parts),
        }.get(self.phase, (1, 1))
        return min(max(done[0] / done[1], 0.0), 1.0) if done[1] > 0 else 1.0


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
        rows = connection.execute(sa.select(schema.rounds).order_by(schema.rounds.c.id.desc()).limit(HISTORY)).all()
        unfinished = connection.execute(
            sa.select(schema.rounds)
            .where(schema.rounds.c.state != "published")
            .order_by(schema.rounds.c.id.desc())
            .limit(SHOWN)
        ).all()
        shown = [*rows[:1], *(row for row in unfinished if not rows or row.id != rows[0].id)][:SHOWN]
        rounds = tuple(progress(connection, shown))
        refused = _refused(connection, [row.id for row in rows])
        devices = connection.execute(sa.select(sa.func.count()).where(schema.devices.c.revoked.is_(None))).scalar_one()
    live = {one.id: one.announced for one in rounds}
    by_round: dict[int, int] = {}
    by_name: dict[str, int] = {}
    for number, name, value in refused:
        by_round[number] = by_round.get(number, 0) + value
        by_name[name] = by_name.get(name, 0) + value
    took = (Took(r.id, r.opens, live.get(r.id, r.announced), by_round.get(r.id, 0)) for r in reversed(rows))
    most_first = sorted(by_name.items(), key=lambda item: (-item[1], item[0]))
    return Overview(rounds, tuple(took), tuple(most_first), devices)


def progress(connection: Connection, rows: Iterable[Any]) -> list[Progress]:
    """Rows of the table of rounds, with what the other tables say about them."""
    rows = list(rows)
    ids = [row.id for row in rows]
    table = schema.buckets.c
    runs = sa.case((table.runs.is_(True), 1), else_=0)
    buckets = {
        row.round: row
        for row in connection.execute(
            sa.select(
                table.round,
                sa.func.sum(runs).label("runs"),
                sa.func.count().label("all"),
                sa.func.sum(runs * table.users).label("users"),
            )
            .where(table.round.in_(ids))
            .group_by(table.round)
        )
    }
    announcing = [row.id for row in rows if _phase(row) == "announcing"]
    announced = _counts(connection, schema.announcements, announcing)
    reports = _counts(connection, schema.reports, ids)
    tallied = _counts(connection, schema.tallies, ids, sa.func.sum(schema.tallies.c.count))
    decoded, found = _counts(connection, schema.decodings, ids), _counts(connection, schema.hitters, ids)
    made = []
    for row in rows:
        profile, mine = Profile.from_plain(json.loads(row.profile)), buckets.get(row.id)
        running, users = (int(mine.runs), int(mine.users)) if mine else (0, 0)
        # While buckets are sealed one by one a report is in one of the two tables; reports that are kept are in both.
        sealed, waiting = tallied.get(row.id, 0), reports.get(row.id, 0)
        made.append(
            Progress(
                id=row.id,
                phase=_phase(row),
                held=row.state == "held",
                reason=row.reason,
                opens=row.opens,
                collects=row.collects,
                closes=row.closes,
                next=row.next,
                profile=profile,
                announced=announced.get(row.id, 0) if _phase(row) == "announcing" else row.announced,
                expected=users,
                reports=max(sealed, min(sealed + waiting, users)),
                runs=running,
                skipped=int(mine.all) - running if mine else 0,
                parts=running * (AREA_PARTS if profile.mechanism == "whole-number" else 1),
                decoded=decoded.get(row.id, 0),
                found=found.get(row.id, 0),
            )
        )
    return made


def _phase(row: Any) -> str:
    return str(row.held_from if row.state == "held" and row.held_from else row.state)


def _counts(
    connection: Connection, table: sa.Table, ids: list[int], what: sa.ColumnElement[Any] | None = None
) -> dict[int, int]:
    if not ids:
        return {}
    query = sa.select(table.c.round, sa.func.count() if what is None else what)
    return {
        row[0]: int(row[1]) for row in connection.execute(query.where(table.c.round.in_(ids)).group_by(table.c.round))
    }


def _refused(connection: Connection, ids: list[int]) -> list[tuple[int, str, int]]:
    table = schema.counters.c
    query = sa.select(table.round, table.name, sa.func.sum(table.value)).where(table.round.in_(ids))
    return [(r[0], r[1], int(r[2])) for r in connection.execute(query.group_by(table.round, table.name))]


def one_round(store: Store, number: int) -> Progress | None:
    """One round of any age."""
    with store.read() as connection:
        rows = connection.execute(sa.select(schema.rounds).where(schema.rounds.c.id == number)).all()
        return next(iter(progress(connection, rows)), None) if rows else None
