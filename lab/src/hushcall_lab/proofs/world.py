"""A server of two workers and a few clients in one process, on a clock that is moved by hand.

Workers and clients are the real ones over one SQLite file. Network, disk, clocks and interruptions at the boundaries of
transactions are simulated. Everything that is drawn follows from the seed.
"""

from __future__ import annotations

import logging
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection, Engine

from hushcall.client.client import Client
from hushcall.client.reporting.consent import Limits
from hushcall.client.storage.store import DAY_SECONDS as DAY
from hushcall.client.storage.store import Store as ClientStore
from hushcall.errors import HushcallError, Refused, Unreachable
from hushcall.protocol.numbers import NumberingPlan, plans
from hushcall.protocol.randomness import seeded
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.wire import COVER
from hushcall.server.auth.devices import token_hash
from hushcall.server.db.engine import BUSY_SECONDS, ERRORS, make_engine
from hushcall.server.db.store import Store
from hushcall.server.http import readiness
from hushcall.server.http.readiness import Standing
from hushcall.server.ingest.ingest import Announce, Answer, Intake, Upload
from hushcall.server.logs import LOGGER, JsonLines
from hushcall.server.problems import Problem
from hushcall.server.rounds.round_status import round_info
from hushcall.server.scheduler import REFRESH_SECONDS, Scheduler
from hushcall.server.service import Service, open_service
from hushcall.server.settings import Settings
from hushcall_lab.proofs.promises import MEMORY

PLAN = NumberingPlan("simulated-1", 1, "US", (202, 303), 3, 200)
"""Sixteen hundred numbers: a round is decoded in a moment."""
START = 20_000 * DAY
CLIENTS = 4
SPAMMERS = tuple(str(PLAN.number(area, 543)) for area in PLAN.area_codes)
LIMITS = Limits(report=Fraction(16), window=Fraction(10_000), life=Fraction(100_000))
FULL, READ_ONLY = "PRAGMA max_page_count=1", "PRAGMA query_only=ON"
"""Make SQLite behave as on a full disk and on a read-only one."""


class Death(BaseException):
    """A worker dies. Nothing in it catches this."""


@dataclass
class Interruption:
    where: str  # before a write begins, before its commit, or after it
    write: str  # the name of a write without its numbers. Empty: any
    passings: int
    action: Callable[[], None]


@dataclass
class Boundaries:
    """Runs each interruption once, when its count of passings is up. Meanwhile none is run."""

    waiting: list[Interruption] = field(default_factory=list)
    busy: bool = False

    def __call__(self, where: str, name: str) -> None:
        if self.busy or not self.waiting:
            return
        write = re.sub(r" \d+", "", name)
        here = [entry for entry in self.waiting if entry.where == where and entry.write in ("", write)]
        for entry in here:
            entry.passings -= 1
        due = [entry for entry in here if entry.passings <= 0]
        self.waiting = [entry for entry in self.waiting if entry not in due]
        with self.quiet():
            for entry in due:
                entry.action()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        before, self.busy = self.busy, True
        try:
            yield
        finally:
            self.busy = before


@dataclass(frozen=True)
class LogLine:
    place: int | None  # the worker whose turn it was
    disk: str
    text: str


@dataclass(frozen=True)
class Turn:
    place: int
    ok: bool | None  # None where the worker died


class Journal(logging.Handler):
    """Log lines and turns in order. They are kept from other handlers."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.setFormatter(JsonLines())
        self.world, self.entries, self.logger = world, list[LogLine | Turn](), logging.getLogger(LOGGER)
        self._before = self.logger.handlers, self.logger.propagate, self.logger.level
        self.logger.handlers, self.logger.propagate = [self], False
        self.logger.setLevel(logging.INFO)

    def emit(self, record: logging.LogRecord) -> None:
        self.entries.append(LogLine(self.world.acting, self.world.broken_disk, self.format(record)))

    def take(self) -> list[LogLine | Turn]:
        entries, self.entries = self.entries, []
        return entries

    def close(self) -> None:
        self.logger.handlers, self.logger.propagate, level = self._before
        self.logger.setLevel(level)
        super().close()


class SimulatedStore(Store):
    world: World

    def now(self) -> float:
        return float(self.world.now)

    @contextmanager
    def write(self, name: str, timeout_seconds: float = BUSY_SECONDS) -> Iterator[Connection]:
        self.world.boundaries("before write", name)
        with super().write(name, timeout_seconds) as connection:
            if self.world.broken_disk:
                connection.exec_driver_sql(self.world.broken_disk)
            try:
                yield connection
            finally:
                if self.world.broken_disk:
                    connection.exec_driver_sql("PRAGMA query_only=OFF")
                    connection.exec_driver_sql("PRAGMA max_page_count=1073741823")


@dataclass
class Exchanges:
    buckets: dict[tuple[int, int], int] = field(default_factory=dict)
    tickets: dict[tuple[int, int], bytes] = field(default_factory=dict)
    bodies: dict[tuple[int, int], set[bytes]] = field(default_factory=dict)
    acknowledged: dict[tuple[int, int], tuple[bytes, bytes]] = field(default_factory=dict)
    broken: str = ""


class Line:
    url = "http://simulated"

    def __init__(self, world: World, client: int, token: str) -> None:
        self.world, self.client, self.token = world, client, token_hash(token)
        self.fates: list[str] = []

    def current_round(self) -> RoundInfo:
        service = self.world.worker_for(self.client).service
        try:
            row = service.rounds.newest()
            if row is None:
                raise Refused("no-round", 404, "none yet")
            return round_info(service.store, row, service.now)
        except ERRORS:
            raise Unreachable("the database is in trouble") from None

    def announce(self, round_: int, bucket: int) -> str:
        exchanges, key = self.world.exchanges, (self.client, round_)
        exchanges.buckets[key] = bucket
        ticket = bytes.fromhex(self._carry(Announce(self.token, round_, bucket)).body["ticket"])
        if exchanges.tickets.setdefault(key, ticket) != ticket:
            exchanges.broken = "a client was given two tickets for one round"
        return ticket.hex()

    def send(self, round_: int, ticket: str, report: bytes) -> None:
        exchanges, key = self.world.exchanges, (self.client, round_)
        covers = report.startswith(COVER)
        if not covers:
            exchanges.bodies.setdefault(key, set()).add(report)
        self._carry(Upload(self.token, round_, bytes.fromhex(ticket), report))
        if not covers:
            exchanges.acknowledged[key] = bytes.fromhex(ticket), report

    def _carry(self, message: Announce | Upload) -> Answer:
        fate = self.fates.pop(0) if self.fates else ""
        if fate == "lost":
            raise Unreachable("lost on the way")
        if fate == "delayed":
            self.world.delayed.append((message, self.client))
            raise Unreachable("too late")
        answer = self.world.deliver(message, self.client)
        if fate == "doubled":
            self.world.deliver(message, self.client)
        if fate == "unanswered":
            raise Unreachable("its answer was lost")
        if isinstance(answer, Problem):
            raise Refused(answer.name, answer.kind.status, answer.name)
        return answer


@dataclass
class Worker:
    world: World
    place: int
    skew: int = 0

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        world = self.world
        engine = _engine(world.settings.url, self.place)
        store = SimulatedStore(engine, lambda name: world.boundaries(*reversed(name.rsplit(": ", 1))))
        object.__setattr__(store, "world", world)
        world.worker_starts += 1
        name = f"worker {world.worker_starts}"
        rand = seeded(f"{world.seed} {name}".encode())
        self.service = Service(world.settings, store, rand, lambda: float(world.now + self.skew), worker=name)
        self.intake = Intake(store, self.service.worker)
        self.scheduler = Scheduler(self.service)
        self.scheduler.every_seconds = REFRESH_SECONDS  # its turns are hours apart: each looks at what expires

    def restart(self) -> None:
        self.world.journal.entries.append(Turn(self.place, ok=None))
        self.service.store.close()
        self.start()

    def run(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except Death:
            self.restart()
            return None


@cache
def _engine(url: str, _: int) -> Engine:
    """A worker's engine. After a close it connects anew, and its compiled statements serve other runs."""
    return make_engine(url)


@cache
def _template() -> tuple[Path, tuple[str, ...], Any]:
    """A server's folder with its clients enrolled, their tokens, and the object that keeps the folder."""
    plans._TAKEN.setdefault(PLAN.name, (b"", PLAN))
    parent = tempfile.TemporaryDirectory(prefix="hushcall-faults-", dir=MEMORY)
    folder = Path(parent.name) / "template"
    service = open_service(_settings(folder), seeded(b"simulated"), lambda: float(START))
    tokens = tuple(token for _, token in service.devices.enrol_many(CLIENTS, START))
    service.close()
    return folder, tokens, parent


def _settings(folder: Path) -> Settings:
    round_ = {"profile": "cheapest", "plan": PLAN.name, "windows": [1, 2], "period": DAY, "decoders": 0}
    return Settings.model_validate({"data": folder, "round": round_, "list": {"exports": [], "window": 2}})


class World:
    def __init__(self, seed: int) -> None:
        template, tokens, _ = _template()
        self.seed, self.now, self.worker_starts = seed, START, 0
        self.rng = random.Random(f"world {seed}")
        self.boundaries, self.exchanges, self.broken_disk = Boundaries(), Exchanges(), ""
        self.delayed: list[tuple[Announce | Upload, int]] = []
        self.acting: int | None = None  # the worker whose turn it is
        self.journal = Journal(self)
        self.folder = template.parent / "world"  # the same for all runs of a process: see _engine
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(template, self.folder)
        self.settings = _settings(self.folder)
        self.workers = [Worker(self, 0), Worker(self, 1)]
        self.lines = [Line(self, place, token) for place, token in enumerate(tokens)]
        self.client_skew = [0] * CLIENTS
        self.clients = [self._client(place) for place in range(CLIENTS)]

    def _client(self, place: int) -> Client:
        store = ClientStore.in_memory()
        LIMITS.save(store)
        rand = seeded(f"{self.seed} phone {place}".encode())
        return Client(store, self.lines[place], PLAN, rand, lambda: float(self.now + self.client_skew[place]))

    def worker_for(self, client: int) -> Worker:
        """The one that a client's connection reaches, by its number and the hour."""
        return self.workers[(client + self.now // 3600) % len(self.workers)]

    def deliver(self, message: Announce | Upload, client: int) -> Answer | Problem:
        worker = self.worker_for(client)
        try:
            return worker.intake.accept([message])[0]
        except ERRORS as error:
            raise Unreachable(f"the database is in trouble: {type(error).__name__}") from None
        except Death:
            worker.restart()
            raise Unreachable("the server died") from None

    def deliver_delayed(self) -> None:
        delayed, self.delayed = self.delayed, []
        self.rng.shuffle(delayed)
        for message, client in delayed:
            with suppress(Unreachable):
                self.deliver(message, client)

    def turn(self, place: int) -> bool:
        worker, before = self.workers[place], self.acting
        self.acting = place
        try:
            ok = worker.run(worker.scheduler.turn)
        finally:
            self.acting = before
        if ok is not None:
            self.journal.entries.append(Turn(place, ok))
        return bool(ok)

    def visit(self, place: int) -> None:
        with suppress(HushcallError):  # it looks again later
            self.clients[place].report()

    def standing(self, worker: Worker) -> Standing:
        with self.boundaries.quiet():
            service = worker.service
            return readiness.check(service.store, service.settings.keys, service.worker, service.clock())

    def close(self) -> None:
        self.journal.close()
        for worker in self.workers:
            worker.service.close()
        for client in self.clients:
            client.store.close()
        shutil.rmtree(self.folder, ignore_errors=True)
