"""Which rounds a decision looks at, and when their tallies go: a round comes in, other rounds' numbers leave.

A sealed tally of fewer than a million phones holds each report by itself (matrix rows and value, sorted: no ticket, no
device, no time). It stays for as long as a window of the profile may look at it, and not one round longer.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.profiles import window_of
from hushcall.protocol.states import HAS_FINDINGS
from hushcall.server.db import schema
from hushcall.server.db.rows import RoundRow, round_rows


def rounds_in_window(connection: Connection, row: RoundRow) -> list[int]:
    """The rounds whose reports are put together with this one's, oldest first, itself last.

    A round that is held or was discarded is in no window; of the others, ``profiles.window_of`` says which are in it.
    One that is released late is in the windows of those decoded after it.
    """
    table = schema.rounds.c
    near = sa.select(schema.rounds).where(table.id > row.id - row.profile.reach, table.id < row.id)
    earlier = round_rows(connection, near.where(table.state.in_(sorted(HAS_FINDINGS))).order_by(table.id))
    return window_of([(one.id, one.plan_name, one.profile) for one in [*earlier, row]])


def forget_passed(connection: Connection, row: RoundRow) -> None:
    """Empty the tallies that no later decision looks at, once this round is decoded. Rounds that wait keep theirs.

    A round that was released late may be older than the newest that is decoded: then its own go at once.
    """
    table, tallies = schema.rounds.c, schema.tallies
    decoded = table.state.in_(sorted(HAS_FINDINGS)) | (table.id == row.id)
    newest = connection.execute(sa.select(sa.func.max(table.id)).where(decoded)).scalar_one()
    last = newest - row.profile.reach + 1  # the next window starts after it
    passed = sa.select(table.id).where(decoded, table.id <= last)
    full = tallies.c.round.in_(passed) & (sa.func.length(tallies.c.data) > 0)
    connection.execute(sa.update(tallies).where(full).values(data=b""))
