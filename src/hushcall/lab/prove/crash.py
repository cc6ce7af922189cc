"""``hushcall prove crash``: a server that is killed again and again; what it acknowledged is compared with its tallies.

``hushcall serve`` runs as a process of its own; phones speak to it over loopback HTTP with the library's transport, and
ask again until they are answered. In every phase of every round it is killed once by SIGKILL: right before or after a
commit that the phase has, or at a moment drawn from a seed (after so many answers; after so much of a step). Some die
again while they start. In every fourth round the server is not killed but stands still while it seals, another one
takes over from it, and then it is woken.

A sealed tally holds each report as matrix rows and value, which follow from ticket and bytes: a cell of its own. So a
report that was acknowledged and is in no tally, one that is in it twice, and one that nobody sent are each seen.
"""

from __future__ import annotations

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

import sqlalchemy as sa
import urllib3

from hushcall.errors import InvalidParameter, Refused, Unreachable
from hushcall.lab.live.fleet import Operator
from hushcall.lab.prove import mortal
from hushcall.lab.prove.keeper import HOST, Keeper, Server, free_port
from hushcall.lab.prove.mortal import Fate
from hushcall.lab.prove.statistics import Progress, quiet
from hushcall.lab.prove.tallied import Sent, Tallied, compared
from hushcall.mechanisms import parameters
from hushcall.phone.reporting.transport import HttpTransport
from hushcall.privacy.coins import seeded
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.seeds import report_seed
from hushcall.protocol.states import ANNOUNCING, COLLECTING, HELD, PUBLISHED
from hushcall.server.db import schema
from hushcall.server.db.store import open_store
from hushcall.server.serve import first_admin
from hushcall.server.settings import Settings, load_settings

PHONES, THREADS, AREAS = 36, 6, (202, 303, 404)
SUFFIX = 5_550_143
EARLY, IMPATIENT, AGAIN = 0.1, 0.1, 0.3
"""How often a server dies while it starts, a phone asks only once, and one asks again although it was answered."""
WAVES = 3
"""In which phones report. A restart is quick; what deciding and decoding need is loaded after it, once or twice."""
NEW = 201
STALL_EVERY = 4
PATIENCE = 120.0
"""Seconds that anything here is waited for, however busy the machine is."""
BOUNDARIES = {
    "open": ("open round", "audit", "audit outcome", "take a lease", "heartbeat"),
    "announce": ("intake",) * 4 + ("heartbeat",),
    "decide": ("announcing to collecting",) * 3 + ("audit",),
    "report": ("intake",) * 6 + ("renew a lease",),
    "close": (
        *("collecting to closed", "seal bucket", "seal bucket", "decode bucket part", "closed to decoded"),
        *("decoded to published", "audit outcome"),
    ),
}
"""The commits of each phase, by how often the server dies at them."""
MOST_PASSINGS = {"intake": 4, "seal bucket": len(AREAS), "decode bucket part": len(AREAS)}
Work = Callable[[Callable[[], None]], None]
STALL = Fate("seal bucket: after commit", stops=True)


@dataclass(frozen=True)
class Survived:
    """What a run came to. ``foreign``: reports in a tally that nobody sent."""

    database: str
    seed: int
    cycles: int
    kills: int
    rounds: int
    acknowledged: int
    lost: int
    twice: int
    foreign: int
    restart_median: float
    restart_worst: float
    seconds: float
    places: dict[str, int]
    broken: str = ""

    @property
    def ok(self) -> bool:
        """Nothing lost, nothing twice, nothing else."""
        return not (self.lost or self.twice or self.foreign or self.broken)


class _Client(HttpTransport):
    """A phone's transport that tells whether a report was new to the server."""

    def put(self, round_: int, ticket: str, report: bytes) -> int:
        """Hand it in; the status of the answer that says yes."""
        path = f"/v1/rounds/{round_}/reports/{ticket}"
        return self._ask("PUT", path, report, "application/octet-stream").status


@dataclass
class _Run:
    """One run: a data folder, its server, phones in front of it, and what is known so far."""

    settings: Settings
    folder: Path
    seed: int
    plant: str
    waves: int
    cycles: int = 0
    places: Counter[str] = field(default_factory=Counter)
    known: list[Tallied] = field(default_factory=list)
    silence: str = "silence"  # why nobody took over

    def __post_init__(self) -> None:
        self.dice = random.Random(f"crash {self.seed}")
        self.operator_token = str(first_admin(self.settings))
        self.store = open_store(self.settings.url)
        if self.store.rows(sa.select(schema.devices.c.id).limit(1)):
            raise InvalidParameter("database", "be an empty one: the proof fills it", "one with devices in it")
        mortal.lay(self.folder, None)
        self.keeper = Keeper(Server(self.settings, self.folder, free_port(), self.plant))
        self.operator = Operator(self.keeper.url, self.operator_token)
        self.pool = urllib3.PoolManager(maxsize=THREADS, timeout=60, retries=False)
        self.keeper.wait()
        tokens = self.operator.tokens(PHONES)
        self.keeper.startled = self._startled
        self.phones = [_Client(self.keeper.url, one, lambda _: time.sleep(0.05), self.pool) for one in tokens]

    def _startled(self) -> float | None:
        """How long the next start is let be, where it dies on the way: by the time that starts have taken."""
        if self.dice.random() >= EARLY:
            return None
        self.places["while starting"] += 1
        return self.dice.random() * statistics.median(self.keeper.restarts)

    def phase(self, name: str, work: Work, steps: int, fate: Fate | None = None) -> None:
        """Do ``work``, which tells of every step of it, with a server that dies once meanwhile, or at its end."""
        before, fate = self.keeper.kills, fate or self._fate(name)
        mortal.lay(self.folder, fate)
        at, done, lock = (self.dice.randrange(steps) if fate is None else -1), 0, threading.Lock()

        def step() -> None:
            nonlocal done
            with lock:
                if done == at:
                    self.keeper.kill()
                done += 1

        later = self._in_the_middle(fate, steps)
        work(step)
        later.join()
        happened = fate.at if fate and mortal.met(self.folder) else f"{name}: at random"
        mortal.lay(self.folder, None)
        if self.keeper.kills == before and self.keeper.up.is_set():
            self.keeper.kill()
            happened = f"{name}: at its end"
        self.places[happened] += 1
        self.cycles += 1

    def _in_the_middle(self, fate: Fate | None, steps: int) -> threading.Thread:
        """A step of an operator's is one answer: what dies at random there dies by the clock."""
        pause = self.dice.random()

        def kill() -> None:
            if fate is None and steps == 1:
                time.sleep(pause)
                self.keeper.kill()

        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        return thread

    def _fate(self, phase: str) -> Fate | None:
        if self.dice.random() < 0.4:
            return None
        name = self.dice.choice(BOUNDARIES[phase])
        moment = self.dice.choice(("before", "after"))
        return Fate(f"{name}: {moment} commit", 1 + self.dice.randrange(MOST_PASSINGS.get(name, 1)))

    def round(self) -> None:
        """One round, from its opening to the comparison."""
        self.phase("open", lambda _: self._move(ANNOUNCING), 1)
        number = self.newest()[0]
        tickets: dict[int, str] = {}
        announce = partial(self._announce, number, tickets)
        self.phase("announce", lambda step: self._each(range(PHONES), announce, step), PHONES)
        self.phase("decide", lambda _: self._move(COLLECTING), 1)
        shown = self.keeper.insist(self.phones[0].current_round)
        sent = Sent(number, shown.seed)
        report = partial(self._report, shown, tickets, sent)
        for wave in range(self.waves):
            mine = range(wave, PHONES, self.waves)
            early = None if wave else Fate("intake: before commit", 1 + self.dice.randrange(3))
            self.phase("report", lambda step: self._each(mine, report, step), len(mine), early)  # noqa: B023
        if number % STALL_EVERY == 1:
            self._stalled(number)
        else:
            self.phase("close", lambda _: self._move(PUBLISHED), 1)
        self.known.append(compared(self.store, sent))

    def newest(self) -> tuple[int, str]:
        """The newest round and its state, from the database."""
        table = schema.rounds.c
        rows = self.store.rows(sa.select(table.id, table.state).order_by(table.id.desc()).limit(1))
        return (int(rows[0].id), str(rows[0].state)) if rows else (0, PUBLISHED)

    def _move(self, wanted: str) -> None:
        """Have the operator force the newest round on until it is in a state; each time it is looked at first."""
        number, state = self.newest()
        target = number + (wanted == ANNOUNCING and state == PUBLISHED), wanted

        def there() -> bool:
            return self._has_ended(number) if wanted == PUBLISHED else self.newest() == target

        def ask() -> None:
            if not there():
                self._advance(self.operator)

        while not there():
            self.keeper.insist(ask)

    def _advance(self, operator: Operator) -> None:
        number, state = self.newest()
        if state == HELD:
            raise InvalidParameter("round", "not be held: nobody was refused", number)
        seen = f"&round={number}&state={state}" if number else ""
        try:
            operator.ask("POST", f"/v1/admin/rounds/advance?force=true{seen}")
        except (urllib3.exceptions.HTTPError, InvalidParameter) as error:
            raise Unreachable(str(error)) from None  # killed meanwhile, or in trouble: it is asked again

    def _each(self, places: Sequence[int], ask: Callable[[int], None], step: Callable[[], None]) -> None:
        order = self.dice.sample(places, len(places))

        def one(place: int) -> None:
            ask(place)
            step()

        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(one, order))

    def _announce(self, number: int, tickets: dict[int, str], place: int) -> None:
        bucket = AREAS[place % len(AREAS)]
        tickets[place] = self.keeper.insist(lambda: self.phones[place].announce(number, bucket))

    def _report(self, shown: RoundInfo, tickets: dict[int, str], sent: Sent, place: int) -> None:
        phone, dice, bucket = self.phones[place], random.Random(f"{self.seed} {shown.round} {place}"), AREAS[place % 3]
        ticket = bytes.fromhex(tickets[place])
        public = report_seed(shown.seed, ticket)
        mechanism = parameters.from_plain((shown.buckets or {})[str(bucket)]["parameters"])
        body = bytes(mechanism.privatise(SUFFIX + place, public, seeded(public)))
        sent.bodies[ticket] = bucket, body

        def ask() -> int:
            return phone.put(shown.round, tickets[place], body)

        try:
            if dice.random() < IMPATIENT:
                self.keeper.wait()
                ask()
            else:
                self.keeper.insist(ask)
        except Unreachable:
            return  # it gave up: its report may be there, or not
        except Refused as refusal:
            sent.refused[ticket] = refusal.problem
            return
        sent.acknowledged.add(ticket)
        if dice.random() < AGAIN and self.keeper.insist(ask) == NEW:  # as if the answer had been lost
            sent.forgotten.add(ticket)

    def _stalled(self, number: int) -> None:
        """The server stands still while it seals, another takes its lease and ends the round; then it is woken."""
        mortal.lay(self.folder, STALL)
        asking = threading.Thread(target=self._move, args=[PUBLISHED], daemon=True)
        asking.start()
        self._until(lambda: mortal.met(self.folder))
        elsewhere = self.folder / "second"  # where no fate is laid
        elsewhere.mkdir(exist_ok=True)
        mortal.lay(elsewhere, None)
        second = Server(self.settings, elsewhere, free_port(), self.plant)
        second.start()
        try:
            second.ready()
            self._until(lambda: self._leads(second))
            other = Operator(f"http://{HOST}:{second.port}", self.operator_token)
            self._until(lambda: self._published(number, other))
            mortal.wake(self.folder)
            asking.join(PATIENCE)
        finally:
            mortal.lay(self.folder, None)
            second.kill()
            self.keeper.kill()
        self.keeper.kills += 1
        self.places["stood still while sealing"] += 1
        self.cycles += 1

    def _published(self, number: int, operator: Operator) -> bool:
        try:
            if not self._has_ended(number):
                self._advance(operator)
        except Unreachable as error:
            self.silence = str(error)
        return self._has_ended(number)

    def _has_ended(self, number: int) -> bool:
        """Whether a round is published. Somebody else may have opened the next one meanwhile."""
        return self.newest() >= (number + 1, "") or self.newest() == (number, PUBLISHED)

    def _until(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not true():
            if time.monotonic() > deadline:
                raise InvalidParameter("server", "take over", f"{self.silence}; round and state {self.newest()}")
            time.sleep(0.05)

    def _leads(self, server: Server) -> bool:
        table = schema.leases.c
        rows = self.store.rows(sa.select(table.holder).where(table.name == "scheduler"))
        return any(str(row.holder).startswith(f"{server.process.pid}-") for row in rows)


def prove(
    cycles: int,
    seed: int = 1,
    database: str = "",
    plant: str = "",
    progress: Progress = quiet,
    waves: int = WAVES,
) -> Survived:
    """Kill a server at least ``cycles`` times, in whole rounds; stops after a round that is not as it should be.

    ``plant`` names a bug that the server has; phones report in ``waves``, with a kill in each.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hushcall-crash-", ignore_cleanup_errors=True) as name:
        run = _Run(_settings(Path(name), database), Path(name), seed, plant, waves)
        broken = ""
        try:
            while run.cycles < cycles and not broken:
                progress(run.cycles, cycles)
                run.round()
                broken = run.known[-1].broken
        except Refused as refusal:
            broken = f"an announcement that was acknowledged is gone: {refusal.problem}"
        finally:
            run.keeper.end()
            run.store.close()
        return _survived(run, database, broken, time.monotonic() - began)


def _settings(folder: Path, database: str) -> Settings:
    """Rounds that last a day, and whose next step is forced; a tally stays until the one after it is decoded."""
    return load_settings(
        alone=True,
        data=folder / "data",
        database=database,
        round={"profile": "cheapest", "windows": [1, 2], "decoders": 0},
        list={"exports": []},
        intake={"per_device": 10_000, "linger_ms": 0},
    )


def _survived(run: _Run, database: str, broken: str, seconds: float) -> Survived:
    restarts = run.keeper.restarts[1:] or [0.0]  # the first one made keys and tables
    return Survived(
        database="postgresql" if database else "sqlite",
        seed=run.seed,
        cycles=run.cycles,
        kills=run.keeper.kills,
        rounds=len(run.known),
        acknowledged=sum(one.acknowledged for one in run.known),
        lost=sum(one.lost for one in run.known),
        twice=sum(one.twice for one in run.known),
        foreign=sum(one.foreign for one in run.known),
        restart_median=statistics.median(restarts),
        restart_worst=max(restarts),
        seconds=seconds,
        places=dict(sorted(run.places.items())),
        broken=broken,
    )
