"""A server that is killed again and again. Acknowledged reports are compared with its tallies.

In every phase of every round a process is killed: the server right before or after a commit, or server, worker or
relay at a moment drawn from the seed. In every fourth round a server stalls, and a second one takes over.
"""

import itertools
import random
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa
import urllib3

from hushcall.errors import InvalidParameter, Refused, Unreachable
from hushcall.mechanisms import parameters
from hushcall.mechanisms.aggregator import Progress, quiet
from hushcall.protocol.randomness import seeded
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.seeds import report_seed
from hushcall.protocol.states import ANNOUNCING, COLLECTING, PUBLISHED
from hushcall.server.db import schema
from hushcall.server.db.store import open_store
from hushcall.server.serve import first_admin
from hushcall.server.settings import Settings, load_settings
from hushcall_lab.proofs import kill_points
from hushcall_lab.proofs.crash_clients import Admin, AnonymousClient, NamedClient
from hushcall_lab.proofs.kill_points import KillPoint
from hushcall_lab.proofs.processes import Program, Restarter, free_port, retry
from hushcall_lab.proofs.tally_check import Comparison, Sent, compare
from hushcall_lab.simulation.fleet import Operator
from hushcall_lab.simulation.rig import HOST, must_be_empty

CLIENTS, THREADS, AREAS = 36, 6, (202, 303, 404)
SUFFIX = 5_550_143
EARLY_DEATHS, SINGLE_TRIES, REPEATS, RELAY_DEATHS = 0.1, 0.1, 0.3, 0.25
"""How often a server dies while it starts, a client asks only once, a client repeats an acknowledged report, and a
random death hits the relay."""
WAVES = 3
"""Parts of the clients that report one after the other, with a death in each."""
CREATED = 201
STALL_EVERY = 4
TAKEOVER_SECONDS = 120.0
BOUNDARIES = {
    "open": ("open round", "audit", "audit outcome", "take a lease", "heartbeat"),
    "announce": ("intake",) * 3 + ("issue a token",) * 2 + ("heartbeat",),
    "decide": ("announcing to collecting",) * 3 + ("audit",),
    "report": ("intake",) * 6 + ("renew a lease",),
    "close": (
        *("collecting to closed", "seal bucket", "seal bucket", "decode bucket part", "closed to decoded"),
        *("decoded to published", "audit outcome"),
    ),
}
"""The commits of each phase, as often as the server dies at them."""
MAX_PASSINGS = {"intake": 4, "issue a token": CLIENTS // 4, "seal bucket": len(AREAS), "decode bucket part": len(AREAS)}
STALL = KillPoint("seal bucket: after commit", stalls=True)
T = TypeVar("T")
Work = Callable[[Callable[[], None]], None]


@dataclass
class CrashResult:
    """``foreign``: counted reports that nobody sent. ``places``: what died, and where. Restart times are in seconds."""

    database: str
    workers: int
    seed: int
    cycles: int = 0
    kills: int = 0
    relay_kills: int = 0
    rounds: int = 0
    acknowledged: int = 0
    anonymous: int = 0
    lost: int = 0
    twice: int = 0
    foreign: int = 0
    restart_median: float = 0.0
    restart_worst: float = 0.0
    seconds: float = 0.0
    places: dict[str, int] = field(default_factory=dict)
    broken: str = ""

    def add_round(self, comparison: Comparison) -> None:
        self.rounds += 1
        self.acknowledged += comparison.acknowledged
        self.lost += comparison.lost
        self.twice += comparison.twice
        self.foreign += comparison.foreign
        self.broken = comparison.broken

    def lines(self) -> list[str]:
        return [
            f"{self.cycles:,} cycles on {self.database}, {self.kills:,} kills ({self.relay_kills:,} of the relay), "
            f"{self.rounds:,} rounds: {self.acknowledged:,} reports acknowledged, {self.anonymous:,} of them without a "
            f"name, {self.lost} lost, {self.twice} counted twice, {self.foreign} made up. From nothing to "
            f"serving {self.restart_median:.1f} s at the median, {self.restart_worst:.1f} s at the most. "
            f"{self.seconds:,.0f} s.",
            *(f"  {count:>5,} × {place}" for place, count in self.places.items()),
            *([f"BROKEN: {self.broken} (seed {self.seed})"] if self.broken else []),
        ]


class _Run:
    def __init__(self, folder: Path, database: str, workers: int, seed: int, bug: str, waves: int) -> None:
        self.settings = _settings(folder, database, workers)
        self.folder, self.seed, self.bug, self.waves = folder, seed, bug, waves
        self.result = CrashResult("postgresql" if database else "sqlite", workers, seed)
        self.deaths = Counter[str]()  # by place
        self.rng = random.Random(f"crash {seed}")
        self.failure = "no answer"  # why no server took over
        self.operator_token = str(first_admin(self.settings))
        self.store = open_store(self.settings.url)
        must_be_empty(self.store)
        kill_points.arm(folder, None)
        port, relay_port = free_port(), int(self.settings.round.relay.rpartition(":")[2])
        # Random bytes of their own: the order of threads is not reproducible.
        self.server = Restarter(Program.server(self.settings, folder, port, bug), random.Random(f"crash {seed} server"))
        self.relay = Restarter(Program.relay(port, folder, relay_port), random.Random(f"crash {seed} relay"))
        operator = Operator(self.server.url, self.operator_token)
        self.admin = Admin(self.store, self.server, operator)
        pool = urllib3.PoolManager(maxsize=THREADS, timeout=60, retries=False)
        self.server.wait()
        tokens = operator.enrol(CLIENTS)
        self.server.early_death = self._early_death
        self.clients = [
            AnonymousClient(self.server.url, token, pool, f"{seed} {place}")
            if place % 2
            else NamedClient(self.server.url, token, pool)
            for place, token in enumerate(tokens)
        ]

    def _early_death(self) -> float | None:
        if self.server.rng.random() >= EARLY_DEATHS:
            return None
        self.deaths["while starting"] += 1
        return self.server.rng.random() * statistics.median(self.server.starts)

    @property
    def kills(self) -> int:
        return self.server.kills + self.relay.kills

    def retry(self, place: int, ask: Callable[[], T]) -> T:
        return retry([self.server, self.relay] if place % 2 else [self.server], ask)

    def phase(self, name: str, work: Work, steps: int, point: KillPoint | None = None) -> None:
        """Does ``work``, which calls its argument after each step. A process dies meanwhile, or at the end."""
        before, point = self.kills, point or self._draw_point(name)
        hits_relay = point is None and steps > 1 and self.rng.random() < RELAY_DEATHS
        kill_points.arm(self.folder, point)
        fatal_step, done = (self.rng.randrange(steps) if point is None else -1), itertools.count()

        def step() -> None:
            if next(done) == fatal_step:
                (self.relay if hits_relay else self.server).kill()

        if point is None and steps == 1:  # an operator's only step: by the clock
            killer = threading.Timer(self.rng.random(), self.server.kill)
            killer.start()
            work(lambda: None)
            killer.join()
        else:
            work(step)
        cause = f"{name}: {'the relay' if hits_relay else 'at random'}"
        if point and kill_points.fired(self.folder):
            cause = point.boundary
            self.server.kills += self.settings.server.workers > 1  # the restarter sees no workers
        kill_points.arm(self.folder, None)
        if self.kills == before and self.server.up.is_set():
            self.server.kill()
            cause = f"{name}: at its end"
        self._end_cycle(cause)

    def _end_cycle(self, place: str) -> None:
        self.deaths[place] += 1
        self.result.cycles += 1

    def _draw_point(self, phase: str) -> KillPoint | None:
        if self.rng.random() < 0.4:
            return None
        name = self.rng.choice(BOUNDARIES[phase])
        moment = self.rng.choice(("before", "after"))
        return KillPoint(f"{name}: {moment} commit", 1 + self.rng.randrange(MAX_PASSINGS.get(name, 1)))

    def round(self) -> None:
        self.phase("open", lambda _: self.admin.move(ANNOUNCING), 1)
        number = self.admin.newest()[0]
        tickets: dict[int, str] = {}
        info = retry([self.server], self.clients[0].transport.current_round)
        announce = partial(self._announce, info, tickets)
        self.phase("announce", lambda step: self._all_clients(range(CLIENTS), announce, step), CLIENTS)
        self.phase("decide", lambda _: self.admin.move(COLLECTING), 1)
        info = retry([self.server], self.clients[0].transport.current_round)
        sent = Sent(number, info.seed)
        report = partial(self._report, info, tickets, sent)
        for wave in range(self.waves):
            places = range(wave, CLIENTS, self.waves)
            early = None if wave else KillPoint("intake: before commit", 1 + self.rng.randrange(3))
            self.phase("report", lambda step: self._all_clients(places, report, step), len(places), early)  # noqa: B023
        if number % STALL_EVERY == 1 and self.settings.server.workers == 1:
            self._stall(number)
        else:
            self.phase("close", lambda _: self.admin.move(PUBLISHED), 1)
        self.result.add_round(compare(self.store, sent))
        acknowledged = {ticket.hex() for ticket in sent.acknowledged}
        self.result.anonymous += len({tickets[place] for place in range(1, CLIENTS, 2)} & acknowledged)

    def _all_clients(self, places: Sequence[int], ask: Callable[[int], None], step: Callable[[], None]) -> None:
        def run(place: int) -> None:
            ask(place)
            step()

        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(run, self.rng.sample(places, len(places))))

    def _announce(self, info: RoundInfo, tickets: dict[int, str], place: int) -> None:
        bucket = AREAS[place % len(AREAS)]
        tickets[place] = self.retry(place, lambda: self.clients[place].announce(info, bucket))

    def _report(self, info: RoundInfo, tickets: dict[int, str], sent: Sent, place: int) -> None:
        rng, bucket = random.Random(f"{self.seed} {info.round} {place}"), AREAS[place % len(AREAS)]
        ticket = bytes.fromhex(tickets[place])
        public = report_seed(info.seed, ticket)
        mechanism = parameters.from_plain((info.buckets or {})[str(bucket)]["parameters"])
        body = bytes(mechanism.privatise(SUFFIX + place, public, seeded(public)))
        sent.bodies[ticket] = bucket, body

        def put() -> int:
            return self.clients[place].put(info.round, tickets[place], body)

        try:
            if rng.random() < SINGLE_TRIES:
                self.server.wait()
                put()
            else:
                self.retry(place, put)
        except Unreachable:
            return  # the report may be stored or not
        except Refused as refusal:
            if refusal.status < 500:  # above: from the relay, or from a server that shuts down
                sent.refused[ticket] = refusal.problem
            return
        sent.acknowledged.add(ticket)
        if rng.random() < REPEATS and self.retry(place, put) == CREATED:  # as if the answer had been lost
            sent.forgotten.add(ticket)

    def _stall(self, number: int) -> None:
        """The server stalls while it seals, a second one takes its lease and ends the round, the first resumes."""
        kill_points.arm(self.folder, STALL)
        moving = threading.Thread(target=self.admin.move, args=[PUBLISHED], daemon=True)
        moving.start()
        self._wait_until(lambda: kill_points.fired(self.folder))
        folder = self.folder / "second"  # without a kill point
        folder.mkdir(exist_ok=True)
        kill_points.arm(folder, None)
        second = Program.server(self.settings, folder, free_port(), self.bug)
        second.start()
        try:
            second.ready()
            self._wait_until(lambda: self._leads(second))
            operator = Operator(f"http://{HOST}:{second.port}", self.operator_token)
            self._wait_until(lambda: self._published(number, operator))
            kill_points.resume(self.folder)
            moving.join(TAKEOVER_SECONDS)
        finally:
            kill_points.arm(self.folder, None)
            second.kill()
            self.server.kill()
        self.server.kills += 1
        self._end_cycle("stalled while sealing")

    def _published(self, number: int, operator: Operator) -> bool:
        try:
            if not self.admin.has_ended(number):
                self.admin.advance(number, operator)
        except Unreachable as error:
            self.failure = str(error)
        return self.admin.has_ended(number)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TAKEOVER_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise InvalidParameter("server", "take over", f"{self.failure}; round {self.admin.newest()}")
            time.sleep(0.05)

    def _leads(self, server: Program) -> bool:
        table = schema.leases.c
        rows = self.store.rows(sa.select(table.holder).where(table.name == "scheduler"))
        return any(str(row.holder).startswith(f"{server.process.pid}-") for row in rows)

    def end(self) -> None:
        for restarter in (self.relay, self.server):
            restarter.end()
        self.store.close()
        self.result.places = dict(sorted(self.deaths.items()))
        self.result.kills, self.result.relay_kills = self.kills, self.relay.kills
        self.result.restart_median = statistics.median(self.server.starts)
        self.result.restart_worst = max(self.server.starts)


def prove(
    cycles: int,
    seed: int = 1,
    database: str = "",
    bug: str = "",
    progress: Progress = quiet,
    waves: int = WAVES,
    workers: int = 1,
) -> CrashResult:
    """At least ``cycles`` kills, in complete rounds. Clients report in ``waves``, with a death in each."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hushcall-crash-", ignore_cleanup_errors=True) as folder:
        run = _Run(Path(folder), database, workers, seed, bug, waves)
        result = run.result
        try:
            while result.cycles < cycles and not result.broken:
                progress(result.cycles, cycles)
                run.round()
        except Refused as refusal:
            result.broken = f"an announcement that was acknowledged is gone: {refusal.problem}"
        finally:
            run.end()
    result.seconds = time.monotonic() - began
    return result


def _settings(folder: Path, database: str, workers: int) -> Settings:
    """A tally stays until the one after it is decoded."""
    return load_settings(
        alone=True,
        data=folder / "data",
        database=database,
        server={"workers": workers},
        round={
            "profile": "cheapest",
            "windows": [1, 2],
            "decoders": 0,
            "anonymous": True,
            "relay": f"http://{HOST}:{free_port()}",
        },
        list={"exports": []},
        intake={"per_device": 10_000, "sealed": 1_000_000, "linger_ms": 0},
    )
