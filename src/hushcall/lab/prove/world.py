"""A server of two workers and a few phones in one process, on a clock that is moved by hand: nothing waits.

The workers are the server's own service and scheduler over one SQLite file, the phones the library's own. Between them
are a network that loses, doubles, delays and reorders, a disk that fails, clocks that are wrong, and interruptions:
right before a transaction begins and right after it is committed somebody else may act. What a seed draws is the same
whenever it is run.
"""

from __future__ import annotations

import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection, Engine

from hushcall.errors import HushcallError, Refused, Unreachable
from hushcall.lab.prove.journal import Journal
from hushcall.numbers import NumberingPlan, plans
from hushcall.phone.home.store import Store as PhoneStore
from hushcall.phone.phone import Phone
from hushcall.phone.reporting.ledger import DAY, Limits
from hushcall.privacy.coins import seeded
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.wire import COVER
from hushcall.server.access.tokens import token_hash
from hushcall.server.db.store import BUSY_SECONDS, Store, make_engine
from hushcall.server.db.trouble import ERRORS
from hushcall.server.http import readiness
from hushcall.server.http.readiness import Standing
from hushcall.server.intake.intake import Announce, Answer, Intake, Upload
from hushcall.server.problems import Problem
from hushcall.server.rounds.round_status import round_info
from hushcall.server.scheduler import REFRESH_EVERY, Scheduler
from hushcall.server.service import Service, open_service
from hushcall.server.settings import Settings

PLAN = NumberingPlan("simulated-1", 1, "US", (202, 303), 3, 200)
"""Sixteen hundred numbers: a round is decoded in a moment."""
START = 20_000 * DAY
PHONES = 4
SPAMMERS = tuple(str(PLAN.number(area, 543)) for area in PLAN.area_codes)
LIMITS = Limits(report=Fraction(16), window=Fraction(10_000), life=Fraction(100_000))
MEMORY = Path("/dev/shm")  # noqa: S108  (a folder of this run's own is made in it)


FULL, READ_ONLY = "PRAGMA max_page_count=1", "PRAGMA query_only=ON"
"""What a transaction of SQLite is told where the disk has no room for one page more, and where it takes nothing."""


class Broken(AssertionError):
    """A promise was not kept."""


class Death(BaseException):
    """A worker is no more: nothing in it catches this."""


@dataclass
class Appointment:
    """Something that happens at a boundary: before a write begins, before its commit, or after it."""

    where: str
    what: str  # the name of a write without its numbers; empty: any
    passings: int
    action: Callable[[], None]


@dataclass
class Boundaries:
    """What is to happen at the next boundaries: each appointment is kept once, when its count of passings is up."""

    waiting: list[Appointment] = field(default_factory=list)
    busy: bool = False

    def __call__(self, where: str, name: str) -> None:
        """Somebody passes a place. What happens there is not interrupted in its turn."""
        if self.busy or not self.waiting:
            return
        what = re.sub(r" \d+", "", name)
        here = [one for one in self.waiting if one.where == where and one.what in ("", what)]
        for one in here:
            one.passings -= 1
        due = [one for one in here if one.passings <= 0]
        self.waiting = [one for one in self.waiting if one not in due]
        self.busy = True
        try:
            for one in due:
                one.action()
        finally:
            self.busy = False


class SimulatedStore(Store):
    """The server's store, with a clock of its own and somebody who interrupts."""

    world: World

    def now(self) -> float:
        """The database's clock: nobody sets that one wrong."""
        return float(self.world.now)

    @contextmanager
    def write(self, name: str, patience: float = BUSY_SECONDS) -> Iterator[Connection]:
        """As ever; right before and after it others may act."""
        self.world.boundaries("before write", name)
        with super().write(name, patience) as connection:
            if self.world.broken_disk:
                connection.exec_driver_sql(self.world.broken_disk)
            try:
                yield connection
            finally:
                if self.world.broken_disk:
                    connection.exec_driver_sql("PRAGMA query_only=OFF")
                    connection.exec_driver_sql("PRAGMA max_page_count=1073741823")


@dataclass
class Message:
    """Something on its way to the server, and what is to become of it."""

    asked: Announce | Upload
    phone: int


@dataclass
class Heard:
    """What phones sent and were told, by phone and round."""

    tickets: dict[tuple[int, int], bytes] = field(default_factory=dict)
    bodies: dict[tuple[int, int], set[bytes]] = field(default_factory=dict)
    acknowledged: dict[tuple[int, int], tuple[bytes, bytes]] = field(default_factory=dict)
    trouble: str = ""


class Line:
    """A phone's way to the server: what the network does to the next messages is in ``fate``."""

    url = "http://simulated"

    def __init__(self, world: World, phone: int, token: str) -> None:
        self.world, self.phone, self.token = world, phone, token_hash(token)
        self.fate: list[str] = []

    def current_round(self) -> RoundInfo:
        """What the server says about the round that is on."""
        worker = self.world.worker_for(self.phone)
        try:
            row = worker.service.rounds.newest()
            if row is None:
                raise Refused("no-round", 404, "none yet")
            return round_info(worker.service.store, row, worker.service.now)
        except ERRORS:
            raise Unreachable("the database is in trouble") from None

    def announce(self, round_: int, bucket: int) -> str:
        """Announce, over a network."""
        self.world.buckets[self.phone, round_] = bucket
        answer = self._carried(Announce(self.token, round_, bucket))
        ticket = bytes.fromhex(answer.body["ticket"])
        if self.world.heard.tickets.setdefault((self.phone, round_), ticket) != ticket:
            self.world.heard.trouble = "a phone was given two tickets for one round"
        return ticket.hex()

    def send(self, round_: int, ticket: str, report: bytes) -> None:
        """Hand a report in, over a network."""
        if not report.startswith(COVER):
            self.world.heard.bodies.setdefault((self.phone, round_), set()).add(report)
        self._carried(Upload(self.token, round_, bytes.fromhex(ticket), report))
        if not report.startswith(COVER):
            self.world.heard.acknowledged[self.phone, round_] = bytes.fromhex(ticket), report

    def _carried(self, asked: Announce | Upload) -> Answer:
        fate = self.fate.pop(0) if self.fate else ""
        if fate == "lost":
            raise Unreachable("lost on the way")
        if fate == "delayed":
            self.world.on_the_way.append(Message(asked, self.phone))
            raise Unreachable("too late")
        answer = self.world.deliver(asked, self.phone)
        if fate == "doubled":
            self.world.deliver(asked, self.phone)
        if fate == "unanswered":
            raise Unreachable("its answer was lost")
        if isinstance(answer, Problem):
            raise Refused(answer.name, answer.kind.status, answer.name)
        return answer


@dataclass
class Worker:
    """One process of the server: it may die at any boundary, and begins anew."""

    world: World
    place: int
    skew: int = 0

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Begin, over what is on disk."""
        world = self.world
        store = SimulatedStore(
            _engine(world.settings.url, self.place), lambda name: world.boundaries(*reversed(name.rsplit(": ", 1)))
        )
        object.__setattr__(store, "world", world)
        world.workers_made += 1
        coins = seeded(f"{world.seed} worker {world.workers_made}".encode())

        def clock() -> float:
            return float(world.now + self.skew)

        self.service = Service(world.settings, store, coins, clock, worker=f"worker {world.workers_made}")
        self.intake = Intake(store, self.service.worker)
        self.scheduler = Scheduler(self.service)
        self.scheduler.tick = REFRESH_EVERY  # its turns are hours apart: in each it looks at what expires

    def die(self) -> None:
        """And begin anew."""
        self.world.journal.died(self.place)
        self.service.store.close()
        self.start()

    def alive(self, work: Callable[[], Any]) -> Any:
        """Do something in it; if it dies of that, it begins anew."""
        try:
            return work()
        except Death:
            self.die()
            return None


@cache
def _engine(url: str, _: int) -> Engine:
    """A worker's engine. One that was closed connects anew, and knows the statements that it compiled in other runs."""
    return make_engine(url)


@cache
def _template() -> tuple[Path, tuple[str, ...], Any]:
    """A server's folder with its phones enrolled, made once; and what keeps it."""
    plans._TAKEN.setdefault(PLAN.name, (b"", PLAN))
    kept = tempfile.TemporaryDirectory(prefix="hushcall-faults-", dir=MEMORY if MEMORY.is_dir() else None)
    folder = Path(kept.name) / "template"
    service = open_service(_settings(folder), seeded(b"simulated"), lambda: float(START))
    tokens = tuple(token for _, token in service.devices.enrol_many(PHONES, START))
    service.close()
    return folder, tokens, kept


def _settings(folder: Path) -> Settings:
    return Settings.model_validate(
        {
            "data": folder,
            "round": {"profile": "cheapest", "plan": PLAN.name, "windows": [1, 2], "period": DAY, "decoders": 0},
            "list": {"exports": [], "window": 2},
        }
    )


class World:
    """Everything that a run has."""

    def __init__(self, seed: int) -> None:
        template, tokens, _ = _template()
        self.seed, self.now, self.workers_made = seed, START, 0
        self.dice = random.Random(f"world {seed}")
        self.boundaries, self.heard, self.broken_disk = Boundaries(), Heard(), ""
        self.on_the_way: list[Message] = []
        self.acting: int | None = None  # the worker whose turn it is
        self.journal = Journal(lambda: (self.acting, self.broken_disk))
        self.buckets: dict[tuple[int, int], int] = {}  # what a phone announced in a round
        self.folder = template.parent / "world"  # the same for all runs of a process: see _engine
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(template, self.folder)
        self.settings = _settings(self.folder)
        self.workers = [Worker(self, 0), Worker(self, 1)]
        self.lines = [Line(self, place, token) for place, token in enumerate(tokens)]
        self.phone_skew = [0] * PHONES
        self.phones = [self._phone(place) for place in range(PHONES)]

    def _phone(self, place: int) -> Phone:
        store = PhoneStore.in_memory()
        LIMITS.save(store)

        def clock() -> float:
            return float(self.now + self.phone_skew[place])

        return Phone(store, self.lines[place], PLAN, seeded(f"{self.seed} phone {place}".encode()), clock)

    def worker_for(self, phone: int) -> Worker:
        """Which worker a phone's connection ends at: by its number, and the hour."""
        return self.workers[(phone + self.now // 3600) % len(self.workers)]

    def deliver(self, asked: Announce | Upload, phone: int) -> Answer | Problem:
        """Let a worker take an upload in; its answer, once it is committed."""
        worker = self.worker_for(phone)
        try:
            return worker.intake.accept([asked])[0]
        except ERRORS as error:
            raise Unreachable(f"the database is in trouble: {type(error).__name__}") from None
        except Death:
            worker.die()
            raise Unreachable("the server died") from None

    def arrive(self) -> None:
        """What was delayed comes now, in any order; nobody waits for its answer any more."""
        late, self.on_the_way = self.on_the_way, []
        self.dice.shuffle(late)
        for message in late:
            try:
                self.deliver(message.asked, message.phone)
            except Unreachable:
                continue

    def turn(self, place: int) -> bool:
        """What one worker's scheduler does when its second is up; whether all went well."""
        worker, before = self.workers[place], self.acting
        self.acting = place
        try:
            went_well = worker.alive(worker.scheduler.turn)
        finally:
            self.acting = before
        if went_well is not None:
            self.journal.turned(place, went_well=went_well)
        return bool(went_well)

    def visit(self, place: int) -> None:
        """One phone looks at the round."""
        try:
            self.phones[place].report()
        except HushcallError:
            return  # it looks again

    def standing(self, worker: Worker) -> Standing:
        """What a worker says of itself to whoever asks /readyz. Nothing else happens meanwhile."""
        before, self.boundaries.busy = self.boundaries.busy, True
        try:
            return readiness.looked_at(worker.service)
        finally:
            self.boundaries.busy = before

    def close(self) -> None:
        """Let everything go."""
        self.journal.close()
        for worker in self.workers:
            worker.service.close()
        for phone in self.phones:
            phone.store.close()
        shutil.rmtree(self.folder, ignore_errors=True)
