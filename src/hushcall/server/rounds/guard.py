"""The guard at the close: what a round took in comes in; why a person should look at it first leaves, or nothing."""

from __future__ import annotations

import statistics

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.server.db import schema
from hushcall.server.db.rows import RoundRow, buckets_of
from hushcall.server.settings import GuardSettings
from hushcall.wording import counted

USUAL = 7
"""How many rounds back "usual" is."""
LEAST_HISTORY = 3
"""Rounds before which an area code has no usual size."""


def refused_uploads(connection: Connection, round_id: int) -> int:
    """How many uploads of enrolled devices were refused in a round; strangers' are not counted."""
    table = schema.counters.c
    query = sa.select(sa.func.coalesce(sa.func.sum(table.value), 0)).where(table.round == round_id)
    return int(connection.execute(query).scalar_one())


def objection(connection: Connection, row: RoundRow, guard: GuardSettings) -> str:
    """Why this round should be looked at before it is decoded; empty if it looks as usual."""
    return (
        _too_many_refused(connection, row, guard)
        or _unusual_size(connection, row, guard)
        or _growing_bucket(connection, row, guard)
    )


def _too_many_refused(connection: Connection, row: RoundRow, guard: GuardSettings) -> str:
    """Devices are counted, not uploads: two that send nothing but junk are two."""
    query = sa.select(sa.func.count()).where(schema.refusals.c.round == row.id)
    refused = int(connection.execute(query).scalar_one())
    devices = max(row.announced, refused)
    if devices >= guard.least and refused > guard.rejected * devices:
        return f"{refused} of {devices} devices had uploads refused, more than {guard.rejected:.0%}"
    return ""


def _unusual_size(connection: Connection, row: RoundRow, guard: GuardSettings) -> str:
    table = schema.rounds.c
    query = sa.select(table.announced).where(table.id < row.id).order_by(table.id.desc()).limit(USUAL)
    usual = statistics.median(list(connection.execute(query).scalars()) or [row.announced])
    least, most = usual / guard.devices, usual * guard.devices
    if max(usual, row.announced) >= guard.least and not least <= row.announced <= most:
        return f"{counted(row.announced, 'device')} took part, usual are {usual:g}"
    return ""


def _growing_bucket(connection: Connection, row: RoundRow, guard: GuardSettings) -> str:
    """An area code that is many times its own usual size: fakes that list a number there, or drown one out."""
    table, history = schema.buckets.c, schema.rounds.c
    query = sa.select(history.id).where(history.id < row.id).order_by(history.id.desc()).limit(USUAL)
    before = list(connection.execute(query).scalars())
    if len(before) < LEAST_HISTORY:
        return ""
    sizes: dict[int, list[int]] = {}
    for bucket, users in connection.execute(sa.select(table.bucket, table.users).where(table.round.in_(before))):
        sizes.setdefault(bucket, []).append(users)
    for one in buckets_of(connection, row.id):
        known = sizes.get(one.bucket, [])
        usual = statistics.median(known + [0] * (len(before) - len(known)))
        if one.bucket and one.users > guard.growth * max(usual, guard.least):
            return f"{one.users} devices took part in area code {one.bucket}, usual are {usual:g}"
    return ""
