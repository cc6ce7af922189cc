"""Bugs planted in a server that is killed, one at a time: each would lose a report or count one twice.

A bug is what somebody could have written. It is planted for as long as the process lives, before the server starts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.protocol.states import CLOSED
from hushcall.server.db import schema
from hushcall.server.db.leases import Leases
from hushcall.server.db.store import Store
from hushcall.server.intake import intake
from hushcall.server.intake.intake import Answer, Upload
from hushcall.server.rounds import decoding

COMMIT_SECONDS = 0.05
"""How long after its answer an upload is committed by the first bug."""
_write = Store.write


def acknowledged_before_commit() -> None:
    """Uploads are answered when they are in the transaction; that is committed a moment later, by another thread."""

    @contextmanager
    def soon(store: Store, name: str, patience: float = 60.0) -> Iterator[Connection]:
        if name != "intake":
            with _write(store, name, patience) as connection:
                yield connection
            return
        writing = _write(store, name, patience)
        yield writing.__enter__()

        def commit() -> None:
            time.sleep(COMMIT_SECONDS)
            writing.__exit__(None, None, None)

        threading.Thread(target=commit, daemon=True).start()

    _replace(Store, "write", soon)


def retry_counted() -> None:
    """A report that comes again is stored again: a table of reports whose key is not the ticket."""
    again = sa.Table(
        "planted_again", sa.MetaData(), *(sa.Column(c.name, c.type) for c in schema.reports.columns if c.name != "id")
    )
    report, stored = intake._Batch.report, decoding.stored_reports

    def counted(batch: Any, asked: Upload, device: int) -> Answer:
        answer = report(batch, asked, device)
        if answer.status == 200:
            again.create(batch.connection, checkfirst=True)
            _, _, bucket = batch.tickets[asked.ticket]
            row = {"ticket": asked.ticket, "round": asked.round, "bucket": bucket, "body": batch.bodies[asked.ticket]}
            batch.connection.execute(sa.insert(again), [row])
        return answer

    def with_retries(store: Store, opened: decoding.Opened) -> Iterator[Any]:
        yield from stored(store, opened)
        if sa.inspect(store.engine).has_table(again.name):
            mine = (again.c.round == opened.round) & (again.c.bucket == opened.bucket)
            rows = store.rows(sa.select(again.c.ticket, again.c.body).where(mine))
            from hushcall.learn.feed.report_arrays import ReportArrays

            if rows:
                yield ReportArrays.of([(bytes(row.ticket), bytes(row.body)) for row in rows])

    _replace(intake._Batch, "report", counted)
    _replace(decoding, "stored_reports", with_retries)


def lease_without_fencing() -> None:
    """Whoever had the lease when it began takes itself to be alone: it looks no more, and writes over what is there."""
    look, known = Store.lock_round, dict[int, Any]()

    def remembered(store: Store, connection: Connection, round_id: int, *, share: bool = False) -> Any:
        row = look(store, connection, round_id, share=share)
        if row is not None and row.state == CLOSED:
            known[round_id] = row
        return known.get(round_id, row) if share else row  # who shares it writes results; who moves a round is alone

    def over(store: Store, connection: Connection, table: sa.Table, rows: Any, *, key: Sequence[str]) -> None:
        for row in rows if table is schema.tallies else ():
            mine = (table.c.round == row["round"]) & (table.c.bucket == row["bucket"])
            connection.execute(sa.delete(table).where(mine))
        insert_new(store, connection, table, rows, key=key)

    insert_new = Store.insert_new
    _replace(Leases, "check", lambda *_: None)
    _replace(Store, "lock_round", remembered)
    _replace(Store, "insert_new", over)


def _replace(owner: Any, name: str, value: Any) -> None:
    """For good: the process ends with it."""
    setattr(owner, name, value)


BUGS: dict[str, Callable[[], None]] = {
    "acknowledged-before-commit": acknowledged_before_commit,
    "retry-counted": retry_counted,
    "lease-without-fencing": lease_without_fencing,
}
