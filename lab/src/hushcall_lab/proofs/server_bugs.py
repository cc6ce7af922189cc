"""Bugs that can be planted in the server. Most break a promise only when something else goes wrong."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.decoding.task import BucketSpec
from hushcall.mechanisms.report_arrays import ReportArrays
from hushcall.protocol.states import ANNOUNCING, CLOSED, HELD, PUBLISHED, RoundState
from hushcall.server import anonymity, logs, scheduler
from hushcall.server.db import schema
from hushcall.server.db.engine import ERRORS
from hushcall.server.db.leases import Leases
from hushcall.server.db.rows import lock_round, newest_version
from hushcall.server.db.store import PublishedFiles, Store
from hushcall.server.http import readiness
from hushcall.server.ingest import ingest as intake
from hushcall.server.ingest.ingest import Answer, Intake, Upload
from hushcall.server.publishing import publisher
from hushcall.server.rounds import holding, jobs, round_data, state_machine
from hushcall.server.rounds.state_machine import Rounds
from hushcall.server.web import health
from hushcall_lab.proofs import client_bugs
from hushcall_lab.proofs.promises import Bug, replaced

COMMIT_SECONDS = 0.05
"""How long after its answer an upload is committed by the first crash bug."""
_accept, _report, _write, _log = Intake.accept, intake._Batch.report, Store.write, logs.log
_advance_one = Rounds._advance_one


def _ignore_failed_commit(self: Intake, uploads: Sequence[Any]) -> Any:
    try:
        return _accept(self, uploads)
    except ERRORS:
        if not all(isinstance(upload, Upload) for upload in uploads):
            raise
        return [Answer(201) for _ in uploads]


@contextmanager
def _count_retry() -> Iterator[None]:
    """Stores repeated reports in a table whose key is not the ticket, and tallies them too."""
    columns = (sa.Column(c.name, c.type) for c in schema.reports.columns if c.name != "id")
    again = sa.Table("planted_again", sa.MetaData(), *columns)
    stored = round_data.stored_reports

    def report(batch: Any, upload: Upload, device: int) -> Answer:
        answer = _report(batch, upload, device)
        if answer.status == 200:
            again.create(batch.connection, checkfirst=True)
            _, _, bucket = batch.tickets[upload.ticket]
            row = {
                "ticket": upload.ticket,
                "round": upload.round,
                "bucket": bucket,
                "body": batch.bodies[upload.ticket],
            }
            batch.connection.execute(sa.insert(again), [row])
        return answer

    def with_retries(store: Store, opened: BucketSpec) -> Iterator[Any]:
        yield from stored(store, opened)
        if sa.inspect(store.engine).has_table(again.name):
            of_bucket = (again.c.round == opened.round) & (again.c.bucket == opened.bucket)
            rows = store.rows(sa.select(again.c.ticket, again.c.body).where(of_bucket))
            if rows:
                yield ReportArrays.of([(bytes(row.ticket), bytes(row.body)) for row in rows])

    with patch.object(intake._Batch, "report", report), patch.object(round_data, "stored_reports", with_retries):
        yield


@contextmanager
def _drop_reports_first(store: Store, name: str, timeout_seconds: float = 60.0) -> Iterator[Connection]:
    """Drops a bucket's reports in one transaction and stores its tally in the next."""
    if name.startswith("seal bucket"):
        closed = sa.select(schema.rounds.c.id).where(schema.rounds.c.state == CLOSED)
        of_bucket = schema.reports.c.bucket == int(name.split()[2])
        with _write(store, "drop reports", timeout_seconds) as connection:
            connection.execute(sa.delete(schema.reports).where(schema.reports.c.round.in_(closed), of_bucket))
    with _write(store, name, timeout_seconds) as connection:
        yield connection


@contextmanager
def _remember_files() -> Iterator[None]:
    files_of: dict[int, dict[str, bytes]] = {}
    read = PublishedFiles.__getitem__

    def remembered(files: PublishedFiles, path: str) -> bytes:
        cache = files_of.setdefault(id(files._connection.engine), {})
        data = read(files, path)
        return cache.setdefault(path, data) if path == "metadata/timestamp.json" else data

    with patch.object(PublishedFiles, "__getitem__", remembered):
        yield


def _change_held_round(store: Store, name: str, round_id: int, **values: Any) -> None:
    with store.write(name) as connection:
        is_held = (schema.rounds.c.id == round_id) & (schema.rounds.c.state == HELD)
        connection.execute(sa.update(schema.rounds).where(is_held).values(held_from=None, **values))


def _release_to_start(store: Store, round_id: int) -> None:
    _change_held_round(store, "release", round_id, state=ANNOUNCING, reason="")


def _discard_only_the_state(store: Store, round_id: int, reason: str) -> None:
    _change_held_round(store, "discard", round_id, state=PUBLISHED, reason=f"discarded: {reason}")


def _log_no_errors(event: str, **fields: Any) -> None:
    if fields.get("level", 0) < logging.ERROR:
        _log(event, **fields)


def _log_ticket(self: Any, upload: Upload, device: int) -> Answer:
    answer = _report(self, upload, device)
    _log("upload", ticket=upload.ticket.hex(), status=answer.status)
    return answer


@contextmanager
def _remember_version() -> Iterator[None]:
    versions: dict[int, Any] = {}

    def newest(connection: Connection) -> Any:
        return versions.setdefault(id(connection.engine), newest_version(connection))

    with patch.object(readiness, "newest_version", newest):
        yield


def _force_any_state(self: Rounds, round_id: int, now: int, forced: RoundState | None) -> list[str]:
    """Forces a round out of the state that it has by now, not out of the one that the operator saw."""
    return _advance_one(self, round_id, now, forced and self._bring_back(round_id, now).state)


_IGNORE_CORRECTIONS = replaced(publisher, "_corrected", lambda *_: False)
FAULT_BUGS: dict[str, Bug] = {
    "acknowledged although the commit failed": replaced(Intake, "accept", _ignore_failed_commit),
    "a retry is counted": _count_retry,
    "reports go before their tally is kept": replaced(Store, "write", _drop_reports_first),
    "appeals are read once": _IGNORE_CORRECTIONS,
    "what is published is remembered": _remember_files,
    "a released round begins anew": replaced(holding, "release", _release_to_start),
    "a discarded round keeps its reports": replaced(holding, "discard", _discard_only_the_state),
    "a clock that was ahead is believed": replaced(state_machine, "brought_back", lambda *_: None),
    "a probe reads and does not write": replaced(Store, "heartbeat", lambda *_: None),
    "a late round is not told": replaced(readiness, "overdue", lambda *_: 0),
    "a failing scheduler says nothing": replaced(scheduler, "log", _log_no_errors),
    "a cause is not named": replaced(logs, "cause_of", lambda _: ""),
    "uploads are logged with their tickets": replaced(intake._Batch, "report", _log_ticket),
    "figures are remembered": _remember_version,
    "a held round is no worry": replaced(health, "HELD", PUBLISHED + " and held"),
    "a retry of a phone is made anew": client_bugs.BUGS["a retry is made anew"],
}
RACE_BUGS: dict[str, Bug] = {
    "corrections-read-once": _IGNORE_CORRECTIONS,
    "forced-whatever-it-is": replaced(Rounds, "_advance_one", _force_any_state),
    "tokens-beside-names": replaced(anonymity, "announced_by_name", lambda *_: False),
}


# Bugs of a server process that is killed. They are planted before it starts and last as long as the process.


@contextmanager
def _commit_later(store: Store, name: str, timeout_seconds: float = 60.0) -> Iterator[Connection]:
    """Answers uploads within the transaction. Another thread commits it a moment later."""
    if name != "intake":
        with _write(store, name, timeout_seconds) as connection:
            yield connection
        return
    writing = _write(store, name, timeout_seconds)
    yield writing.__enter__()

    def commit() -> None:
        time.sleep(COMMIT_SECONDS)
        writing.__exit__(None, None, None)

    threading.Thread(target=commit, daemon=True).start()


@contextmanager
def _skip_lease_checks() -> Iterator[None]:
    """A process that had the lease when it began never checks it again, and overwrites the results of others."""
    insert_new, closed_rounds = Store.insert_new, dict[int, Any]()

    def remembered(connection: Connection, round_id: int, *, share: bool = False) -> Any:
        row = lock_round(connection, round_id, share=share)
        if row is not None and row.state == CLOSED:
            closed_rounds[round_id] = row
        return closed_rounds.get(round_id, row) if share else row  # share: for writing results

    def overwrite(store: Store, connection: Connection, table: sa.Table, rows: Any, *, key: Sequence[str]) -> None:
        for row in rows if table is schema.tallies else ():
            same = (table.c.round == row["round"]) & (table.c.bucket == row["bucket"])
            connection.execute(sa.delete(table).where(same))
        insert_new(store, connection, table, rows, key=key)

    with (
        patch.object(Leases, "check", lambda *_: None),
        patch.object(jobs, "lock_round", remembered),
        patch.object(state_machine, "lock_round", remembered),
        patch.object(Store, "insert_new", overwrite),
    ):
        yield


CRASH_BUGS: dict[str, Bug] = {
    "acknowledged-before-commit": replaced(Store, "write", _commit_later),
    "retry-counted": _count_retry,
    "lease-without-fencing": _skip_lease_checks,
}
