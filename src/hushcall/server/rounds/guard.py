"""The guard at the close: what a round took in comes in; why a person should look at it first leaves, or nothing."""

from __future__ import annotations

import statistics

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.server.db import schema
from hushcall.server.db.rows import RoundRow
from hushcall.server.settings import GuardSettings

USUAL = 7
"""How many rounds back "usual" is."""


def refused_uploads(connection: Connection, round_id: int) -> int:
    """How many uploads of enrolled devices were refused in a round; strangers' are not counted."""
    table = schema.counters.c
    query = sa.select(sa.func.coalesce(sa.func.sum(table.value), 0)).where(table.round == round_id)
    return int(connection.execute(query).scalar_one())


def objection(connection: Connection, row: RoundRow, guard: GuardSettings, refused: int) -> str:
    """Why this round should be looked at before it is decoded; empty if it looks as usual."""
    return _too_many_refused(connection, row, guard, refused) or _unusual_size(connection, row, guard)


def _too_many_refused(connection: Connection, row: RoundRow, guard: GuardSettings, refused: int) -> str:
    query = sa.select(sa.func.count()).where(schema.reports.c.round == row.id)
    uploads = refused + row.announced + connection.execute(query).scalar_one()
    if uploads >= guard.least and refused > guard.rejected * uploads:
        return f"{refused} of {uploads} uploads were refused, more than {guard.rejected:.0%}"
    return ""


def _unusual_size(connection: Connection, row: RoundRow, guard: GuardSettings) -> str:
    table = schema.rounds.c
    query = sa.select(table.announced).where(table.id < row.id).order_by(table.id.desc()).limit(USUAL)
    usual = statistics.median(list(connection.execute(query).scalars()) or [row.announced])
    least, most = usual / guard.devices, usual * guard.devices
    if max(usual, row.announced) >= guard.least and not least <= row.announced <= most:
        return f"{row.announced} devices took part, usual are {usual:g}"
    return ""
