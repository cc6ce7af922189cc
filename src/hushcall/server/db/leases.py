"""Leases with a fencing token: a name comes in, the right to do its work leaves, until it runs out.

Whoever takes a lease over gets a token that is larger by one. A holder that was held up (a stopped process, a machine
that swapped) may come back after its lease ran out and another did the work: :meth:`Leases.check`, in the transaction
of every write, refuses it. On PostgreSQL the check keeps the lease's row still until that transaction ends, so nobody
takes the lease over between the check and the commit; on SQLite a writer is alone anyway.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from hushcall.errors import HushcallError
from hushcall.server.db import schema
from hushcall.server.db.store import Store
from hushcall.server.db.trouble import ERRORS

LEASE_SECONDS = 30.0
SKEW_SECONDS = 5.0
"""A lease that ends later than this after its length was written by a clock that was ahead: it is nobody's."""
LONGEST_STEP = 600.0
"""Seconds after which work that does not get on is left to others: it hangs."""


class LostLease(HushcallError):
    """Another worker has taken over: whoever was held up in the middle of something leaves it to that one."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A right that ``holder`` was given. Of one name, each that is given out has a larger ``token``."""

    name: str
    holder: str
    token: int


@dataclass(frozen=True)
class Leases:
    """The leases of one database, as one worker sees them."""

    store: Store
    holder: str

    def take(self, name: str) -> Lease | None:
        """The lease of that name if it is free; None where another has it."""
        return next(iter(self.take_some([name], 1)), None)

    def take_some(self, names: Sequence[str], most: int, *, by_force: bool = False) -> list[Lease]:
        """The first ``most`` of these that are free, in one transaction; ``by_force``: whoever has them."""
        now, table = self.store.now(), schema.leases.c
        free = (table.until < now) | (table.until > now + LEASE_SECONDS + SKEW_SECONDS)
        if not by_force:
            live = {row.name for row in self.store.rows(sa.select(table.name).where(table.name.in_(names), ~free))}
            names = [name for name in names if name not in live]
        if not names:
            return []
        dialect: Any = postgresql if self.store.postgres else sqlite
        values = {"holder": self.holder, "until": now + LEASE_SECONDS}
        taken: list[Lease] = []
        with self.store.write("take a lease") as connection:
            for name in names[:most] if by_force else names:
                given = dialect.insert(schema.leases).values(name=name, token=1, **values)
                over = given.on_conflict_do_update(
                    index_elements=["name"],
                    set_={**values, "token": table.token + 1},
                    where=sa.true() if by_force else free,
                )
                token = connection.execute(over.returning(table.token)).scalar()
                taken += [] if token is None else [Lease(name, self.holder, int(token))]
                if len(taken) == most:
                    break
        return taken

    def renew(self, lease: Lease) -> bool:
        """Whether it is still this holder's, who has it for its whole length again."""
        now, table = self.store.now(), schema.leases.c
        rows = self.store.rows(sa.select(table.until).where(_is(lease)))
        if rows and now + LEASE_SECONDS / 2 < rows[0].until <= now + LEASE_SECONDS + SKEW_SECONDS:
            return True  # still good for a while: no write
        if not rows:
            return False
        with self.store.write("renew a lease") as connection:
            renewed = sa.update(schema.leases).where(_is(lease)).values(until=now + LEASE_SECONDS)
            return connection.execute(renewed).rowcount == 1

    def give_up(self, leases: Iterable[Lease]) -> None:
        """Let others have them at once; nothing where they are another's already. Tokens go on from where they are."""
        if given := list(leases):
            with self.store.write("give a lease up") as connection:
                for lease in given:
                    connection.execute(sa.update(schema.leases).where(_is(lease)).values(until=0))

    def check(self, connection: Connection, lease: Lease) -> None:
        """Refuse a write of somebody who was overtaken; until the transaction ends nobody overtakes."""
        query = sa.select(schema.leases.c.token).where(_is(lease))
        if self.store.postgres:
            query = query.with_for_update(read=True)
        if connection.execute(query).scalar() is None:
            raise LostLease("another worker has taken over")

    @contextmanager
    def kept(self, held: Callable[[], Sequence[Lease]]) -> Iterator[None]:
        """While inside, what ``held`` tells is renewed, unless it is the same for :data:`LONGEST_STEP` seconds."""
        stop = threading.Event()

        def keep() -> None:
            before, same = list[Lease](), 0
            while not stop.wait(LEASE_SECONDS / 3):
                mine = list(held())
                before, same = mine, same + 1 if mine == before else 0
                if same * LEASE_SECONDS / 3 < LONGEST_STEP:
                    with suppress(*ERRORS):  # the database is away: it comes back in time, or the leases run out
                        for lease in mine:
                            self.renew(lease)  # one that is lost is noticed where it matters: at its write

        thread = threading.Thread(target=keep, name="leases", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(timeout=5)


SCHEDULER = "scheduler"
"""The lease of the worker that moves rounds."""


@dataclass
class Term:
    """A worker's time as the one that moves rounds: ``lease`` while it leads, None before and after."""

    leases: Leases
    lease: Lease | None = None

    def take(self) -> bool:
        """Whether this worker is the one at work."""
        if self.lease is None or not self.leases.renew(self.lease):
            self.lease = self.leases.take(SCHEDULER)
        return self.lease is not None

    def give_up(self) -> None:
        """Let another worker lead at once; nothing where one does already."""
        lease, self.lease = self.lease, None
        if lease is not None:
            self.leases.give_up([lease])

    def fence(self, connection: Connection) -> None:
        """Inside a transaction: refuse to go on where this worker led, and another does by now. By hand all may go."""
        if self.lease is not None:
            self.leases.check(connection, self.lease)


def _is(lease: Lease) -> sa.ColumnElement[bool]:
    table = schema.leases.c
    return (table.name == lease.name) & (table.holder == lease.holder) & (table.token == lease.token)


def forget(connection: Connection, prefix: str) -> None:
    """Drop the leases of work that is over, by how their names begin."""
    connection.execute(sa.delete(schema.leases).where(schema.leases.c.name.startswith(prefix, autoescape=True)))
