"""Which rounds a decision looks at, and when their tallies go: a round comes in, other rounds' numbers leave.

A sealed tally of fewer than a million phones holds each report by itself (matrix rows and value, sorted: no ticket, no
device, no time). It stays for as long as a window of the profile may look at it, and not one round longer.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.protocol.states import HAS_FINDINGS
from hushcall.server.db import schema
from hushcall.server.db.rows import RoundRow, round_rows


def reach(row: RoundRow) -> int:
    """How many rounds, itself included, the decision of a round may look at."""
    return max(row.profile.windows)


def rounds_in_window(connection: Connection, row: RoundRow) -> list[int]:
    """The rounds whose reports are put together with this one's, oldest first, itself last.

    A round that is held or was discarded is in no window; nor is one of another plan or mechanism, whose counts are not
    of the same numbers. One that is released late is in the windows of those decoded after it.
    """
    table = schema.rounds.c
    near = sa.select(schema.rounds).where(table.id > row.id - reach(row), table.id < row.id)
    earlier = round_rows(connection, near.where(table.state.in_(sorted(HAS_FINDINGS))).order_by(table.id))
    alike = [
        one.id for one in earlier if (one.plan_name, one.profile.mechanism) == (row.plan_name, row.profile.mechanism)
    ]
    return [*alike, row.id]


def forget_passed(connection: Connection, row: RoundRow) -> None:
    """Empty the tallies that no later decision looks at, once this round is decoded. Rounds that wait keep theirs.

    A round that was released late may be older than the newest that is decoded: then its own go at once.
    """
    table, tallies = schema.rounds.c, schema.tallies
    decoded = table.state.in_(sorted(HAS_FINDINGS)) | (table.id == row.id)
    newest = connection.execute(sa.select(sa.func.max(table.id)).where(decoded)).scalar_one()
    passed = sa.select(table.id).where(decoded, table.id <= newest - reach(row) + 1)  # the next window starts after it
    full = tallies.c.round.in_(passed) & (sa.func.length(tallies.c.data) > 0)
    connection.execute(sa.update(tallies).where(full).values(data=b""))
