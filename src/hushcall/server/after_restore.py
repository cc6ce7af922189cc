"""A restored server goes on: rounds and lists of a backup come in, the same under numbers that no phone has seen leave.

Between the backup and its restore the lost server opened rounds, decided their buckets and published lists. Phones hold
the digests of the rounds that they took part in, never join a round that is not newer than their last, and never accept
a version that is not newer than their own: to them a server that begins again from a backup replays, or shows them
another round than everybody else. So everything gets numbers beyond any that can have been used since. No more rounds
than seconds can have passed, as a round lasts a second at least, nor more publications; :data:`MARGIN` is for what
operators force by hand.

Rounds keep their order and their distances, since windows count by them: all of them are moved up by the same number.
What a lost server told phones of rounds below is then nothing that the list speaks of (``phone.reporting.witness``).
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.errors import InvalidParameter
from hushcall.protocol.states import ANNOUNCING, CLOSED, COLLECTING, HELD, PUBLISHED
from hushcall.server.db import partitions, schema
from hushcall.server.db.rows import RoundRow, newest_round, round_rows
from hushcall.server.service import Service

MARGIN = 1000
ENDED = "discarded: the server was restored from a backup while phones announced"


@dataclass(frozen=True)
class Restart:
    """What became of a backup's rounds: the newest, as it was, as it is, and what state it was in; "" without any."""

    was: int
    now: int
    state: str


def lost(made: int, now: int) -> int:
    """How many rounds or versions there can have been since a backup was made, and more."""
    if now < made:
        raise InvalidParameter(
            "clock", "not be before the moment at which the backup was made", f"{made - now} s before"
        )
    return now - made + MARGIN


def go_on(service: Service, made: int) -> Restart:
    """Renumber rounds, end the one that phones were in, and sign what is in force under versions beyond all others."""
    beyond, newest = lost(made, service.now), service.rounds.newest()
    if newest is not None:
        # A whole number of thousands, so that people recognise the rounds by their last digits.
        move_up(service, -(-(newest.id + beyond) // 1000) * 1000)
        end_open(service)
    service.publisher.leap(service.now, beyond)
    after = service.rounds.newest()
    if newest is None or after is None:
        return Restart(0, 0, "")
    return Restart(newest.id, after.id, newest.state)


def move_up(service: Service, by: int) -> None:
    """Give every round the number that is so much larger, wherever it is named. ``by`` is beyond the newest."""
    rounds = schema.rounds
    with service.store.write("move rounds up") as connection:
        others = [column for column in rounds.c if column.name != "id"]
        copied = sa.select((rounds.c.id + by).label("id"), *others)  # first: others refer to them
        old = connection.execute(sa.select(rounds.c.id)).scalars().all()
        connection.execute(sa.insert(rounds).from_select(["id", *(column.name for column in others)], copied))
        partitions.move_up(connection, by)
        for table in schema.metadata.sorted_tables:
            if "round" in table.c and table not in partitions.TABLES:
                connection.execute(sa.update(table).values(round=table.c.round + by))
        connection.execute(sa.delete(rounds).where(rounds.c.id <= max(old)))


def end_open(service: Service) -> None:
    """Nobody sends to a round of before: one that was collecting is closed, one that was announcing holds no report."""
    now, rounds = service.now, schema.rounds
    with service.store.read() as connection:
        under_way = list(round_rows(connection, sa.select(rounds).where(rounds.c.state != PUBLISHED)))
    for row in under_way:
        if row.state == COLLECTING:
            service.rounds.close(row.id, now)
        elif row.phase == ANNOUNCING:
            if row.state != HELD:
                service.rounds.hold(row.id, ENDED)
            service.rounds.discard(row.id, ENDED.removeprefix("discarded: "))
        with service.store.write("after a restore") as connection:
            _settle(connection, row, now)
        service.store.scrub()


def _settle(connection: Connection, row: RoundRow, now: int) -> None:
    """The next round need not wait for the end of one that was cut short; a held one goes on as if it were closed."""
    rounds, newest = schema.rounds, newest_round(connection)
    values: dict[str, object] = {}
    if newest is not None and newest.id == row.id and row.phase in (ANNOUNCING, COLLECTING):
        values["next"] = min(row.next, now)
    if row.state == HELD and row.phase == COLLECTING:
        values["held_from"] = CLOSED
    if values:
        connection.execute(sa.update(rounds).where(rounds.c.id == row.id).values(**values))
