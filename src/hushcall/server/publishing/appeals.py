"""The way out for a number that is listed wrongly: an appeal takes it off at once, and keeps it off while it is open.

The log keeps who asked, when and why; closing an appeal (it was turned down, or withdrawn) is written there too. The
allowlist is for numbers that must never be listed at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from hushcall.errors import InvalidParameter
from hushcall.numbers import NANP
from hushcall.server.db import schema
from hushcall.server.db.store import Store


def appeal(store: Store, number: str, why: str, who: str, now: int) -> int:
    """Open an appeal; the one that is open already stays. Its number in the log."""
    text, table = str(NANP.parse(number)), schema.appeals.c
    with store.write("appeal") as connection:
        still_open = sa.select(table.id).where(table.number == text, table.closed.is_(None))
        found = connection.execute(still_open).scalar()
        if found is None:
            row = {"number": text, "why": why, "who": who, "at": now}
            found = connection.execute(sa.insert(schema.appeals).values(**row).returning(table.id)).scalar_one()
    return int(found)


def close_appeal(store: Store, entry: int, why: str, now: int) -> None:
    """End an appeal: the number may be listed again."""
    table = schema.appeals.c
    with store.write("close appeal") as connection:
        values = {"closed": now, "closed_why": why}
        done = connection.execute(
            sa.update(schema.appeals).where(table.id == entry, table.closed.is_(None)).values(**values)
        )
        if done.rowcount != 1:
            raise InvalidParameter("appeal", "be open", entry)


def allow(store: Store, number: str, why: str, who: str, now: int) -> None:
    """Put a number on the allowlist."""
    row = {"number": str(NANP.parse(number)), "why": why, "who": who, "at": now}
    with store.write("allow") as connection:
        store.insert_new(connection, schema.allowed, [row], key=("number",))


def disallow(store: Store, number: str) -> None:
    """Take a number off the allowlist."""
    text = str(NANP.parse(number))
    with store.write("disallow") as connection:
        if connection.execute(sa.delete(schema.allowed).where(schema.allowed.c.number == text)).rowcount != 1:
            raise InvalidParameter("number", "be on the allowlist", text)


def appeals(store: Store) -> Sequence[Any]:
    """The log, newest first."""
    return store.rows(sa.select(schema.appeals).order_by(schema.appeals.c.id.desc()))


def allowlist(store: Store) -> Sequence[Any]:
    """The allowlist, by number."""
    return store.rows(sa.select(schema.allowed).order_by(schema.allowed.c.number))
