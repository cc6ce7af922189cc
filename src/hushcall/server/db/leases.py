"""Leases with a fencing token: the right to do a piece of work until the lease ends.

Each holder of a lease gets a larger token than the one before. A holder that was suspended may come back after its
lease ended and another worker did the work. :meth:`Leases.check`, in the transaction of every write, refuses it. On
PostgreSQL the check locks the lease's row until that transaction ends. On SQLite a writer is alone anyway.

So that no two transactions deadlock, each locks the leader's lease, then a round, then leases of the round's jobs,
sorted by name. They are sorted here, because PostgreSQL's order of texts depends on its locale.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.errors import HushcallError
from hushcall.server.db import schema
from hushcall.server.db.engine import ERRORS
from hushcall.server.db.store import Store

LEASE_SECONDS = 30.0
SKEW_SECONDS = 5.0
"""A lease that ends later than this after its full length was written by a clock that is ahead: it is free."""
MAX_STEP_SECONDS = 600.0
"""Leases of work without progress for this long are not renewed."""
SCHEDULER = "scheduler"
"""The lease of the worker that moves rounds."""


class LostLease(HushcallError):
    """Another worker has taken the lease over."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Of one name, each later lease has a larger ``token``."""

    name: str
    holder: str
    token: int


@dataclass(frozen=True)
class Leases:
    """The leases of one database, for one worker."""

    store: Store
    holder: str

    def take(self, name: str) -> Lease | None:
        return next(iter(self.take_some([name], 1)), None)

    def take_some(self, names: Sequence[str], limit: int, *, by_force: bool = False) -> list[Lease]:
        """Up to ``limit`` of the first free ones of these leases. ``by_force`` takes them from other workers too."""
        now, table = self.store.now(), schema.leases.c
        free = (table.until < now) | (table.until > now + LEASE_SECONDS + SKEW_SECONDS)
        if not by_force:
            live = {row.name for row in self.store.rows(sa.select(table.name).where(table.name.in_(names), ~free))}
            names = [name for name in names if name not in live]
        values = {"holder": self.holder, "until": now + LEASE_SECONDS}
        insert = self.store.dialect.insert(schema.leases)
        for start in range(0, len(names), limit):
            tokens: dict[str, int] = {}
            batch = names[start : start + limit]
            with self.store.write("take a lease") as connection:
                for name in sorted(batch):
                    upsert = insert.values(name=name, token=1, **values).on_conflict_do_update(
                        index_elements=["name"],
                        set_={**values, "token": table.token + 1},
                        where=sa.true() if by_force else free,
                    )
                    if (token := connection.execute(upsert.returning(table.token)).scalar()) is not None:
                        tokens[name] = int(token)
            if tokens:
                return [Lease(name, self.holder, tokens[name]) for name in batch if name in tokens]
        return []

    def renew(self, lease: Lease) -> bool:
        """Extends a lease to its full length. False where another worker has it."""
        now, table = self.store.now(), schema.leases.c
        rows = self.store.rows(sa.select(table.until).where(_is(lease)))
        if rows and now + LEASE_SECONDS / 2 < rows[0].until <= now + LEASE_SECONDS + SKEW_SECONDS:
            return True  # more than half of it is left: no write
        if not rows:
            return False
        with self.store.write("renew a lease") as connection:
            update = sa.update(schema.leases).where(_is(lease)).values(until=now + LEASE_SECONDS)
            return connection.execute(update).rowcount == 1

    def give_up(self, leases: Iterable[Lease]) -> None:
        """Frees leases at once. Those of other workers stay as they are."""
        if leases := list(leases):
            with self.store.write("give a lease up") as connection:
                for lease in sorted(leases, key=lambda lease: lease.name):
                    connection.execute(sa.update(schema.leases).where(_is(lease)).values(until=0))

    def check(self, connection: Connection, lease: Lease) -> None:
        """Raises :class:`LostLease` where the lease is lost. Otherwise it stays until the transaction ends."""
        query = sa.select(schema.leases.c.token).where(_is(lease))
        if self.store.postgres:
            query = query.with_for_update(read=True)
        if connection.execute(query).scalar() is None:
            raise LostLease("another worker has taken over")

    @contextmanager
    def renewing(self, current: Callable[[], Sequence[Lease]]) -> Iterator[None]:
        """Renews the current leases in a thread, unless they are the same for :data:`MAX_STEP_SECONDS`."""
        stop = threading.Event()

        def renew() -> None:
            before, same = list[Lease](), 0
            while not stop.wait(LEASE_SECONDS / 3):
                leases = list(current())
                before, same = leases, same + 1 if leases == before else 0
                if same * LEASE_SECONDS / 3 < MAX_STEP_SECONDS:
                    with suppress(*ERRORS):  # the database comes back in time, or the leases end
                        for lease in leases:
                            self.renew(lease)  # a lost lease is noticed at its next write

        thread = threading.Thread(target=renew, name="leases", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(timeout=5)


@dataclass
class Term:
    """A worker's time as the leader, which moves rounds. ``lease`` is None before and after it."""

    leases: Leases
    lease: Lease | None = None

    def take(self) -> bool:
        """Whether this worker leads."""
        if self.lease is None or not self.leases.renew(self.lease):
            self.lease = self.leases.take(SCHEDULER)
        return self.lease is not None

    def give_up(self) -> None:
        lease, self.lease = self.lease, None
        if lease is not None:
            self.leases.give_up([lease])

    def fence(self, connection: Connection) -> None:
        """Raises :class:`LostLease` where this worker led and another does by now. A step by hand always passes."""
        if self.lease is not None:
            self.leases.check(connection, self.lease)


def _is(lease: Lease) -> sa.ColumnElement[bool]:
    table = schema.leases.c
    return (table.name == lease.name) & (table.holder == lease.holder) & (table.token == lease.token)


def round_prefix(round_id: int) -> str:
    """The leases of a round's jobs have names that begin so."""
    return f"round {round_id}/"


def forget_round(connection: Connection, round_id: int) -> None:
    """Deletes the leases of a round whose jobs are over: results that come from now on are too late."""
    name = schema.leases.c.name
    own = sa.select(name).where(name.startswith(round_prefix(round_id), autoescape=True))
    for lease_name in sorted(connection.scalars(own)):
        connection.execute(sa.delete(schema.leases).where(name == lease_name))
