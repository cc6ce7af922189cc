"""The log of appeals and the allowlist: what an operator decided about a number comes in, rows leave.

An appeal keeps a number off the list while it is open. The log keeps who asked, when and why; closing an appeal (it was
turned down, or withdrawn) is written there too. The allowlist is for numbers that must never be listed at all. Numbers
are written as the list writes them; ``corrections`` reads any notation, and publishes what follows. Each of these
waits for a list that is being put into force: it either sees the change, or is there to be corrected.
"""

from __future__ import annotations

import sqlalchemy as sa

from hushcall.errors import InvalidParameter
from hushcall.server.db import schema
from hushcall.server.db.rows import AllowedRow, AppealRow, typed
from hushcall.server.db.store import Store


def appeal(store: Store, number: str, why: str, who: str, now: int) -> int:
    """Open an appeal; the one that is open already stays. Its number in the log."""
    table = schema.appeals.c
    with store.write("appeal") as connection:
        store.lock_publishing(connection)
        row = {"number": number, "why": why, "who": who, "at": now}
        store.insert_new(connection, schema.appeals, [row], key=("number",))  # the index knows which one is open
        still_open = sa.select(table.id).where(table.number == number, table.closed.is_(None))
        return int(connection.execute(still_open).scalar_one())


def close_appeal(store: Store, entry: int, why: str, now: int) -> None:
    """End an appeal: the number may be listed again."""
    table = schema.appeals.c
    with store.write("close appeal") as connection:
        store.lock_publishing(connection)
        values = {"closed": now, "closed_why": why}
        done = connection.execute(
            sa.update(schema.appeals).where(table.id == entry, table.closed.is_(None)).values(**values)
        )
        if done.rowcount != 1:
            raise InvalidParameter("appeal", "be open", entry)


def allow(store: Store, number: str, why: str, who: str, now: int) -> None:
    """Put a number on the allowlist."""
    row = {"number": number, "why": why, "who": who, "at": now}
    with store.write("allow") as connection:
        store.lock_publishing(connection)
        store.insert_new(connection, schema.allowed, [row], key=("number",))


def disallow(store: Store, number: str) -> None:
    """Take a number off the allowlist."""
    with store.write("disallow") as connection:
        store.lock_publishing(connection)
        if connection.execute(sa.delete(schema.allowed).where(schema.allowed.c.number == number)).rowcount != 1:
            raise InvalidParameter("number", "be on the allowlist", number)


def appeals(store: Store, number: str | None = None) -> list[AppealRow]:
    """The log, newest first; of one number, or all of it."""
    query = sa.select(schema.appeals).order_by(schema.appeals.c.id.desc())
    return typed(AppealRow, store.rows(query if number is None else query.where(schema.appeals.c.number == number)))


def allowlist(store: Store, number: str | None = None) -> list[AllowedRow]:
    """The allowlist, by number; of one number, or all of it."""
    query = sa.select(schema.allowed).order_by(schema.allowed.c.number)
    return typed(AllowedRow, store.rows(query if number is None else query.where(schema.allowed.c.number == number)))
