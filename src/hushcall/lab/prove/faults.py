"""``hushcall prove faults``: server and phones on a virtual clock, drawn faults, and promises checked at every step.

A run is two days of ordinary life (:mod:`~.world`) with faults at some of its hours, then quiet days in which all has
to come to its end. Which faults, when and where follows from the run's number, each from a number of its own: so a run
that breaks a promise is played again by its number, to the same step, and is made shorter by leaving faults out.
"""

from __future__ import annotations

import multiprocessing
import random
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial

import sqlalchemy as sa

from hushcall.errors import HushcallError
from hushcall.lab.prove.invariants import Watch
from hushcall.lab.prove.operators import ACTS, SUDDEN
from hushcall.lab.prove.statistics import Progress, quiet
from hushcall.lab.prove.world import FULL, PHONES, PLAN, READ_ONLY, SPAMMERS, Appointment, Broken, Death, World
from hushcall.phone.reporting.ledger import DAY
from hushcall.protocol.states import HELD, PUBLISHED
from hushcall.server.db.trouble import ERRORS

HOURS = (1, 6, 13, 18, 23)
"""When workers and phones do something, each day: announcing ends at 12, collecting at 22.8."""
DAYS, QUIET_DAYS = 2, 2
QUIET_HOURS = (1, 13, 23)
MOST_FAULTS, CHUNK = 12, 10
NETWORK = ("lost", "unanswered", "doubled", "delayed")
SKEWS = (-2 * DAY, -7200, -90, 90, 7200, 10 * DAY)
LEASE_LAPSE = 60
DELAYS = (20, LEASE_LAPSE, 1800)
PASSINGS = {"": 12, "take a lease": 4}
"""How often a write may be passed before something happens there: in two days most come twice."""
BETWEEN = ("before write", "after commit")
"""Where nobody holds a lock."""
WRITES = (
    *("open round", "intake", "announcing to collecting", "collecting to closed", "seal bucket", "decode bucket part"),
    *("closed to decoded", "decoded to published", "publish a list", "take a lease", "appeal"),
)
"""Transactions in which something can go wrong, without their numbers."""
LEADING = ("take a lease", "take a lease", "seal bucket", "decode bucket part", "collecting to closed", "open round")
"""Those in which it matters who leads."""
PUBLISHING = ("decoded to published", "decoded to published", "publish a list", "seal bucket", "closed to decoded")
"""Those into which an operator's correction may fall."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong, from which step on, and the number that its details follow from."""

    step: int
    kind: str
    number: int

    def __str__(self) -> str:
        return f"step {self.step}: {self.kind} ({self.number})"


@dataclass(frozen=True)
class Ended:
    """How a run ended: after how many steps, and the promise that was broken at the last one, if any."""

    seed: int
    steps: int
    faults: tuple[Fault, ...]
    broken: str = ""


def schedule(seed: int) -> tuple[Fault, ...]:
    """The faults of a run."""
    dice = random.Random(f"faults {seed}")
    count = 1 + dice.randrange(MOST_FAULTS)
    steps = DAYS * len(HOURS)
    kinds = [*KINDS, *OFTEN]
    return tuple(
        sorted(
            (Fault(dice.randrange(steps), dice.choice(kinds), dice.randrange(1 << 30)) for _ in range(count)),
            key=lambda one: one.step,
        )
    )


def play(seed: int, faults: Sequence[Fault] | None = None) -> Ended:
    """One run; with ``faults`` in the place of its own."""
    faults = schedule(seed) if faults is None else tuple(faults)
    world = World(seed)
    watch, life, steps = Watch(world), _Life(world), 0
    try:
        for steps, act in enumerate(life.acts(faults, watch), 1):  # noqa: B007
            act()
            watch.look()
        steps += 1
        life.end(watch)
    except Broken as broken:
        return Ended(seed, steps, tuple(faults), str(broken))
    except Exception as error:  # every error that is meant to happen was caught where it was
        return Ended(seed, steps, tuple(faults), f"something broke down: {type(error).__name__}: {error}")
    finally:
        watch.close()
        world.close()
    return Ended(seed, steps, tuple(faults))


@dataclass
class _Life:
    """Two days and what disturbs them."""

    world: World
    dice: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.dice = random.Random(f"life {self.world.seed}")
        self.start = self.world.now
        self.mended: list[Callable[[], None]] = []

    def acts(self, faults: Sequence[Fault], watch: Watch) -> Iterator[Callable[[], object]]:
        """What happens, one after the other."""
        for step in range(DAYS * len(HOURS)):
            day, hour = divmod(step, len(HOURS))
            self.world.now = max(self.world.now, self.start + day * DAY + HOURS[hour] * 3600)
            for mend in self.mended:
                mend()
            self.mended = []
            if hour == 0:
                yield partial(self._ring, day)
            for fault in faults:
                if fault.step == step:
                    yield partial(KINDS[fault.kind], self, random.Random(fault.number))
            yield self.world.arrive
            yield from self._everybody()
            yield watch.ask

    def _everybody(self) -> Iterator[Callable[[], object]]:
        order: list[Callable[[], object]] = [partial(self.world.turn, place) for place in (0, 1)]
        order += [partial(self.world.visit, place) for place in range(PHONES)]
        self.dice.shuffle(order)
        yield from order

    def _ring(self, day: int) -> None:
        """Most phones are called by a spammer of the day, one by somebody else."""
        for place, phone in enumerate(self.world.phones):
            number = PLAN.parse(SPAMMERS[day % 2]) if place else PLAN.number(PLAN.area_codes[day % 2], 300 + place)
            phone.note(number, self.world.now)

    def end(self, watch: Watch) -> None:
        """Quiet days: what is held is released, and every round has to be published on time, by workers in health."""
        world = self.world
        world.broken_disk, world.boundaries.waiting = "", []
        for worker in world.workers:
            worker.skew = 0
        for line in world.lines:
            line.fate.clear()
        world.phone_skew[:] = [0] * PHONES
        for number, (state, _) in watch.states.items():
            if state == HELD:
                world.workers[0].service.rounds.release(number)
        began = len(watch.states)
        for day in range(DAYS, DAYS + QUIET_DAYS):
            for hour in QUIET_HOURS:
                world.now = self.start + day * DAY + hour * 3600
                world.arrive()
                healthy = [world.turn(place) for place in (0, 1, 0)]
                for place in range(PHONES if day == DAYS else 0):
                    world.visit(place)
                watch.look()
            watch.ask()
        if not all(healthy) or all(watch.told.failing.values()):
            raise Broken("a worker is not well, or its log says so, although nothing disturbs it")
        if len(watch.states) < began + QUIET_DAYS - 1:
            raise Broken(f"{QUIET_DAYS} quiet days brought {len(watch.states) - began} rounds")
        late = [number for number, (state, _) in watch.states.items() if state != PUBLISHED]
        if [number for number in late if number < len(watch.states)]:
            raise Broken("a round never came to its end")

    # Faults. Each draws its details from ``dice``.

    def _appoint(
        self, dice: random.Random, places: Sequence[str], action: Callable[[], None], writes: Sequence[str] = WRITES
    ) -> None:
        """At a boundary of any write, or of a kind that is drawn."""
        what = dice.choice(writes) if dice.random() < 0.7 else ""
        passings = 1 + dice.randrange(PASSINGS.get(what, 2))
        self.world.boundaries.waiting.append(Appointment(dice.choice(places), what, passings, action))

    def network(self, dice: random.Random, what: str) -> None:
        """Something becomes of the next messages of some phones."""
        for place in dice.sample(range(PHONES), 1 + dice.randrange(PHONES)):
            self.world.lines[place].fate += [what] * (1 + dice.randrange(2))

    def database(self, dice: random.Random, where: str) -> None:
        """A commit fails, or it is done and its connection breaks."""

        def fail() -> None:
            gone = sqlite3.OperationalError("disk I/O error")
            gone.sqlite_errorname = "SQLITE_IOERR"
            raise sa.exc.OperationalError("a commit", {}, gone)

        self._appoint(dice, (where,), fail)

    def death(self, dice: random.Random) -> None:
        """The worker that comes to a boundary dies there."""

        def die() -> None:
            raise Death

        self._appoint(dice, ("before write", "before commit", "after commit"), die)

    def disk(self, _: random.Random, pragma: str) -> None:
        """For an hour nothing can be written, or nothing more than there is room for."""
        self.world.broken_disk = pragma
        self.mended.append(lambda: setattr(self.world, "broken_disk", ""))

    def slow(self, dice: random.Random) -> None:
        """A commit takes so long that a lease may run out over it, or a phase."""

        def wait() -> None:
            self.world.now += dice.choice(DELAYS)

        self._appoint(dice, ("before commit",), wait)

    def clock(self, dice: random.Random, *, stays: bool) -> None:
        """A worker's clock is wrong: until the next hour, or from now on."""
        worker, before = dice.choice(self.world.workers), 0
        worker.skew, before = dice.choice(SKEWS if not stays else SKEWS[1:-1]), worker.skew
        if not stays:
            self.mended.append(lambda: setattr(worker, "skew", before))

    def phones_clock(self, dice: random.Random) -> None:
        """A phone's clock is wrong from now on."""
        self.world.phone_skew[dice.randrange(PHONES)] = dice.choice(SKEWS[1:-1])

    def stall(self, dice: random.Random) -> None:
        """A worker is held up at a boundary for longer than its lease lasts; the other one takes over meanwhile."""

        def others() -> None:
            self.world.now += LEASE_LAPSE
            for place in {0, 1} - {self.world.acting}:
                self.world.turn(place)

        self._appoint(dice, BETWEEN, others, LEADING)

    def operator(self, dice: random.Random, *, interrupts: bool) -> None:
        """An operator does something, in peace or in the middle of something else."""
        act = partial(self._operate, dice.choice(SUDDEN if interrupts else list(ACTS)), dice.randrange(1 << 30))
        if interrupts:
            self._appoint(dice, BETWEEN, act, PUBLISHING)
        else:
            act()

    def _operate(self, what: str, number: int) -> None:
        dice = random.Random(number)
        worker = dice.choice(self.world.workers)
        try:
            worker.alive(lambda: ACTS[what](worker.service, dice))
        except (HushcallError, *ERRORS):
            return  # refused, or the database is in trouble: the operator is told


KINDS: dict[str, Callable[[_Life, random.Random], None]] = {
    **{f"messages are {what}": partial(_Life.network, what=what) for what in NETWORK},
    "a commit fails": partial(_Life.database, where="before commit"),
    "a commit is not confirmed": partial(_Life.database, where="after commit"),
    "a worker dies": _Life.death,
    "the disk is full": partial(_Life.disk, pragma=FULL),
    "the disk is read-only": partial(_Life.disk, pragma=READ_ONLY),
    "the disk is slow": _Life.slow,
    "a clock jumps": partial(_Life.clock, stays=False),
    "a clock is wrong": partial(_Life.clock, stays=True),
    "a phone's clock is wrong": _Life.phones_clock,
    "a worker stalls": _Life.stall,
    "an operator acts": partial(_Life.operator, interrupts=False),
    "an operator interrupts": partial(_Life.operator, interrupts=True),
}
"""What can go wrong, by name."""


OFTEN = (*["an operator interrupts"] * 3, *["a worker stalls"] * 2, "a worker dies", "a commit fails")
"""What is drawn more often: most of it meets nothing."""


def shrunk(ended: Ended, tries: int = 60) -> Ended:
    """The same breach with fewer faults: each is left out as long as something is still broken without it."""
    best = ended
    place = len(best.faults) - 1
    while place >= 0 and tries > 0:
        tries -= 1
        fewer = best.faults[:place] + best.faults[place + 1 :]
        found = play(ended.seed, fewer)
        best = found if found.broken else best
        place -= 1
    return best


@dataclass(frozen=True)
class Survived:
    """What many runs came to: the first one that broke a promise, as it was and with as few faults as do it."""

    runs: int
    steps: int
    faults: int
    first: Ended | None = None
    least: Ended | None = None

    @property
    def ok(self) -> bool:
        """All promises were kept."""
        return self.first is None


def prove(
    runs: int, seed: int = 1, progress: Progress = quiet, *, shrink: bool = True, plant: str = "", jobs: int = 1
) -> Survived:
    """Runs ``seed``, ``seed`` + 1, …; stops at the first that breaks a promise, and makes it shorter.

    ``plant`` names a bug that all have; ``jobs`` of them are played at once. What is found is the same for any number.
    """
    steps = faults = 0
    with _planted(plant):
        for done, ended in enumerate(_played(range(seed, seed + runs), plant, jobs)):
            progress(done, runs)
            steps, faults = steps + ended.steps, faults + len(ended.faults)
            if ended.broken:
                return Survived(done + 1, steps, faults, ended, shrunk(ended) if shrink else ended)
    return Survived(runs, steps, faults)


def _played(seeds: range, plant: str, jobs: int) -> Iterator[Ended]:
    """The runs in their order, by so many processes."""
    if jobs == 1:
        yield from map(play, seeds)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context) as pool:
        pending: deque[Future[list[Ended]]] = deque()
        for start in range(0, len(seeds), CHUNK):
            pending.append(pool.submit(_some, seeds[start : start + CHUNK], plant))
            if len(pending) > 2 * jobs:
                yield from pending.popleft().result()
        while pending:
            yield from pending.popleft().result()


def _some(seeds: range, plant: str) -> list[Ended]:
    with _planted(plant):
        return [play(seed) for seed in seeds]


@contextmanager
def _planted(plant: str) -> Iterator[None]:
    from hushcall.lab.prove.planted_world import BUGS

    with BUGS[plant]() if plant else nullcontext():
        yield
