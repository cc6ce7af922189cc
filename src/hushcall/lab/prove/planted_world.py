"""Bugs planted in server or phone for the simulation, one at a time: each breaks a promise only when something fails.

A bug is what somebody could have written. What is planted is taken out again when the context ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.lab.prove import planted
from hushcall.protocol.states import ANNOUNCING, CLOSED, HELD, PUBLISHED
from hushcall.server import logs, scheduler
from hushcall.server.db import schema
from hushcall.server.db.rows import newest_version
from hushcall.server.db.store import PublishedFiles, Store
from hushcall.server.db.trouble import ERRORS
from hushcall.server.http import gauges, readiness
from hushcall.server.intake import intake
from hushcall.server.intake.intake import Answer, Intake, Upload
from hushcall.server.pages import health
from hushcall.server.publishing import publisher
from hushcall.server.rounds import state_machine
from hushcall.server.rounds.state_machine import Rounds

Bug = Callable[[], Any]
_accept, _report, _write, _log = Intake.accept, intake._Batch.report, Store.write, logs.log


def _whatever_the_disk_says(self: Intake, asked: Sequence[Any]) -> Any:
    """The answers are there before the commit, and given although that fails."""
    kept: list[Any] = []
    batch = intake._Batch.write

    def written(one: Any) -> None:
        kept.append(one)
        batch(one)

    with patch.object(intake._Batch, "write", written):
        try:
            return _accept(self, asked)
        except ERRORS:
            if not kept or not all(isinstance(one, Upload) for one in asked):
                raise
            return [Answer(201) for _ in asked]


def _again(self: Any, asked: Upload, device: int) -> Answer:
    """A report that comes again is stored under another key."""
    answer = _report(self, asked, device)
    if answer.status == 200:
        round_id, _, bucket = self.tickets[asked.ticket]
        other = bytes(b ^ 0xFF for b in asked.ticket)
        row = {"ticket": other, "round": round_id, "bucket": bucket, "body": self.bodies[asked.ticket]}
        self.store.insert_new(self.connection, schema.reports, [row], key=("ticket",))
    return answer


@contextmanager
def _reports_first() -> Iterator[None]:
    """A bucket's reports are dropped in one transaction, and its tally is kept in the next."""

    @contextmanager
    def write(store: Store, name: str, patience: float = 60.0) -> Iterator[Connection]:
        if name.startswith("seal bucket"):
            closed = sa.select(schema.rounds.c.id).where(schema.rounds.c.state == CLOSED)
            mine = schema.reports.c.bucket == int(name.split()[2])
            with _write(store, "drop reports", patience) as connection:
                connection.execute(sa.delete(schema.reports).where(schema.reports.c.round.in_(closed), mine))
        with _write(store, name, patience) as connection:
            yield connection

    with patch.object(Store, "write", write):
        yield


@contextmanager
def _remembered_files() -> Iterator[None]:
    """A worker publishes upon what it published last, and does not look at what others have."""
    seen: dict[int, dict[str, bytes]] = {}
    look = PublishedFiles.__getitem__

    def remembered(files: PublishedFiles, path: str) -> bytes:
        kept = seen.setdefault(id(files._connection.engine), {})
        return kept.setdefault(path, look(files, path)) if path == "metadata/timestamp.json" else look(files, path)

    with patch.object(PublishedFiles, "__getitem__", remembered):
        yield


def _from_the_start(self: Rounds, round_id: int) -> None:
    """A round that is released begins anew."""
    with self.store.write("release") as connection:
        held = (schema.rounds.c.id == round_id) & (schema.rounds.c.state == HELD)
        values = {"state": ANNOUNCING, "held_from": None, "reason": ""}
        connection.execute(sa.update(schema.rounds).where(held).values(**values))


def _kept(self: Rounds, round_id: int, reason: str) -> None:
    """Discarding ends the round, and leaves what was in it."""
    with self.store.write("discard") as connection:
        held = (schema.rounds.c.id == round_id) & (schema.rounds.c.state == HELD)
        values = {"state": PUBLISHED, "held_from": None, "reason": f"discarded: {reason}"}
        connection.execute(sa.update(schema.rounds).where(held).values(**values))


def _unless_it_fails(event: str, **fields: Any) -> None:
    """What goes wrong is not logged, as it will be tried again."""
    if fields.get("level", 0) < logging.ERROR:
        _log(event, **fields)


def _with_its_ticket(self: Any, asked: Upload, device: int) -> Answer:
    """Each upload leaves a line by which it can be found again."""
    answer = _report(self, asked, device)
    _log("upload", ticket=asked.ticket.hex(), status=answer.status)
    return answer


@contextmanager
def _remembered_figures() -> Iterator[None]:
    """The list's version is read once by each worker."""
    seen: dict[int, Any] = {}

    def newest(connection: Connection) -> Any:
        return seen.setdefault(id(connection.engine), newest_version(connection))

    with patch.object(gauges, "newest_version", newest):
        yield


BUGS: dict[str, Bug] = {
    "acknowledged although the commit failed": lambda: patch.object(Intake, "accept", _whatever_the_disk_says),
    "a retry is counted": lambda: patch.object(intake._Batch, "report", _again),
    "reports go before their tally is kept": _reports_first,
    "appeals are read once": lambda: patch.object(publisher, "corrected", lambda *_: frozenset()),
    "what is published is remembered": _remembered_files,
    "a released round begins anew": lambda: patch.object(Rounds, "release", _from_the_start),
    "a discarded round keeps its reports": lambda: patch.object(Rounds, "discard", _kept),
    "a clock that was ahead is believed": lambda: patch.object(state_machine, "brought_back", lambda *_: None),
    "a probe reads and does not write": lambda: patch.object(Store, "beat", lambda *_: None),
    "a late round is not told": lambda: patch.object(readiness, "overdue", lambda *_: 0),
    "a failing scheduler says nothing": lambda: patch.object(scheduler, "log", _unless_it_fails),
    "a cause is not named": lambda: patch.object(logs, "cause_of", lambda _: ""),
    "uploads are logged with their tickets": lambda: patch.object(intake._Batch, "report", _with_its_ticket),
    "figures are remembered": _remembered_figures,
    "a held round is no worry": lambda: patch.object(health, "HELD", PUBLISHED + " and held"),
    "a retry of a phone is made anew": planted.BUGS["a retry is made anew"],
}
