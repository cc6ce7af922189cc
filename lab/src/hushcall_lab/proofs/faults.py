"""Server and clients on a virtual clock, random faults, and promises that are checked at every step.

A run is two days of ordinary life (:mod:`~.world`) with faults, then quiet days in which every round must come to its
end. Each fault's details follow from a number of its own: a run can be repeated, and shortened by leaving faults out.
"""

import multiprocessing
import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import sqlalchemy as sa

from hushcall.client.storage.store import DAY_SECONDS as DAY
from hushcall.errors import HushcallError
from hushcall.mechanisms.aggregator import Progress, quiet
from hushcall.protocol.states import HELD, PUBLISHED
from hushcall.server.db.engine import ERRORS
from hushcall.server.publishing import exclusions
from hushcall.server.rounds import holding
from hushcall.server.signing import ceremony
from hushcall_lab.proofs.invariants import Invariants
from hushcall_lab.proofs.promises import Broken, planted, require
from hushcall_lab.proofs.server_bugs import FAULT_BUGS
from hushcall_lab.proofs.world import CLIENTS, FULL, PLAN, READ_ONLY, SPAMMERS, Death, Interruption, World

HOURS = (1, 6, 13, 18, 23)
"""The hours of a day at which workers and clients act. Announcing ends at 12, collecting at 22.8."""
DAYS, QUIET_DAYS = 2, 2
QUIET_HOURS = (1, 13, 23)
MAX_FAULTS, CHUNK = 12, 10
NETWORK = ("lost", "unanswered", "doubled", "delayed")
SKEW_SECONDS = (-2 * DAY, -7200, -90, 90, 7200, 10 * DAY)
LEASE_LAPSE_SECONDS = 60
DELAY_SECONDS = (20, LEASE_LAPSE_SECONDS, 1800)
MAX_PASSINGS = {"": 12, "take a lease": 4}
"""How often a write may pass before it is interrupted. Others: 2."""
BETWEEN = ("before write", "after commit")
"""The boundaries at which nobody holds a lock."""
WRITES = (
    *("open round", "intake", "announcing to collecting", "collecting to closed", "seal bucket", "decode bucket part"),
    *("closed to decoded", "decoded to published", "publish a list", "take a lease", "appeal"),
)
"""Names of transactions, without numbers."""
LEADING = ("take a lease", "take a lease", "seal bucket", "decode bucket part", "collecting to closed", "open round")
"""Those in which it matters which worker leads."""
PUBLISHING = ("decoded to published", "decoded to published", "publish a list", "seal bucket", "closed to decoded")
"""Those that an operator's correction may interrupt."""


@dataclass(frozen=True)
class Fault:
    """``step`` is when it begins. Its details follow from ``number``."""

    step: int
    kind: str
    number: int

    def __str__(self) -> str:
        return f"step {self.step}: {self.kind} ({self.number})"


@dataclass(frozen=True)
class Run:
    seed: int
    steps: int
    faults: tuple[Fault, ...]
    broken: str = ""  # the promise that was broken at the last step


def schedule(seed: int) -> tuple[Fault, ...]:
    rng = random.Random(f"faults {seed}")
    count, steps, kinds = 1 + rng.randrange(MAX_FAULTS), DAYS * len(HOURS), [*KINDS, *OFTEN]
    faults = (Fault(rng.randrange(steps), rng.choice(kinds), rng.randrange(1 << 30)) for _ in range(count))
    return tuple(sorted(faults, key=lambda fault: fault.step))


def play(seed: int, faults: Sequence[Fault] | None = None) -> Run:
    """By default with the run's own faults."""
    faults = schedule(seed) if faults is None else tuple(faults)
    world = World(seed)
    invariants, life, steps, broken = Invariants(world), _Life(world), 0, ""
    try:
        for act in life.acts(faults, invariants):
            steps += 1
            act()
            invariants.check()
        steps += 1
        life.end(invariants)
    except Broken as promise:
        broken = str(promise)
    except Exception as error:  # expected errors were caught where they occur
        broken = f"something broke down: {type(error).__name__}: {error}"
    finally:
        invariants.file.close()
        world.close()
    return Run(seed, steps, faults, broken)


class _Life:
    def __init__(self, world: World) -> None:
        self.world, self.start = world, world.now
        self.rng = random.Random(f"life {world.seed}")
        self.repairs: list[Callable[[], None]] = []  # of the next hour

    def acts(self, faults: Sequence[Fault], invariants: Invariants) -> Iterator[Callable[[], object]]:
        for step in range(DAYS * len(HOURS)):
            day, hour = divmod(step, len(HOURS))
            self.world.now = max(self.world.now, self.start + day * DAY + HOURS[hour] * 3600)
            for repair in self.repairs:
                repair()
            self.repairs = []
            if hour == 0:
                yield partial(self._call_clients, day)
            for fault in faults:
                if fault.step == step:
                    yield partial(KINDS[fault.kind], self, random.Random(fault.number))
            yield self.world.deliver_delayed
            order: list[Callable[[], object]] = [partial(self.world.turn, place) for place in (0, 1)]
            order += [partial(self.world.visit, place) for place in range(CLIENTS)]
            self.rng.shuffle(order)
            yield from order
            yield invariants.self_reports.check

    def _call_clients(self, day: int) -> None:
        for place, client in enumerate(self.world.clients):
            number = PLAN.parse(SPAMMERS[day % 2]) if place else PLAN.number(PLAN.area_codes[day % 2], 300 + place)
            client.note(number, self.world.now)

    def end(self, invariants: Invariants) -> None:
        """Quiet days. Held rounds are released, and every round must be published on time by healthy workers."""
        world, states = self.world, invariants.states
        world.broken_disk, world.boundaries.waiting = "", []
        for worker in world.workers:
            worker.skew = 0
        for line in world.lines:
            line.fates.clear()
        world.client_skew[:] = [0] * CLIENTS
        for number, (state, _) in states.items():
            if state == HELD:
                holding.release(world.workers[0].service.store, number)
        before = len(states)
        for day in range(DAYS, DAYS + QUIET_DAYS):
            for hour in QUIET_HOURS:
                world.now = self.start + day * DAY + hour * 3600
                world.deliver_delayed()
                healthy = [world.turn(place) for place in (0, 1, 0)]
                for place in range(CLIENTS if day == DAYS else 0):
                    world.visit(place)
                invariants.check()
            invariants.self_reports.check()
        well = all(healthy) and not all(invariants.self_reports.failing.values())
        require(well, "a worker is not well, or its log says so, although nothing disturbs it")
        opened = len(states) - before
        require(opened >= QUIET_DAYS - 1, f"{QUIET_DAYS} quiet days brought {opened} rounds")
        unfinished = [number for number, (state, _) in states.items() if state != PUBLISHED]
        require(unfinished in ([], [len(states)]), "a round never came to its end")

    # Faults. Each draws its details from ``rng``.

    def _interrupt(
        self, rng: random.Random, places: Sequence[str], action: Callable[[], None], writes: Sequence[str] = WRITES
    ) -> None:
        write = rng.choice(writes) if rng.random() < 0.7 else ""
        passings = 1 + rng.randrange(MAX_PASSINGS.get(write, 2))
        self.world.boundaries.waiting.append(Interruption(rng.choice(places), write, passings, action))

    def network(self, rng: random.Random, fate: str) -> None:
        for place in rng.sample(range(CLIENTS), 1 + rng.randrange(CLIENTS)):
            self.world.lines[place].fates += [fate] * (1 + rng.randrange(2))

    def commit_error(self, rng: random.Random, where: str) -> None:
        def fail() -> None:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorname = "SQLITE_IOERR"
            raise sa.exc.OperationalError("a commit", {}, error)

        self._interrupt(rng, (where,), fail)

    def death(self, rng: random.Random) -> None:
        def die() -> None:
            raise Death

        self._interrupt(rng, ("before write", "before commit", "after commit"), die)

    def disk(self, _: random.Random, pragma: str) -> None:
        """For an hour nothing can be written, or only what fits into the last page."""
        self.world.broken_disk = pragma
        self.repairs.append(lambda: setattr(self.world, "broken_disk", ""))

    def slow_disk(self, rng: random.Random) -> None:
        def wait() -> None:
            self.world.now += rng.choice(DELAY_SECONDS)

        self._interrupt(rng, ("before commit",), wait)

    def clock(self, rng: random.Random, *, stays: bool) -> None:
        worker = rng.choice(self.world.workers)
        before, worker.skew = worker.skew, rng.choice(SKEW_SECONDS[1:-1] if stays else SKEW_SECONDS)
        if not stays:
            self.repairs.append(lambda: setattr(worker, "skew", before))

    def client_clock(self, rng: random.Random) -> None:
        self.world.client_skew[rng.randrange(CLIENTS)] = rng.choice(SKEW_SECONDS[1:-1])

    def stall(self, rng: random.Random) -> None:
        """A worker is held up for longer than its lease lasts, and the other one takes over."""

        def take_over() -> None:
            self.world.now += LEASE_LAPSE_SECONDS
            for place in {0, 1} - {self.world.acting}:
                self.world.turn(place)

        self._interrupt(rng, BETWEEN, take_over, LEADING)

    def operator(self, rng: random.Random, *, interrupts: bool) -> None:
        act = partial(self._operate, rng.choice(SUDDEN if interrupts else list(ACTS)), rng.randrange(1 << 30))
        if interrupts:
            self._interrupt(rng, BETWEEN, act, PUBLISHING)
        else:
            act()

    def _operate(self, act: str, number: int) -> None:
        rng = random.Random(number)
        worker = rng.choice(self.world.workers)
        try:
            worker.run(lambda: ACTS[act](worker.service, rng))
        except (HushcallError, *ERRORS):
            return  # refused, or the database is in trouble


KINDS: dict[str, Callable[[_Life, random.Random], None]] = {
    **{f"messages are {fate}": partial(_Life.network, fate=fate) for fate in NETWORK},
    "a commit fails": partial(_Life.commit_error, where="before commit"),
    "a commit is not confirmed": partial(_Life.commit_error, where="after commit"),
    "a worker dies": _Life.death,
    "the disk is full": partial(_Life.disk, pragma=FULL),
    "the disk is read-only": partial(_Life.disk, pragma=READ_ONLY),
    "the disk is slow": _Life.slow_disk,
    "a clock jumps": partial(_Life.clock, stays=False),
    "a clock is wrong": partial(_Life.clock, stays=True),
    "a phone's clock is wrong": _Life.client_clock,
    "a worker stalls": _Life.stall,
    "an operator acts": partial(_Life.operator, interrupts=False),
    "an operator interrupts": partial(_Life.operator, interrupts=True),
}
OFTEN = (*["an operator interrupts"] * 3, *["a worker stalls"] * 2, "a worker dies", "a commit fails")
"""Kinds that are drawn more often, because most of them hit nothing."""


# What operators do. What cannot be done is refused.


def _on_newest(service: Any, rng: random.Random, acts: Sequence[str]) -> None:
    newest = service.rounds.newest()
    if newest is not None:
        number = max(1, newest.id - rng.randrange(2))
        for act in acts:
            getattr(holding, act)(service.store, *[number] if act == "release" else [number, "a look"])


def _appeal(service: Any, _: random.Random) -> None:
    for number in SPAMMERS:
        service.corrections.appeal(number, "mine", "its owner", service.now)


def _withdraw(service: Any, rng: random.Random) -> None:
    for row in exclusions.appeals(service.store):
        if row.closed is None and rng.random() < 0.7:
            service.corrections.close(row.id, "withdrawn", service.now)


def _rotate(service: Any, rng: random.Random) -> None:
    role, moment = rng.choice(("timestamp", "snapshot", "targets")), datetime.fromtimestamp(service.now, UTC)
    ceremony.rotate(service.store, service.settings.keys, role, moment, lambda _: b"")


ACTS: dict[str, Callable[[Any, random.Random], None]] = {
    **{act: partial(_on_newest, acts=[act]) for act in ("hold", "release", "discard")},
    "hold and discard": partial(_on_newest, acts=["hold", "discard"]),
    "appeal": _appeal,
    "withdraw": _withdraw,
    "allow": lambda service, rng: service.corrections.allow(rng.choice(SPAMMERS), "a school", "operator", service.now),
    "rotate a key": _rotate,
    "force": lambda service, _: service.rounds.advance(service.now, force=True),
}
SUDDEN = ("hold", "hold and discard", "appeal", "allow", "rotate a key", "force")
"""In the middle of a write."""


def shorten(run: Run) -> Run:
    """The same breach with fewer faults. Each is left out if a promise is still broken without it."""
    shortest = run
    for place in reversed(range(len(run.faults))):
        again = play(run.seed, shortest.faults[:place] + shortest.faults[place + 1 :])
        shortest = again if again.broken else shortest
    return shortest


@dataclass(frozen=True)
class FaultsResult:
    """``first`` broke a promise. ``least`` is the same with as few faults as possible."""

    runs: int
    steps: int
    faults: int
    first: Run | None = None
    least: Run | None = None

    @property
    def broken(self) -> str:
        return self.first.broken if self.first else ""

    def lines(self) -> list[str]:
        verdict = "a promise was BROKEN" if self.first else "every promise was kept"
        lines = [f"{self.runs:,} runs, {self.steps:,} steps, {self.faults:,} faults: {verdict}."]
        if self.first and self.least:
            lines.append(f"Run {self.first.seed}, step {self.first.steps}: {self.first.broken}")
            lines.append(f"With as few faults as possible, at step {self.least.steps}: {self.least.broken}")
            lines += [f"  {fault}" for fault in self.least.faults]
        return lines


def prove(
    runs: int, seed: int = 1, progress: Progress = quiet, *, shrink: bool = True, bug: str = "", jobs: int = 1
) -> FaultsResult:
    """Plays the runs ``seed``, ``seed`` + 1, … up to the first broken promise. ``jobs`` does not change the result."""
    steps = faults = 0
    with planted(FAULT_BUGS, bug):
        for done, run in enumerate(_played(range(seed, seed + runs), bug, jobs), 1):
            progress(done - 1, runs)
            steps, faults = steps + run.steps, faults + len(run.faults)
            if run.broken:
                return FaultsResult(done, steps, faults, run, shorten(run) if shrink else run)
    return FaultsResult(runs, steps, faults)


def _played(seeds: range, bug: str, jobs: int) -> Iterator[Run]:
    if jobs == 1:
        yield from map(play, seeds)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(partial(_play_with, bug), seeds, chunksize=CHUNK)


def _play_with(bug: str, seed: int) -> Run:
    with planted(FAULT_BUGS, bug):
        return play(seed)
