"""A server under load: as much as it takes, then 70 % of that, then twice that; what it promised, and what it did.

What it takes is less in a full round than in an empty one: 7,600 a second in one of a million reports were 5,900 in one
of three and a half. So as many reports as the steady load will bring are put into the round before, by hand; then it is
filled as fast as it goes, for as long as half of the steady load, and the last of that counts. Then uploads arrive at
times that were fixed before (an open loop), and an answer's latency counts from then: a server that falls behind cannot
hide it. Every upload is sent once, so that what was acknowledged can be held against what is stored.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import sqlalchemy as sa

from hushcall.lab.live.machine import Machine, Watch
from hushcall.lab.live.rig import SERVER, Progress, Runs, cores, drive, filled, on, prepared, process
from hushcall.lab.usage import processor_seconds, resident_mb
from hushcall.mechanisms import parameters
from hushcall.protocol.tickets import TICKET_BYTES
from hushcall.report.mechanism import report_bytes
from hushcall.server.db import schema
from hushcall.server.db.rows import buckets_of
from hushcall.server.service import Service

CONNECTIONS, CROWD = 200, 1600
"""Phones that speak at once: while capacity is measured, so many that the server is never idle (of 64 all wait for one
commit, and a fifth of its core is); and when twice as many come as it can take, more than it lets wait."""
FIRST, USUAL, HIGH = 2000, 3500, 6500
"""Uploads that show what a server takes, at least; what one takes in a second while it is filled, and after that at the
most: so many phones are made before."""
FILLS, OVERLOADED = 0.5, 30.0
"""Seconds of filling for each one of steady load; and of overload, at most: half of those of steady load otherwise."""
PUT_AT_ONCE = 20_000
LOOKED = 10.0
"""Seconds for which the disk is looked at before, at most: a tenth of those of steady load otherwise."""
STEADY_P99_MS, STRETCH = 100.0, 5.0
"""What is promised at 70 %; and the seconds for which it is told one by one too."""
BACK_SECONDS = 10.0
GOODPUT = 0.8
GROWTH = 1.2
QUICK_MS = 100.0
CALM = 20
"""Answers in a row below :data:`QUICK_MS` that count as back to normal."""
_TICKET = re.compile(rb"/reports/([0-9a-f]{32}) ")


@dataclass(frozen=True)
class Promise:
    """One thing that was promised: ``measured`` beside its limit, and whether it was kept."""

    what: str
    measured: float
    limit: str
    ok: bool


@dataclass(frozen=True)
class Borne:
    """What a server bore, in uploads a second, and its promises."""

    database: str
    capacity: float
    steady_seconds: float
    steady_p50_ms: float
    steady_p99_ms: float
    stretches_p99_ms: tuple[float, ...]
    """The same of every :data:`STRETCH` seconds of the steady load."""
    busy: float
    """Share of one core that the server took then: what it does not take is what it catches up with."""
    offered: float
    """Uploads a second that were answered when twice as many came, taken or not."""
    goodput: float
    statuses: dict[str, int]
    memory_mb: tuple[float, float, float]
    """Of the server, after a tenth of the filling, after all of it, and after the steady load."""
    promises: tuple[Promise, ...]
    machine: Machine
    """What it did by itself: its disk before all this and beside the steady load, and time that others took of it."""

    @property
    def ok(self) -> bool:
        """Whether all of them were kept."""
        return all(one.ok for one in self.promises)

    @property
    def in_stretches(self) -> str:
        """Whether it was slow throughout or now and then, in words."""
        each = self.stretches_p99_ms
        slow = sum(one > STEADY_P99_MS for one in each)
        told = f"{slow} of {len(each)} above {STEADY_P99_MS:g} ms, the worst {max(each):,.0f} ms"
        return f"p99 of each {STRETCH:g} s at 70 %: {median(each):,.0f} ms at the median, {told}."


def bear(seconds: float, url: str, progress: Progress, most: int = 1_000_000) -> Borne:
    """Drive one server: filling it, then ``seconds`` of steady load, then overload. At most so many uploads in all."""
    server_core, load_core = cores()
    known: list[int] = []
    with (
        on(server_core),
        filled(url) as service,
        process(SERVER, service.settings.model_dump_json(), know=known.append) as port,
    ):
        drill = _Drill(service, port, load_core, known[0], progress)
        return drill.run(seconds, most, "postgresql" if url else "sqlite")


@dataclass
class _Drill:
    """One server, and what is done to it."""

    service: Service
    port: int
    core: int | None
    pid: int
    progress: Progress

    def run(self, seconds: float, most: int, database: str) -> Borne:
        overloaded = min(seconds / 2, OVERLOADED)
        shares = USUAL * FILLS * seconds, HIGH * 0.7 * seconds, HIGH * 2 * overloaded
        watch = Watch(self.service.settings.data)
        watch.alone(min(seconds / 10, LOOKED))
        every = prepared(self.service, min(3 * FIRST + round(sum(shares)), most), self.progress)
        fill, steady_end = (max(round(len(every) * part / sum(shares)), 1) for part in (shares[0], sum(shares[:2])))
        tenth = max(fill // 10, 1)
        self._put(steady_end - fill)
        self.progress("what it takes", 0, 4)
        _, acknowledged = self._drive(every[:tenth], CONNECTIONS, 0.0)
        before = resident_mb(self.pid)
        last = max(fill - max(tenth, FIRST), tenth)
        _, kept = self._drive(every[tenth:last], CONNECTIONS, 0.0)
        full, more = self._drive(every[last:fill], CONNECTIONS, 0.0)
        filled_mb, capacity = resident_mb(self.pid), full.per_second
        acknowledged |= kept | more
        self.progress("70 % of what it takes", 1, 4)
        count = min(round(0.7 * capacity * seconds), steady_end - fill)
        spent = processor_seconds(self.pid)
        with watch.beside():
            steady, kept = self._drive(every[fill : fill + count], CONNECTIONS, 0.7 * capacity)
        after, busy = resident_mb(self.pid), (processor_seconds(self.pid) - spent) / steady.seconds
        acknowledged |= kept
        errors = sum(n for status, n in steady.statuses.items() if status != "201")
        self.progress("twice what it takes", 2, 4)
        crowd = every[fill + count :][: round(2 * capacity * overloaded)]
        over, kept = self._drive(crowd, CROWD, 2 * capacity)
        acknowledged |= kept
        self.progress("back to normal?", 3, 4)
        back = self._back(every[0])
        refused = sum(n for status, n in over.statuses.items() if status in ("429", "503"))
        other = sum(n for status, n in over.statuses.items() if status not in ("201", "429", "503"))
        goodput = over.statuses["201"] / max(over.taken_seconds, 1e-9) / capacity
        waiting = self.service.settings.intake.queue
        lost = len(acknowledged - set(self._stored()))
        growth = max(filled_mb, after) / before
        p99, each = steady.quantile(0.99), steady.stretches(0.99, max(round(0.7 * capacity * STRETCH), 2))
        promises = (
            Promise("errors at 70 %", errors, "0", errors == 0),
            Promise("p99 at 70 %, in ms", p99, f"≤ {STEADY_P99_MS:g} (idle machine)", p99 <= STEADY_P99_MS),
            Promise("neither taken nor told to come back", other, "0", other == 0),
            Promise("told to come back without a time", refused - over.told, "0", refused == over.told),
            Promise("turned away at twice capacity", refused, "> 0", refused > 0 or len(crowd) <= waiting),
            Promise("goodput at twice capacity", goodput, f"≥ {GOODPUT:g}", goodput >= GOODPUT),
            Promise("seconds until back to normal", back, f"≤ {BACK_SECONDS:g}", back <= BACK_SECONDS),
            Promise("acknowledged and lost", lost, "0", lost == 0),
            Promise("memory, × after a tenth of the filling", growth, f"≤ {GROWTH:g}", growth <= GROWTH),
        )
        return Borne(
            database, capacity, steady.seconds, steady.quantile(0.5), p99, each, busy, over.per_second,
            goodput, dict(steady.statuses + over.statuses), (before, filled_mb, after), promises, watch.machine,
        )  # fmt: skip

    def _put(self, count: int) -> None:
        """So many reports of phones that are never heard of: their tickets are random, as all are."""
        newest = self.service.rounds.newest()
        assert newest is not None
        with self.service.store.read() as connection:
            rows = [row for row in buckets_of(connection, newest.id) if row.runs]
        shape = [(row.bucket, bytes(report_bytes(parameters.from_plain(row.plain)))) for row in rows]
        world = random.Random(1)
        for at in range(0, count, PUT_AT_ONCE):
            self.progress("the round is filled", at, count)
            reports = [
                {"ticket": world.randbytes(TICKET_BYTES), "round": newest.id, "bucket": bucket, "body": body}
                for bucket, body in (shape[place % len(shape)] for place in range(at, min(at + PUT_AT_ONCE, count)))
            ]
            with self.service.store.write("ballast") as connection:
                self.service.store.insert_new(connection, schema.reports, reports, key=("ticket",))

    def _drive(self, requests: Sequence[bytes], connections: int, rate: float) -> tuple[Runs, set[str]]:
        runs = Runs()
        seen = drive(self.port, list(requests), connections, rate, self.core)
        runs.add(seen)
        return runs, {_ticket(requests[place]) for place in seen["acknowledged"]}

    def _back(self, request: bytes) -> float:
        """Seconds until so many answers in a row are quick; a retry of one upload, which is answered and not stored."""
        begin, calm = time.monotonic(), 0
        while calm < CALM and time.monotonic() - begin < 6 * BACK_SECONDS:
            seen = drive(self.port, [request] * CALM, 1, 0.0, self.core)
            quick = [1000 * one < QUICK_MS for one in seen["latencies"]]
            fine = sum(n for status, n in seen["statuses"].items() if status.startswith("2")) == CALM
            calm = CALM if fine and all(quick) else 0
            if not calm:
                time.sleep(0.5)
        return time.monotonic() - begin

    def _stored(self) -> Iterator[str]:
        """Tickets of all reports that the database holds."""
        for (ticket,) in self.service.store.rows(sa.select(schema.reports.c.ticket)):
            yield bytes(ticket).hex()


def _ticket(request: bytes) -> str:
    found = _TICKET.search(request)
    assert found is not None
    return found[1].decode()
