"""The jobs of a closed round: what of it is neither sealed nor decoded comes in; tallies and heavy hitters leave.

A job is to seal a bucket, or to decode a part of one. Any number of processes share a round: each takes the next free
jobs under leases, and whoever dies leaves them to the others when those run out. A job's result is written in one
transaction that first checks its lease (``db.leases``), so that one which comes too late changes nothing. What a job
gives depends on the reports alone: the same rows whoever does it, in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.protocol.states import CLOSED, TAKES_RESULTS
from hushcall.server.db import leases as leasing
from hushcall.server.db import schema
from hushcall.server.db.leases import Lease, Leases, LostLease, Term
from hushcall.server.db.rows import existing_round
from hushcall.server.db.store import Store
from hushcall.server.rounds import decoding, windows
from hushcall.server.rounds.decoding import Decoded, Job, Kept, Opened


@dataclass(frozen=True)
class Task:
    """A bucket to be sealed, or a part of a sealed one to be decoded."""

    opened: Opened
    part: int | None = None

    @property
    def lease(self) -> str:
        """What its lease is called."""
        what = "seal" if self.part is None else self.part
        return f"{_prefix(self.opened.round)}{self.opened.bucket}/{what}"


def _prefix(round_id: int) -> str:
    return f"round {round_id}/"


def forget(connection: Connection, round_id: int) -> None:
    """Drop the leases of a round whose jobs are over: whoever still has one is too late from now on."""
    leasing.forget(connection, _prefix(round_id))


def earlier_in_hand(leases: Leases, round_id: int) -> bool:
    """Whether others are decoding an earlier round: its findings belong into this one's window, so it comes first."""
    table, rounds = schema.leases.c, schema.rounds.c
    closed = leases.store.rows(sa.select(rounds.id).where(rounds.state == CLOSED, rounds.id < round_id))
    names = [table.name.startswith(_prefix(one.id)) for one in closed]
    others = sa.select(table.name).where(sa.or_(sa.false(), *names), table.holder != leases.holder)
    return bool(closed) and bool(leases.store.rows(others.where(table.until > leases.store.now()).limit(1)))


@dataclass
class Work:
    """One process's work on one round, ``width`` jobs in its hands at a time.

    ``by_force``: an operator's own step takes jobs from whoever has them, who then come too late. Where this process
    leads, it goes on to meanwhile.
    """

    term: Term
    round_id: int
    pool: Callable[[], Executor | None]
    width: int
    keep_reports: bool = False
    by_force: bool = False
    beat: Callable[[], None] = lambda: None
    held: dict[str, Lease] = field(default_factory=dict)
    _sealed: tuple[int, tuple[Kept, ...]] = (-1, ())

    @property
    def leases(self) -> Leases:
        """Where jobs are taken."""
        return self.term.leases

    @property
    def store(self) -> Store:
        """The database that the jobs come from, and their results go to."""
        return self.leases.store

    def done(self) -> bool:
        """Do what is free until there is nothing left; False where others have the rest in their hands."""
        with self.leases.kept(lambda: [*self.held.values(), *([self.term.lease] if self.term.lease else [])]):
            try:
                while todo := self._todo():
                    seals = [task for task in todo if task.part is None]
                    parts = [task for task in todo if task.part is not None]
                    if not (self._seal(seals) | self._decode(parts)):
                        return False
                return True
            finally:
                self.leases.give_up(self.held.values())
                self.held.clear()

    @cached_property
    def _opened(self) -> list[Opened]:
        return decoding.opened_buckets(self.store, self.round_id)

    @cached_property
    def _window(self) -> list[int]:
        with self.store.read() as connection:
            return windows.rounds_in_window(connection, existing_round(connection, self.round_id))

    @cached_property
    def _seed(self) -> bytes:
        with self.store.read() as connection:
            return existing_round(connection, self.round_id).seed

    def _todo(self) -> list[Task]:
        """What is left, in an order that is everybody's: nothing where the round does not take results any more."""
        tallies, parts = schema.tallies.c, schema.decodings.c
        with self.store.read() as connection:
            if existing_round(connection, self.round_id).state not in TAKES_RESULTS:
                return []
            query = sa.select(tallies.bucket).where(tallies.round == self.round_id)
            sealed = set(connection.execute(query).scalars())
            rows = connection.execute(sa.select(parts.bucket, parts.part).where(parts.round == self.round_id))
            decoded = {(row.bucket, row.part) for row in rows}
        seals = [Task(one) for one in self._opened if one.bucket not in sealed]
        return seals + [
            Task(one, part)
            for one in self._opened
            if one.bucket in sealed
            for part in range(one.profile.scheme.parts)
            if (one.bucket, part) not in decoded
        ]

    def _take(self, tasks: list[Task], most: int) -> list[Task]:
        """The first free ones, under leases; they and those before them, which others have, leave ``tasks``."""
        names = [task.lease for task in tasks]
        leases = {one.name: one for one in self.leases.take_some(names, most, by_force=self.by_force)}
        self.held.update(leases)
        taken = [task for task, name in zip(tasks, names, strict=True) if name in leases]
        del tasks[: names.index(taken[-1].lease) + 1 if taken else len(tasks)]
        return taken

    def _seal(self, tasks: list[Task]) -> bool:
        """Turn the free buckets' reports into tallies, one transaction a bucket; whether there were any."""
        did = False
        while taken := self._take(tasks, self.width):
            did = True
            for task in taken:
                self.beat()
                opened = task.opened
                reports = decoding.stored_reports(self.store, opened)
                count, checksum, data = decoding.tally_of(opened, self._seed, reports)
                row = {"round": opened.round, "bucket": opened.bucket, "count": count, "checksum": checksum}
                self._finish(task, f"seal bucket {opened.bucket}", self._put_tally, {**row, "data": data})
        return did

    def _put_tally(self, connection: Connection, row: dict[str, Any]) -> None:
        self.store.insert_new(connection, schema.tallies, [row], key=("bucket",))
        if not (self.keep_reports or self.store.postgres):  # there they go all at once, with the round's partition
            table = schema.reports.c
            mine = (table.round == row["round"]) & (table.bucket == row["bucket"])
            connection.execute(sa.delete(schema.reports).where(mine))

    def _decode(self, tasks: list[Task]) -> bool:
        """Decode the free parts, so many at a time in other processes; whether there were any."""
        first = self._take(tasks, self.width)
        if not first:
            return False
        pool, running = self.pool(), list[tuple[Task, Decoded | Future[Decoded]]]()

        def start(taken: list[Task]) -> None:
            for task in taken:
                self.beat()
                if job := self._job(task):
                    running.append((task, pool.submit(decoding.decode, job) if pool else decoding.decode(job)))

        start(first)
        while running:
            task, result = running.pop(0)
            decoded = result.result() if isinstance(result, Future) else result
            if len(running) <= self.width // 2:
                start(self._take(tasks, self.width - len(running)))
            name = f"decode bucket {decoded.bucket} part {decoded.part}"
            self._finish(task, name, self._put_findings, decoded)
        return True

    def _job(self, task: Task) -> Job | None:
        """A job with its tallies; None where the round was decoded or discarded meanwhile."""
        bucket = task.opened.bucket
        if self._sealed[0] != bucket:
            with self.store.read() as connection:
                self._sealed = bucket, tuple(decoding.kept_tallies(connection, self._window, bucket))
        kept = self._sealed[1]
        return Job(task.opened, task.part or 0, kept) if kept and kept[-1].round == self.round_id else None

    def _put_findings(self, connection: Connection, decoded: Decoded) -> None:
        self.store.insert_new(connection, schema.hitters, decoded.rows, key=("number",))
        row = {"round": self.round_id, "bucket": decoded.bucket, "part": decoded.part}
        self.store.insert_new(connection, schema.decodings, [row], key=("bucket", "part"))

    def _finish(self, task: Task, name: str, put: Callable[[Connection, Any], None], result: Any) -> None:
        """Write what a job gave, unless another has the job by now, or the round takes no results any more.

        One that was discarded meanwhile must stay as empty as it was made: its row is held still, so that nobody
        discards it before this is written.
        """
        lease = self.held.pop(task.lease)
        try:
            with self.store.write(name) as connection:
                self.leases.check(connection, lease)
                row = self.store.lock_round(connection, self.round_id, share=True)
                if row is not None and row.state in TAKES_RESULTS:
                    put(connection, result)
        except LostLease:
            return  # whoever took it over writes the same
