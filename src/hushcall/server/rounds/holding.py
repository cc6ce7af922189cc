"""Holds rounds that a person should look at: the guard's reasons at the close, and what an operator does then."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from itertools import takewhile

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.errors import InvalidParameter
from hushcall.protocol.states import HELD, PUBLISHED, RESTS, TAKES_UPLOADS
from hushcall.server.db import schema
from hushcall.server.db.leases import Term, forget_round
from hushcall.server.db.rows import RoundRow, buckets_of, existing_round, round_rows
from hushcall.server.db.store import Store
from hushcall.server.rounds.round_data import forget_callers, forget_uploads, set_round
from hushcall.server.settings import GuardSettings
from hushcall.wording import counted

USUAL_ROUNDS = 7
"""How many rounds back "usual" is. Where a day has several, these are the ones at the same hour."""
MIN_HISTORY_ROUNDS = 3
"""Rounds before which an area code has no usual size."""


class WrongState(InvalidParameter):
    """A round is not in the state that an operator's step needs. The message is that fact."""

    def __init__(self, row: RoundRow, needed: str) -> None:
        super().__init__("round", f"be {needed}", f"{row.id}, {row.state}")
        self.args = (f"Round {row.id} is {row.state}, not {needed}.",)


def hold(store: Store, round_id: int, reason: str) -> None:
    with store.write("hold") as connection:
        row = existing_round(connection, round_id, locked=True)
        if row.state in RESTS:
            raise WrongState(row, "under way")
        set_round(connection, round_id, state=HELD, held_from=row.state, reason=reason)


def release(store: Store, round_id: int) -> None:
    with store.write("release") as connection:
        row = _held_round(connection, round_id)
        set_round(connection, round_id, state=row.held_from, held_from=None, reason="")


def discard(store: Store, round_id: int, reason: str) -> None:
    """End a held round for good: it counts as published without a finding, and its reports are dropped."""
    with store.write("discard") as connection:
        _held_round(connection, round_id)
        forget_uploads(connection, round_id)
        forget_round(connection, round_id)
        connection.execute(sa.update(schema.tallies).where(schema.tallies.c.round == round_id).values(data=b""))
        for table in (schema.hitters, schema.ranges):
            connection.execute(sa.delete(table).where(table.c.round == round_id))
        values = {"state": PUBLISHED, "held_from": None, "reason": f"discarded: {reason}", "secret": b""}
        set_round(connection, round_id, **values)
    store.scrub()


CHANGES: dict[str, Callable[..., None]] = {"hold": hold, "release": release, "discard": discard}
"""What an operator does with a round, by its name in the operators' log."""


def forget_held(store: Store, term: Term, now: int) -> None:
    """Drop who announced what in held rounds once the next round opens, as in any other round.

    Reports under their tickets stay, as decoding needs them. Nobody can find their senders, since the secret that
    tickets come from goes too. A round that still takes uploads keeps everything.
    """
    table = schema.rounds.c
    due = (table.state == HELD) & table.held_from.not_in(sorted(TAKES_UPLOADS)) & (table.next <= now)
    query = sa.select(table.id).where(due, sa.func.length(table.secret) > 0)
    for (round_id,) in store.rows(query):
        with store.write("forget a held round") as connection:
            term.fence(connection)
            if existing_round(connection, round_id, locked=True).state == HELD:
                forget_callers(connection, round_id)
                set_round(connection, round_id, secret=b"")
        store.scrub()


def _held_round(connection: Connection, round_id: int) -> RoundRow:
    row = existing_round(connection, round_id, locked=True)
    if row.state != HELD:
        raise WrongState(row, "held")
    return row


def refused_uploads(connection: Connection, round_id: int) -> int:
    """How many uploads of enrolled devices were refused in a round. Strangers' are not counted."""
    table = schema.counters.c
    query = sa.select(sa.func.coalesce(sa.func.sum(table.value), 0)).where(table.round == round_id)
    return int(connection.execute(query).scalar_one())


def reason_to_hold(connection: Connection, row: RoundRow, guard: GuardSettings) -> str | None:
    """Why a person should look at this round before it is decoded. None if it looks as usual."""
    return (
        _too_many_refused(connection, row, guard)
        or _unusual_size(connection, row, guard)
        or _growing_bucket(connection, row, guard)
    )


def _too_many_refused(connection: Connection, row: RoundRow, guard: GuardSettings) -> str | None:
    """Devices are counted, not uploads: two that send nothing but junk are two."""
    query = sa.select(sa.func.count()).where(schema.refusals.c.round == row.id)
    refused = int(connection.execute(query).scalar_one())
    devices = max(row.announced, refused)
    if devices >= guard.least and refused > guard.rejected * devices:
        return f"{refused} of {devices} devices had uploads refused, more than {guard.rejected:.0%}"
    return None


def _unusual_size(connection: Connection, row: RoundRow, guard: GuardSettings) -> str | None:
    usual = statistics.median([before.announced for before in _before(connection, row)] or [row.announced])
    smallest, largest = usual / guard.devices, usual * guard.devices
    if max(usual, row.announced) >= guard.least and not smallest <= row.announced <= largest:
        return f"{counted(row.announced, 'device')} took part, usual are {usual:g}"
    return None


def _before(connection: Connection, row: RoundRow) -> list[RoundRow]:
    """The last rounds of this length, at the same time of day. Ids count time where a day has several rounds."""
    table, rounds_per_day = schema.rounds.c, row.profile.rounds_per_day
    at_this_time = (table.id < row.id) & (table.id % rounds_per_day == row.id % rounds_per_day)
    query = sa.select(schema.rounds).where(at_this_time).order_by(table.id.desc()).limit(USUAL_ROUNDS)
    rows = round_rows(connection, query)
    return list(takewhile(lambda before: before.profile.rounds_per_day == rounds_per_day, rows))


def _growing_bucket(connection: Connection, row: RoundRow, guard: GuardSettings) -> str | None:
    """An area code that is many times its own usual size: fakes that list a number there, or drown one out."""
    table, before = schema.buckets.c, [earlier.id for earlier in _before(connection, row)]
    if len(before) < MIN_HISTORY_ROUNDS:
        return None
    sizes: dict[int, list[int]] = {}
    for bucket, users in connection.execute(sa.select(table.bucket, table.users).where(table.round.in_(before))):
        sizes.setdefault(bucket, []).append(users)
    for entry in buckets_of(connection, row.id):
        earlier = sizes.get(entry.bucket, [])
        usual = statistics.median(earlier + [0] * (len(before) - len(earlier)))
        if entry.bucket and entry.users > guard.growth * max(usual, guard.least):
            return f"{entry.users} devices took part in area code {entry.bucket}, usual are {usual:g}"
    return None
