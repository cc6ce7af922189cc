"""What operators did: who, what, when and why come in, rows that are never changed back leave.

Each deed is written down before it is done, and how it ended after it: a server that dies in between leaves the order
in the log. Who is the number of the operator's token (0: somebody at the machine, on the command line). Nothing in here
is about a phone that takes part but the number of a device that was revoked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa

from hushcall.server.db import schema
from hushcall.server.db.rows import AuditRow, typed
from hushcall.server.db.store import Store
from hushcall.server.logs import log

COMMAND_LINE = 0
ASKED, DONE, REFUSED = "asked", "done", "refused"


@dataclass(frozen=True)
class Audit:
    """The log over a store. ``now`` is the clock in unix seconds."""

    store: Store
    now: Callable[[], int]

    @contextmanager
    def act(self, operator: int, name: str, what: str, about: str = "", why: str = "") -> Iterator[None]:
        """Do something inside, and have it in the log."""
        row = {"at": self.now(), "operator": operator, "name": name[:200], "what": what, "about": about, "why": why}
        table = schema.audit
        with self.store.write("audit") as connection:
            insert = sa.insert(table).values(**row, outcome=ASKED).returning(table.c.id)
            entry = connection.execute(insert).scalar_one()
        log("operator acts", operator=operator, what=what, entry=entry)  # whom it is about is in the table alone
        outcome = REFUSED
        try:
            yield
            outcome = DONE
        finally:
            with self.store.write("audit outcome") as connection:
                connection.execute(sa.update(table).where(table.c.id == entry).values(outcome=outcome))

    def entries(self, most: int = 1000, before: int | None = None) -> list[AuditRow]:
        """The newest entries, newest first; those before an entry, for the next page."""
        table = schema.audit
        query = sa.select(table).order_by(table.c.id.desc()).limit(most)
        return typed(AuditRow, self.store.rows(query if before is None else query.where(table.c.id < before)))
