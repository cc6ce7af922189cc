"""Seals and decodes a closed round, job by job, together with other processes on the same database.

A job is to seal a bucket, or to decode a part of one. Each process takes the next free jobs under leases. A job's
result is written in one transaction that first checks its lease, so that a late one changes nothing. Results depend on
the reports alone: whichever process does a job writes the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.decoding.hints import NO_HINTS, Hints
from hushcall.decoding.task import Backend, BucketSpec, DecodeTask, Findings
from hushcall.protocol.states import CLOSED, TAKES_RESULTS
from hushcall.server.db import schema
from hushcall.server.db.leases import Lease, Leases, LostLease, Term, round_prefix
from hushcall.server.db.rows import RoundRow, existing_round, lock_round
from hushcall.server.db.store import Store
from hushcall.server.rounds import hints, round_data
from hushcall.server.settings import HintSettings

T = TypeVar("T")
SEALS_AT_ONCE = 4
"""Buckets that are leased together to be sealed."""


def _lease_name(round_id: int, bucket: int, job: str | int) -> str:
    return f"{round_prefix(round_id)}{bucket}/{job}"


def earlier_under_way(leases: Leases, round_id: int) -> bool:
    """Whether others are decoding an earlier round. Its findings belong into this one's window, so it comes first."""
    table, rounds = schema.leases.c, schema.rounds.c
    closed = leases.store.rows(sa.select(rounds.id).where(rounds.state == CLOSED, rounds.id < round_id))
    names = [table.name.startswith(round_prefix(row.id)) for row in closed]
    foreign = sa.select(table.name).where(sa.or_(sa.false(), *names), table.holder != leases.holder)
    return bool(closed) and bool(leases.store.rows(foreign.where(table.until > leases.store.now()).limit(1)))


@dataclass
class RoundJobs:
    """One process's share of a round's jobs.

    With ``by_force``, for an operator's own step, it takes jobs from those that hold them, too, who then come too late.
    If this process leads, its term is renewed meanwhile. ``beat`` is called at each job.
    """

    term: Term
    round_id: int
    backend: Callable[[], Backend]
    hint_settings: HintSettings = field(default_factory=HintSettings)
    keep_reports: bool = False
    by_force: bool = False
    beat: Callable[[], None] = lambda: None
    leased: dict[str, Lease] = field(default_factory=dict)
    _last_tasks: tuple[int, list[DecodeTask]] = (-1, [])

    @property
    def leases(self) -> Leases:
        return self.term.leases

    @property
    def store(self) -> Store:
        return self.leases.store

    def run(self) -> bool:
        """Do free jobs until there are none. False where other processes hold the remaining ones."""
        with self.leases.renewing(lambda: [*self.leased.values(), *([self.term.lease] if self.term.lease else [])]):
            try:
                while True:
                    seals, parts = self._open_jobs()
                    if not (seals or parts):
                        return True
                    if not (self._seal(seals) | self._decode(parts)):
                        return False
            finally:
                self.leases.give_up(self.leased.values())
                self.leased.clear()

    @cached_property
    def _buckets(self) -> dict[int, BucketSpec]:
        return {bucket.bucket: bucket for bucket in round_data.bucket_specs(self.store, self.round_id)}

    @cached_property
    def _row(self) -> RoundRow:
        with self.store.read() as connection:
            return existing_round(connection, self.round_id)

    @cached_property
    def _window(self) -> list[int]:
        with self.store.read() as connection:
            return round_data.rounds_in_window(connection, self._row)

    @cached_property
    def _hints(self) -> dict[int, Hints]:
        codec = self._row.profile.spec.items
        return hints.of_round(self.store, self.hint_settings, self._row).by_bucket(codec, self._row.plan)

    def _open_jobs(self) -> tuple[dict[str, BucketSpec], dict[str, tuple[BucketSpec, int]]]:
        """Buckets to seal and parts to decode, by lease, in the same order for every process."""
        tallies, parts = schema.tallies.c, schema.decodings.c
        with self.store.read() as connection:
            if existing_round(connection, self.round_id).state not in TAKES_RESULTS:
                return {}, {}
            sealed = set(connection.scalars(sa.select(tallies.bucket).where(tallies.round == self.round_id)))
            rows = connection.execute(sa.select(parts.bucket, parts.part).where(parts.round == self.round_id))
            decoded = {(row.bucket, row.part) for row in rows}
        to_seal = {
            _lease_name(self.round_id, number, "seal"): bucket
            for number, bucket in self._buckets.items()
            if number not in sealed
        }
        to_decode = {
            _lease_name(self.round_id, number, part): (bucket, part)
            for number, bucket in self._buckets.items()
            if {number, abs(number)} <= sealed  # hundreds are compared with the numbers of their area code
            for part in range(bucket.profile.spec.parts)
            if (number, part) not in decoded
        }
        return to_seal, to_decode

    def _take(self, jobs: dict[str, T], count: int) -> list[T]:
        """The first free jobs, under leases. They leave ``jobs``, and so do those before them, which others hold."""
        leases = {lease.name: lease for lease in self.leases.take_some(list(jobs), count, by_force=self.by_force)}
        self.leased.update(leases)
        names = list(jobs)
        last = max((names.index(name) for name in leases), default=len(names) - 1)
        passed = {name: jobs.pop(name) for name in names[: last + 1]}
        return [passed[name] for name in leases]

    def _seal(self, jobs: dict[str, BucketSpec]) -> bool:
        """Turn the free buckets' reports into tallies, one transaction a bucket. False where there are none."""
        worked = False
        while batch := self._take(jobs, SEALS_AT_ONCE):
            worked = True
            for bucket in batch:
                self.beat()
                reports = round_data.stored_reports(self.store, bucket)
                count, checksum, data = round_data.sealed_tally(bucket, self._row.seed, reports)
                row = {"bucket": bucket.bucket, "count": count, "checksum": checksum, "data": data}
                lease = _lease_name(self.round_id, bucket.bucket, "seal")
                self._finish(lease, f"seal bucket {bucket.bucket}", self._put_tally, row)
        return worked

    def _put_tally(self, connection: Connection, row: dict[str, Any]) -> None:
        self.store.insert_new(connection, schema.tallies, [{"round": self.round_id, **row}], key=("bucket",))
        if not (self.keep_reports or self.store.postgres):  # there they go all at once, with the round's partition
            table = schema.reports.c
            mine = (table.round == self.round_id) & (table.bucket == row["bucket"])
            connection.execute(sa.delete(schema.reports).where(mine))

    def _decode(self, jobs: dict[str, tuple[BucketSpec, int]]) -> bool:
        if not jobs:
            return False
        backend = self.backend()
        batch_size = max(backend.ahead // 2, 1)
        first = self._take(jobs, batch_size)

        def tasks() -> Iterator[DecodeTask]:
            batch = first
            while batch:
                for bucket, part in batch:
                    self.beat()
                    yield from self._tasks(bucket)[part : part + 1]
                batch = self._take(jobs, batch_size)

        for findings in backend.decode(tasks()):
            _, bucket, part = findings.key
            step = f"decode bucket {bucket} part {part}"
            self._finish(_lease_name(self.round_id, bucket, part), step, self._put_findings, findings)
        return bool(first)

    def _tasks(self, bucket: BucketSpec) -> list[DecodeTask]:
        """A task for each part; none where the round was decoded or discarded meanwhile."""
        if self._last_tasks[0] != bucket.bucket:
            chosen = self._hints.get(bucket.bucket, NO_HINTS)
            with self.store.read() as connection:
                tasks = round_data.decode_tasks(connection, self._window, bucket, chosen)
            self._last_tasks = bucket.bucket, tasks
        return self._last_tasks[1]

    def _put_findings(self, connection: Connection, findings: Findings) -> None:
        round_id, bucket, part = findings.key
        items = self._buckets[bucket].items
        rows = [
            {"round": round_id, "number": items.text(number), "bucket": number.area, **figures}
            for number, figures in findings.figures(self._buckets[bucket])
        ]
        self.store.insert_new(connection, schema.ranges if items.open_digits else schema.hitters, rows, key=("number",))
        row = {"round": round_id, "bucket": bucket, "part": part}
        self.store.insert_new(connection, schema.decodings, [row], key=("bucket", "part"))

    def _finish(self, name: str, step: str, put: Callable[[Connection, Any], None], result: Any) -> None:
        """Write what a job gave, unless another process has the job by now, or the round takes no results any more.

        The round's row is locked until this is written: a round that is discarded meanwhile must stay empty.
        """
        lease = self.leased.pop(name)
        try:
            with self.store.write(step) as connection:
                row = lock_round(connection, self.round_id, share=True)
                self.leases.check(connection, lease)
                if row is not None and row.state in TAKES_RESULTS:
                    put(connection, result)
        except LostLease:
            return  # the process that took it over writes the same
