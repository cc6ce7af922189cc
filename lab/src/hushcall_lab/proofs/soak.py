"""A server for a long time: short rounds that its own scheduler moves, steady traffic, and kills.

It is killed in each round of the first and of the last sixth of the time. One process lives between them. Its figures
after a quarter of its life, ten minutes of an hour, are compared with those of the last eighth.
"""

from __future__ import annotations

import math
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
import urllib3

from hushcall.errors import InvalidParameter, Refused
from hushcall.mechanisms import parameters
from hushcall.mechanisms.aggregator import Progress, quiet
from hushcall.protocol.randomness import seeded
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.seeds import report_seed
from hushcall.protocol.states import ANNOUNCING, COLLECTING
from hushcall.server.db import schema
from hushcall.server.db.store import Store, open_store
from hushcall.server.serve import first_admin
from hushcall.server.settings import Settings, load_settings
from hushcall_lab import usage
from hushcall_lab.proofs import kill_points
from hushcall_lab.proofs.crash_clients import Admin, NamedClient
from hushcall_lab.proofs.pages import PAGES
from hushcall_lab.proofs.processes import Program, Restarter, free_port, retry
from hushcall_lab.proofs.tally_check import Sent, compare
from hushcall_lab.simulation.fleet import Operator
from hushcall_lab.simulation.rig import must_be_empty

PHONES, AREAS = 80, (202, 303)
SUFFIX, ROUNDS_OF_A_SPAMMER = 5_550_143, 14
KILLING, SETTLED, LATE, SPAN = 1 / 6, 1 / 3, 3 / 4, 1 / 12
"""Shares of the time: kills until the first and from one minus it on; the figures that are compared begin at the next
two, and last for the last."""
MARGIN_SECONDS, POLL_SECONDS, SAMPLE_SECONDS = 1.5, 0.3, 1.0
MAX_GROWTH, MAX_MORE_DESCRIPTORS, MAX_DISK_KB_A_ROUND, MAX_LINES = 1.05, 2.0, 64.0, 1.1
LAST_ROUNDS_SECONDS = 120.0


@dataclass(frozen=True)
class Sample:
    """Of the server and its child processes. ``at`` in seconds since the beginning."""

    at: float
    round: int
    memory_mb: float
    descriptors: int
    disk_kb: float
    log_lines: int
    processor_seconds: float


@dataclass(frozen=True)
class Level:
    """The medians of a stretch of time."""

    memory_mb: float
    descriptors: float
    disk_kb: float
    round: float
    log_lines_a_round: float

    @classmethod
    def of(cls, samples: Sequence[Sample], log_lines_a_round: float) -> Level:
        names = ("memory_mb", "descriptors", "disk_kb", "round")
        middle = {name: statistics.median(getattr(sample, name) for sample in samples) for name in names}
        return cls(**middle, log_lines_a_round=log_lines_a_round)


def _log_lines_a_round(samples: Sequence[Sample]) -> float:
    """From the beginning of a round to that of another."""
    first = list({sample.round: sample for sample in reversed(samples)}.values())
    newest, oldest = first[0], first[-1]
    return (newest.log_lines - oldest.log_lines) / max(newest.round - oldest.round, 1)


@dataclass
class SoakResult:
    database: str
    workers: int
    period_seconds: int
    seconds: float
    rounds: int = 0
    kills: int = 0
    acknowledged: int = 0
    lost: int = 0
    twice: int = 0
    found: int = 0
    restart_median: float = 0.0
    processor_share: float = 0.0
    settled: Level | None = None
    late: Level | None = None
    broken: str = ""

    def judge(self, samples: Sequence[Sample]) -> None:
        def between(start: float, end: float) -> list[Sample]:
            return [sample for sample in samples if start <= sample.at / self.seconds < end]

        end = LATE + SPAN
        middle = (SETTLED + end) / 2
        if not (between(SETTLED, SETTLED + SPAN) and between(LATE, end)):
            self.broken = self.broken or "the server was away when its figures were to be read"
            return
        self.settled = Level.of(between(SETTLED, SETTLED + SPAN), _log_lines_a_round(between(SETTLED, middle)))
        self.late = Level.of(between(LATE, end), _log_lines_a_round(between(middle, end)))
        life = between(SETTLED, end)
        processor_seconds = life[-1].processor_seconds - life[0].processor_seconds
        self.processor_share = processor_seconds / (life[-1].at - life[0].at)
        facts = {
            f"memory grew from {self.settled.memory_mb:.0f} to {self.late.memory_mb:.0f} MB": self.growth > MAX_GROWTH,
            f"descriptors grew from {self.settled.descriptors:g} to {self.late.descriptors:g}": (
                self.late.descriptors > self.settled.descriptors + MAX_MORE_DESCRIPTORS
            ),
            f"a round left {self.disk_kb_a_round:.0f} kB": self.disk_kb_a_round > MAX_DISK_KB_A_ROUND,
            f"log lines a round went from {self.settled.log_lines_a_round:.1f} to {self.late.log_lines_a_round:.1f}": (
                self.late.log_lines_a_round > MAX_LINES * self.settled.log_lines_a_round + 1
            ),
        }
        self.broken = self.broken or "; ".join(text for text, applies in facts.items() if applies)

    @property
    def growth(self) -> float:
        assert self.settled
        assert self.late
        return self.late.memory_mb / self.settled.memory_mb

    @property
    def disk_kb_a_round(self) -> float:
        assert self.settled
        assert self.late
        return (self.late.disk_kb - self.settled.disk_kb) / max(self.late.round - self.settled.round, 1)

    def lines(self) -> list[str]:
        first = (
            f"{self.rounds} rounds of {self.period_seconds} s on {self.database} in {self.seconds:,.0f} s, "
            f"{self.kills} kills: {self.acknowledged:,} reports acknowledged, {self.lost} lost, {self.twice} counted "
            f"twice, a number found {self.found} times"
        )
        if self.settled and self.late:
            first += (
                f". From a quarter of a process's life to its end: memory {self.settled.memory_mb:.0f} to "
                f"{self.late.memory_mb:.0f} MB ({self.growth - 1:+.1%}), descriptors {self.settled.descriptors:g} to "
                f"{self.late.descriptors:g}, disk {self.disk_kb_a_round:+.1f} kB a round, log lines a round "
                f"{self.settled.log_lines_a_round:.1f} to {self.late.log_lines_a_round:.1f}; "
                f"{self.processor_share:.0%} of a core"
            )
        return [first, *([f"BROKEN: {self.broken}"] if self.broken else [])]


class _Run:
    def __init__(self, folder: Path, result: SoakResult, database: str, seed: int, progress: Progress) -> None:
        self.result, self.progress, self.seed = result, progress, seed
        self.settings = _settings(folder, database, result)
        self.rng = random.Random(f"soak {seed}")
        token = str(first_admin(self.settings))
        self.store: Store = open_store(self.settings.url)
        must_be_empty(self.store)
        kill_points.arm(folder, None)
        program = Program.server(self.settings, folder, free_port())
        self.server = Restarter(program, random.Random(f"soak {seed} server"))
        operator = Operator(self.server.url, token)
        self.admin = Admin(self.store, self.server, operator)
        pool = urllib3.PoolManager(maxsize=2, timeout=60, retries=False)
        self.server.wait()
        self.clients = [NamedClient(self.server.url, token, pool) for token in operator.enrol(PHONES)]
        self.pool, self.asked, self.newest = pool, 0, 0
        self.open: list[Sent] = []
        self.samples: list[Sample] = []
        self.began, self.next_sample = time.monotonic(), 0.0

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def round(self) -> None:
        info = self._wait_for(ANNOUNCING, self.newest + 1)
        self.newest = info.round
        self._kill_sometime()
        tickets: dict[int, str] = {}
        for place in self._paced(info.collects - info.server_time):
            bucket = AREAS[place % len(AREAS)]
            try:
                tickets[place] = retry([self.server], lambda: self.clients[place].announce(info, bucket))  # noqa: B023
            except Refused:
                break  # the server was away, and announcing is over
        info = self._wait_for(COLLECTING, info.round)
        if info.round == self.newest and info.state == COLLECTING:
            self.open.append(self._report(info, tickets))
        self._compare()

    def _report(self, info: RoundInfo, tickets: dict[int, str]) -> Sent:
        sent = Sent(info.round, info.seed)
        for place in self._paced(info.closes - info.server_time):
            bucket = AREAS[place % len(AREAS)]
            row = (info.buckets or {}).get(str(bucket))
            if row is None or place not in tickets:
                continue
            ticket = bytes.fromhex(tickets[place])
            public = report_seed(info.seed, ticket)
            suffix = SUFFIX + (info.round // ROUNDS_OF_A_SPAMMER if place % 4 else place)
            body = bytes(parameters.from_plain(row["parameters"]).privatise(suffix, public, seeded(public)))
            sent.bodies[ticket] = bucket, body
            try:
                retry([self.server], lambda: self.clients[place].put(info.round, tickets[place], body))  # noqa: B023
            except Refused:
                break
            sent.acknowledged.add(ticket)
        return sent

    def _paced(self, seconds: float) -> Iterator[int]:
        """The places of all phones, evenly over a phase. A page is requested after every fourth."""
        began = time.monotonic()
        for place in range(PHONES):
            due = began + max(seconds - MARGIN_SECONDS, 0) * place / PHONES
            time.sleep(max(due - time.monotonic(), 0))
            if self.server.up.is_set() and self.elapsed > self.next_sample:
                self._sample()
            yield place
            if place % 4 == 0:
                self._look()

    def _look(self) -> None:
        self.asked += 1
        with suppress(urllib3.exceptions.HTTPError):  # it is being killed
            self.pool.request("GET", self.server.url + PAGES[self.asked % len(PAGES)])

    def _sample(self) -> None:
        self.next_sample = self.elapsed + SAMPLE_SECONDS
        pids = usage.family(self.server.program.process.pid)
        memory = [usage.resident_mb(pid) for pid in pids]
        if not any(map(math.isnan, memory)):  # else a process has just ended
            log = self.server.program.log.read_bytes().count(b"\n")
            opened, processor = sum(map(usage.descriptors, pids)), sum(map(usage.processor_seconds, pids))
            sample = Sample(self.elapsed, self.newest, sum(memory), opened, self._disk_kb(), log, processor)
            self.samples.append(sample)
        self.progress(round(self.elapsed), round(self.result.seconds))

    def _disk_kb(self) -> float:
        if self.store.engine.dialect.name == "postgresql":
            (row,) = self.store.rows(sa.select(sa.func.pg_database_size(sa.func.current_database())))
            return float(row[0]) / 1000
        sizes = [0]
        for path in self.settings.data.rglob("*"):
            with suppress(OSError):  # a file of this moment
                sizes.append(path.stat().st_size)
        return sum(sizes) / 1000

    def _kill_sometime(self) -> None:
        share = self.elapsed / self.result.seconds
        if KILLING <= share < 1 - KILLING:
            return
        timer = threading.Timer(self.rng.random() * self.result.period_seconds, self.server.kill)
        timer.daemon = True
        timer.start()

    def _wait_for(self, state: str, number: int) -> RoundInfo:
        """The round document once round ``number``, or a later one, has come to a state, or ``number`` is over."""
        deadline = time.monotonic() + LAST_ROUNDS_SECONDS + 3 * self.result.period_seconds
        while time.monotonic() < deadline:
            with suppress(Refused):  # no round yet
                info = retry([self.server], self.clients[0].transport.current_round)
                arrived = info.round >= number and info.state == state
                if arrived or (info.round > number and state == COLLECTING):
                    return info
            time.sleep(POLL_SECONDS)
        raise InvalidParameter("round", f"come to be {state}", self.admin.newest())

    def _compare(self) -> None:
        for sent in [sent for sent in self.open if self.admin.has_ended(sent.round)]:
            self.open.remove(sent)
            comparison, result = compare(self.store, sent), self.result
            result.rounds += 1
            result.acknowledged += comparison.acknowledged
            result.lost += comparison.lost
            result.twice += comparison.twice
            result.broken = result.broken or comparison.broken

    def finish(self) -> None:
        deadline = time.monotonic() + LAST_ROUNDS_SECONDS
        while self.open and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            self._compare()
        if self.open:
            self.result.broken = f"round {self.open[0].round} was not published"

    def end(self) -> None:
        (row,) = self.store.rows(sa.select(sa.func.count()).select_from(schema.hitters))
        self.result.found = int(row[0])
        self.server.end()
        self.result.kills, self.result.restart_median = self.server.kills, statistics.median(self.server.starts)
        self.store.close()


def prove(
    seconds: float,
    period_seconds: int = 20,
    seed: int = 1,
    database: str = "",
    workers: int = 1,
    progress: Progress = quiet,
) -> SoakResult:
    result = SoakResult("postgresql" if database else "sqlite", workers, period_seconds, seconds)
    with tempfile.TemporaryDirectory(prefix="hushcall-soak-", ignore_cleanup_errors=True) as folder:
        run = _Run(Path(folder), result, database, seed, progress)
        try:
            while run.elapsed < seconds and not result.broken:
                run.round()
            run.finish()
        finally:
            run.end()
    if not result.broken:
        result.judge(run.samples)
    return result


def _settings(folder: Path, database: str, result: SoakResult) -> Settings:
    """As shipped, but for the length of a round. An appeal or sync of this size has no part in what may grow."""
    return load_settings(
        alone=True,
        data=folder / "data",
        database=database,
        server={"workers": result.workers},
        round={"period": result.period_seconds},
    )
