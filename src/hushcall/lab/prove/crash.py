"""``hushcall prove crash``: a server that is killed again and again; what it acknowledged is compared with its tallies.

``hushcall serve`` runs as a process of its own, or with workers of its own, and ``hushcall relay`` before it; phones
speak to them over loopback HTTP with the library's transports, half of them by name and half without, and ask again
until they are answered. In every phase of every round somebody is killed by SIGKILL: the server right before or after a
commit that the phase has, or server, worker or relay at a moment drawn from a seed (after so many answers; after so
much of a step). Some die again while they start. In every fourth round a server without workers is not killed but
stands still while it seals, another one takes over from it, and then it is woken.

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
from typing import TypeVar

import sqlalchemy as sa
import urllib3

from hushcall.errors import InvalidParameter, Refused, Unreachable
from hushcall.lab.live.fleet import Operator
from hushcall.lab.live.rig import HOST, must_be_empty
from hushcall.lab.prove import mortal
from hushcall.lab.prove.crash_phones import Named, Nameless
from hushcall.lab.prove.keeper import Keeper, Relay, Server, free_port, insist
from hushcall.lab.prove.mortal import Fate
from hushcall.lab.prove.moving import Mover
from hushcall.lab.prove.statistics import Progress, quiet
from hushcall.lab.prove.tallied import Sent, Tallied, compared
from hushcall.mechanisms import parameters
from hushcall.privacy.coins import seeded
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.seeds import report_seed
from hushcall.protocol.states import ANNOUNCING, COLLECTING, PUBLISHED
from hushcall.server.db import schema
from hushcall.server.db.store import open_store
from hushcall.server.serve import first_admin
from hushcall.server.settings import Settings, load_settings

PHONES, THREADS, AREAS = 36, 6, (202, 303, 404)
SUFFIX = 5_550_143
EARLY, IMPATIENT, AGAIN, RELAYS = 0.1, 0.1, 0.3, 0.25
"""How often a server dies while it starts, a phone asks only once, one asks again although it was answered, and who
dies at random is the relay."""
WAVES = 3
"""In which phones report. A restart is quick; what deciding and decoding need is loaded after it, once or twice."""
NEW = 201
STALL_EVERY = 4
PATIENCE = 120.0
"""Seconds that anything here is waited for, however busy the machine is."""
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
"""The commits of each phase, by how often the server dies at them."""
MOST_PASSINGS = {"intake": 4, "issue a token": PHONES // 4, "seal bucket": len(AREAS), "decode bucket part": len(AREAS)}
T = TypeVar("T")
Work = Callable[[Callable[[], None]], None]
STALL = Fate("seal bucket: after commit", stops=True)


@dataclass(frozen=True)
class Survived:
    """What a run came to. ``foreign``: reports in a tally that nobody sent."""

    database: str
    workers: int
    seed: int
    cycles: int
    kills: int
    relay_kills: int
    rounds: int
    acknowledged: int
    nameless: int
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
    nameless: int = 0
    silence: str = "silence"  # why nobody took over

    def __post_init__(self) -> None:
        self.dice = random.Random(f"crash {self.seed}")
        self.operator_token = str(first_admin(self.settings))
        self.store = open_store(self.settings.url)
        must_be_empty(self.store)
        mortal.lay(self.folder, None)
        port, relay_port = free_port(), int(self.settings.round.relay.rpartition(":")[2])
        self.keeper = Keeper(Server(self.settings, self.folder, port, self.plant), self._dice("server"))
        self.relay = Keeper(Relay(port, self.folder, relay_port), self._dice("relay"))
        operator = Operator(self.keeper.url, self.operator_token)
        self.mover = Mover(self.store, self.keeper, operator)
        pool = urllib3.PoolManager(maxsize=THREADS, timeout=60, retries=False)
        self.keeper.wait()
        tokens = operator.tokens(PHONES)
        self.keeper.startled = self._startled
        self.phones = [
            Nameless(self.keeper.url, token, pool, f"{self.seed} {place}")
            if place % 2
            else Named(self.keeper.url, token, pool)
            for place, token in enumerate(tokens)
        ]

    def _dice(self, whose: str) -> random.Random:
        """Of a thread's own: who draws first is the machine's to say."""
        return random.Random(f"crash {self.seed} {whose}")

    def _startled(self) -> float | None:
        """How long the next start is let be, where it dies on the way: by the time that starts have taken."""
        if self.keeper.dice.random() >= EARLY:
            return None
        self.places["while starting"] += 1
        return self.keeper.dice.random() * statistics.median(self.keeper.starts)

    def insist(self, place: int, ask: Callable[[], T]) -> T:
        """Have a phone ask until it is answered."""
        return insist([self.keeper, self.relay] if place % 2 else [self.keeper], ask)

    def phase(self, name: str, work: Work, steps: int, fate: Fate | None = None) -> None:
        """Do ``work``, which tells of every step of it, with a server that dies once meanwhile, or at its end."""
        before, fate = self._kills(), fate or self._fate(name)
        relay = fate is None and steps > 1 and self.dice.random() < RELAYS
        mortal.lay(self.folder, fate)
        at, done, lock = (self.dice.randrange(steps) if fate is None else -1), 0, threading.Lock()

        def step() -> None:
            nonlocal done
            with lock:
                if done == at:
                    (self.relay if relay else self.keeper).kill()
                done += 1

        later = self._in_the_middle(fate, steps)
        work(step)
        later.join()
        happened = f"{name}: {'the relay' if relay else 'at random'}"
        if fate and mortal.met(self.folder):
            happened = fate.at
            self.keeper.kills += self.settings.server.workers > 1  # a worker: its keeper does not see it
        mortal.lay(self.folder, None)
        if self._kills() == before and self.keeper.up.is_set():
            self.keeper.kill()
            happened = f"{name}: at its end"
        self.places[happened] += 1
        self.cycles += 1

    def _kills(self) -> int:
        return self.keeper.kills + self.relay.kills

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
        self.phase("open", lambda _: self.mover.move(ANNOUNCING), 1)
        number = self.mover.newest()[0]
        tickets: dict[int, str] = {}
        opened = insist([self.keeper], self.phones[0].line.current_round)
        announce = partial(self._announce, opened, tickets)
        self.phase("announce", lambda step: self._each(range(PHONES), announce, step), PHONES)
        self.phase("decide", lambda _: self.mover.move(COLLECTING), 1)
        shown = insist([self.keeper], self.phones[0].line.current_round)
        sent = Sent(number, shown.seed)
        report = partial(self._report, shown, tickets, sent)
        for wave in range(self.waves):
            mine = range(wave, PHONES, self.waves)
            early = None if wave else Fate("intake: before commit", 1 + self.dice.randrange(3))
            self.phase("report", lambda step: self._each(mine, report, step), len(mine), early)  # noqa: B023
        if number % STALL_EVERY == 1 and self.settings.server.workers == 1:
            self._stalled(number)
        else:
            self.phase("close", lambda _: self.mover.move(PUBLISHED), 1)
        self.known.append(compared(self.store, sent))
        self.nameless += len({tickets[place] for place in range(1, PHONES, 2)} & {t.hex() for t in sent.acknowledged})

    def _each(self, places: Sequence[int], ask: Callable[[int], None], step: Callable[[], None]) -> None:
        order = self.dice.sample(places, len(places))

        def one(place: int) -> None:
            ask(place)
            step()

        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(one, order))

    def _announce(self, shown: RoundInfo, tickets: dict[int, str], place: int) -> None:
        bucket = AREAS[place % len(AREAS)]
        tickets[place] = self.insist(place, lambda: self.phones[place].announce(shown, bucket))

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
                self.insist(place, ask)
        except Unreachable:
            return  # it gave up: its report may be there, or not
        except Refused as refusal:
            if refusal.status < 500:  # above: the relay, or a server that goes down, says so
                sent.refused[ticket] = refusal.problem
            return
        sent.acknowledged.add(ticket)
        if dice.random() < AGAIN and self.insist(place, ask) == NEW:  # as if the answer had been lost
            sent.forgotten.add(ticket)

    def _stalled(self, number: int) -> None:
        """The server stands still while it seals, another takes its lease and ends the round; then it is woken."""
        mortal.lay(self.folder, STALL)
        asking = threading.Thread(target=self.mover.move, args=[PUBLISHED], daemon=True)
        asking.start()
        self._until(lambda: mortal.met(self.folder))
        elsewhere = self.folder / "second"  # where no fate is laid
        elsewhere.mkdir(exist_ok=True)
        mortal.lay(elsewhere, None)
        second = Server(self.settings, elsewhere, free_port(), self.plant)
        second.start(cold=False)
        try:
            second.ready()
            self._until(lambda: self._leads(second))
            other = Operator(f"http://{HOST}:{second.port}", self.operator_token)
            self._until(lambda: self._published(number, other))
            mortal.wake(self.folder)
            asking.join(PATIENCE)
        finally:
            mortal.lay(self.folder, None)
            second.child.kill()
            self.keeper.kill()
        self.keeper.kills += 1
        self.places["stood still while sealing"] += 1
        self.cycles += 1

    def _published(self, number: int, operator: Operator) -> bool:
        try:
            if not self.mover.has_ended(number):
                self.mover.advance(number, operator)
        except Unreachable as error:
            self.silence = str(error)
        return self.mover.has_ended(number)

    def _until(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not true():
            if time.monotonic() > deadline:
                raise InvalidParameter("server", "take over", f"{self.silence}; round and state {self.mover.newest()}")
            time.sleep(0.05)

    def _leads(self, server: Server) -> bool:
        table = schema.leases.c
        rows = self.store.rows(sa.select(table.holder).where(table.name == "scheduler"))
        return any(str(row.holder).startswith(f"{server.child.pid}-") for row in rows)


def prove(
    cycles: int,
    seed: int = 1,
    database: str = "",
    plant: str = "",
    progress: Progress = quiet,
    waves: int = WAVES,
    workers: int = 1,
) -> Survived:
    """Kill a server at least ``cycles`` times, in whole rounds; stops after a round that is not as it should be.

    ``plant`` names a bug that the server has; phones report in ``waves``, with a kill in each.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hushcall-crash-", ignore_cleanup_errors=True) as name:
        run = _Run(_settings(Path(name), database, workers), Path(name), seed, plant, waves)
        broken = ""
        try:
            while run.cycles < cycles and not broken:
                progress(run.cycles, cycles)
                run.round()
                broken = run.known[-1].broken
        except Refused as refusal:
            broken = f"an announcement that was acknowledged is gone: {refusal.problem}"
        finally:
            run.relay.end()
            run.keeper.end()
            run.store.close()
        return _survived(run, database, broken, time.monotonic() - began)


def _settings(folder: Path, database: str, workers: int) -> Settings:
    """Rounds that last a day, and whose next step is forced; a tally stays until the one after it is decoded."""
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


def _survived(run: _Run, database: str, broken: str, seconds: float) -> Survived:
    restarts = run.keeper.restarts  # from nothing
    return Survived(
        database="postgresql" if database else "sqlite",
        workers=run.settings.server.workers,
        seed=run.seed,
        cycles=run.cycles,
        kills=run._kills(),
        relay_kills=run.relay.kills,
        rounds=len(run.known),
        acknowledged=sum(one.acknowledged for one in run.known),
        nameless=run.nameless,
        lost=sum(one.lost for one in run.known),
        twice=sum(one.twice for one in run.known),
        foreign=sum(one.foreign for one in run.known),
        restart_median=statistics.median(restarts),
        restart_worst=max(restarts),
        seconds=seconds,
        places=dict(sorted(run.places.items())),
        broken=broken,
    )
