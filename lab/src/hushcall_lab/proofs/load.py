"""A server under load: at capacity, at 70 % of it, then at twice that; and whether it kept its promises.

Capacity depends on how full the round is, so as many reports as the steady load will bring are inserted before. The
round is then filled at full speed, and the last part of that is the capacity. Later uploads arrive at fixed times.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from hushcall.mechanisms import parameters
from hushcall.mechanisms.mechanism import report_bytes
from hushcall.protocol.seeds import TICKET_BYTES
from hushcall.server.db import schema
from hushcall.server.db.rows import buckets_of
from hushcall.server.service import Service
from hushcall_lab.simulation.load import Runs
from hushcall_lab.simulation.rig import SERVER, Progress, cores, drive, filled, on, prepared, process
from hushcall_lab.usage import processor_seconds, resident_mb

CONNECTIONS, OVERLOAD_CONNECTIONS = 200, 1600
"""Enough to keep the server busy, and more than it lets wait."""
MIN_CAPACITY_UPLOADS = 2000
USUAL_RATE, HIGH_RATE = 3500, 6500
"""Uploads a second while filling, and at most after that. They say how many uploads are prepared."""
FILL_SHARE, MAX_OVERLOAD_SECONDS = 0.5, 30.0
"""Seconds of filling for each one of steady load. Overload takes half of the steady load's seconds, at most so many."""
INSERT_BATCH = 20_000
STEADY_P99_MS = 100.0
RECOVERY_SECONDS = 10.0
GOODPUT = 0.8
GROWTH = 1.2
QUICK_MS, QUICK_ANSWERS = 100.0, 20
"""So many answers in a row below that latency count as back to normal."""


@dataclass(frozen=True)
class Promise:
    what: str
    measured: float
    limit: str
    ok: bool

    @classmethod
    def at_most(cls, what: str, measured: float, limit: float, remark: str = "") -> Promise:
        return cls(what, measured, f"≤ {limit:g}{remark}" if limit else "0", measured <= limit)


@dataclass(frozen=True)
class LoadResult:
    """Rates in uploads a second, and promises.

    ``busy``: share of one core that the server took under steady load. ``offered``: uploads a second that were answered
    under overload, accepted or not. ``memory_mb``: after a tenth of the filling, all of it, and the steady load.
    """

    database: str
    capacity: float
    steady_seconds: float
    steady_p50_ms: float
    steady_p99_ms: float
    busy: float
    offered: float
    goodput: float
    statuses: dict[str, int]
    memory_mb: tuple[float, float, float]
    promises: tuple[Promise, ...]

    @property
    def ok(self) -> bool:
        return all(promise.ok for promise in self.promises)


def prove(seconds: float, url: str, progress: Progress, max_uploads: int = 1_000_000) -> LoadResult:
    server_core, load_core = cores()
    pids: list[int] = []
    with (
        on(server_core),
        filled(url) as service,
        process(SERVER, service.settings.model_dump_json(), on_start=pids.append) as port,
    ):
        drill = Drill(service, port, load_core, pids[0], progress)
        return drill.run(seconds, max_uploads, "postgresql" if url else "sqlite")


@dataclass
class Drill:
    service: Service
    port: int
    core: int | None
    pid: int
    progress: Progress
    acknowledged: set[str] = field(default_factory=set)

    def run(self, seconds: float, max_uploads: int, database: str) -> LoadResult:
        overload_seconds = min(seconds / 2, MAX_OVERLOAD_SECONDS)
        parts = USUAL_RATE * FILL_SHARE * seconds, HIGH_RATE * 0.7 * seconds, HIGH_RATE * 2 * overload_seconds
        count = min(3 * MIN_CAPACITY_UPLOADS + round(sum(parts)), max_uploads)
        uploads = prepared(self.service, count, self.progress)
        fill, steady_end = (max(round(count * part / sum(parts)), 1) for part in (parts[0], sum(parts[:2])))
        tenth = max(fill // 10, 1)
        last = max(fill - max(tenth, MIN_CAPACITY_UPLOADS), tenth)
        self._insert_reports(steady_end - fill)
        self.progress("capacity", 0, 4)
        self._drive(uploads[:tenth], CONNECTIONS)
        memory_mb = [resident_mb(self.pid)]
        self._drive(uploads[tenth:last], CONNECTIONS)
        capacity = self._drive(uploads[last:fill], CONNECTIONS).per_second
        memory_mb.append(resident_mb(self.pid))
        self.progress("70 % of capacity", 1, 4)
        count = min(round(0.7 * capacity * seconds), steady_end - fill)
        before = processor_seconds(self.pid)
        steady = self._drive(uploads[fill : fill + count], CONNECTIONS, 0.7 * capacity)
        busy = (processor_seconds(self.pid) - before) / steady.seconds
        memory_mb.append(resident_mb(self.pid))
        self.progress("twice capacity", 2, 4)
        crowd = uploads[fill + count :][: round(2 * capacity * overload_seconds)]
        over = self._drive(crowd, OVERLOAD_CONNECTIONS, 2 * capacity)
        self.progress("recovery", 3, 4)
        recovery_seconds = self._recovery_seconds(uploads[0])
        errors = steady.statuses.total() - steady.statuses["201"]
        refused = over.statuses["429"] + over.statuses["503"]
        failed = over.statuses.total() - over.statuses["201"] - refused
        goodput = over.statuses["201"] / max(over.success_seconds, 1e-9) / capacity
        may_queue_all = len(crowd) <= self.service.settings.intake.queue
        lost = len(self.acknowledged - self.stored_tickets())
        growth = max(memory_mb[1:]) / memory_mb[0]
        p99 = steady.quantile_ms(0.99)
        promises = (
            Promise.at_most("errors at 70 %", errors, 0),
            Promise.at_most("p99 at 70 %, in ms", p99, STEADY_P99_MS, " (idle machine)"),
            Promise.at_most("neither taken nor told to come back", failed, 0),
            Promise.at_most("told to come back without a time", refused - over.retry_after, 0),
            Promise("turned away at twice capacity", refused, "> 0", refused > 0 or may_queue_all),
            Promise("goodput at twice capacity", goodput, f"≥ {GOODPUT:g}", goodput >= GOODPUT),
            Promise.at_most("seconds until back to normal", recovery_seconds, RECOVERY_SECONDS),
            Promise.at_most("acknowledged and lost", lost, 0),
            Promise.at_most("memory, × after a tenth of the filling", growth, GROWTH),
        )
        return LoadResult(
            database,
            capacity,
            steady_seconds=steady.seconds,
            steady_p50_ms=steady.quantile_ms(0.5),
            steady_p99_ms=p99,
            busy=busy,
            offered=over.per_second,
            goodput=goodput,
            statuses=dict(steady.statuses + over.statuses),
            memory_mb=(memory_mb[0], memory_mb[1], memory_mb[2]),
            promises=promises,
        )

    def _insert_reports(self, count: int) -> None:
        newest = self.service.rounds.newest()
        assert newest is not None
        with self.service.store.read() as connection:
            rows = [row for row in buckets_of(connection, newest.id) if row.runs]
        bodies = [(row.bucket, bytes(report_bytes(parameters.from_plain(row.plain)))) for row in rows]
        rng = random.Random(1)
        for at in range(0, count, INSERT_BATCH):
            self.progress("the round is filled", at, count)
            reports = [
                {"ticket": rng.randbytes(TICKET_BYTES), "round": newest.id, "bucket": bucket, "body": body}
                for bucket, body in (bodies[place % len(bodies)] for place in range(at, min(at + INSERT_BATCH, count)))
            ]
            with self.service.store.write("ballast") as connection:
                self.service.store.insert_new(connection, schema.reports, reports, key=("ticket",))

    def _drive(self, uploads: Sequence[bytes], connections: int, rate: float = 0.0) -> Runs:
        runs = drive(self.port, list(uploads), connections, rate, self.core)
        paths = (uploads[place].split(b" ", 2)[1] for place in runs.acknowledged)
        self.acknowledged |= {path.rpartition(b"/")[2].decode() for path in paths}
        return runs

    def _recovery_seconds(self, upload: bytes) -> float:
        """Until answers to a retry, which is not stored again, are quick."""
        begin, recovered = time.monotonic(), False
        while not recovered and time.monotonic() - begin < 6 * RECOVERY_SECONDS:
            runs = drive(self.port, [upload] * QUICK_ANSWERS, 1, 0.0, self.core)
            quick = all(1000 * latency < QUICK_MS for latency in runs.latencies)
            recovered = quick and len(runs.acknowledged) == QUICK_ANSWERS
            if not recovered:
                time.sleep(0.5)
        return time.monotonic() - begin

    def stored_tickets(self) -> set[str]:
        return {bytes(ticket).hex() for (ticket,) in self.service.store.rows(sa.select(schema.reports.c.ticket))}
