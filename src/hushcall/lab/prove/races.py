"""``hushcall prove races``: two servers over one database, and what each does at the moment of the other.

A list is published by one while the other takes an appeal, an allowlisting or a withdrawal, at a moment drawn from a
seed over the whole length of publishing and a little beyond, before and after. The promise: no list comes into force
with a number on it whose appeal is open, or that is allowed, at that moment; and when both are done, the list is the
numbers that were found, less those. What is kept off is read over a connection of its own right before a list's
commit, while its transaction keeps all corrections waiting. Then two operators force the same round on, and appeal (and
withdraw the appeal of) the same number, at almost the same moment. Real threads; the machine has its say.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any
from unittest.mock import patch

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection

from hushcall.errors import InvalidParameter
from hushcall.lab.live.rig import must_be_empty
from hushcall.lab.prove import planted_world
from hushcall.lab.prove.statistics import Progress, quiet
from hushcall.numbers import NANP
from hushcall.privacy.coins import seeded, shared
from hushcall.protocol.blocklist import Blocklist
from hushcall.protocol.states import ANNOUNCING, COLLECTING, DECODED, RoundState
from hushcall.server.db import schema
from hushcall.server.db.store import Store, open_store
from hushcall.server.publishing import appeals
from hushcall.server.publishing.corrections import Corrected
from hushcall.server.rounds.state_machine import Rounds
from hushcall.server.service import Service, open_service
from hushcall.server.settings import load_settings

NUMBERS = tuple(str(NANP.number(NANP.area_codes[place], 5_550_143)) for place in range(6))
START = 1_800_000_000
EARLIER, LATER = -0.15, 1.15
"""Between which shares of the length of publishing a correction comes: 0 is when it begins."""
RECENT, FIRST = 15, 3
"""Races that say how long publishing takes; and how many lists are published undisturbed before the first."""
KINDS = ("appeal", "allow", "withdraw")
STAGES = ("before", "while it was drafted", "in its transaction", "after")
LISTS = ("decoded to published", "publish a list")
_KEPT_OFF = sa.union(
    sa.select(schema.appeals.c.number).where(schema.appeals.c.closed.is_(None)), sa.select(schema.allowed.c.number)
)
_advance_one = Rounds._advance_one


def _whatever_it_is(self: Rounds, round_id: int, now: int, forced: RoundState | None) -> list[str]:
    """Who forces a round on forces it out of the state that it is in by then."""
    return _advance_one(self, round_id, now, forced and self._row(round_id).state)


BUGS: dict[str, Callable[[], Any]] = {
    "corrections-read-once": planted_world.BUGS["appeals are read once"],
    "forced-whatever-it-is": lambda: patch.object(Rounds, "_advance_one", _whatever_it_is),
}
"""Bugs that can be planted in both servers, by name."""


@dataclass(frozen=True)
class Raced:
    """What many races came to. ``wrong``: in how many of them a promise was broken; ``broken``: the first of those.

    ``stages``: where in publishing corrections came; ``redrawn``: lists that were drawn up again because of one;
    ``same_step``: pairs who forced the same state.
    """

    database: str
    seed: int
    races: int
    kinds: dict[str, int]
    stages: dict[str, int]
    redrawn: int
    same_step: int
    publishing_ms: float
    seconds: float
    wrong: int
    broken: str = ""

    @property
    def ok(self) -> bool:
        """Every promise was kept."""
        return not self.broken


class _Wrong(Exception):
    """A promise was not kept."""


@dataclass
class _Eye:
    """Watches one server's transactions: when they began and ended, and who was kept off at its lists' commits."""

    store: Store
    begun: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    kept_off: list[tuple[float, frozenset[str]]] = field(default_factory=list)

    def clear(self) -> None:
        """A new race."""
        self.begun, self.ended, self.kept_off = [], [], []

    def began(self, connection: Connection) -> None:
        """A transaction has its turn."""
        if connection.get_execution_options().get("writes", False):
            self.begun.append(time.monotonic())

    def __call__(self, name: str) -> None:
        """A boundary: see ``Store.fault``."""
        what, _, where = name.partition(": ")
        if where == "after commit":
            self.ended.append(time.monotonic())
        elif what in LISTS:
            self.kept_off.append((time.monotonic(), _kept_off(self.store)))


def _kept_off(store: Store) -> frozenset[str]:
    return frozenset(row[0] for row in store.rows(_KEPT_OFF))


@dataclass
class _Track:
    """Two servers over one database, one who watches, and what was counted so far."""

    store: Store
    servers: tuple[Service, Service]
    eyes: tuple[_Eye, _Eye]
    dice: random.Random
    threads: ThreadPoolExecutor
    kinds: Counter[str] = field(default_factory=Counter)
    stages: Counter[str] = field(default_factory=Counter)
    redrawn: int = 0
    same_step: int = 0
    lengths: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Two rounds that found the same numbers: one is published, the other is to be, once a race."""
        one = self.servers[0]
        number = one.rounds.open(one.now)
        columns = {"bucket": 0, "estimate": 40.0, "low": 20.0, "high": 60.0, "p_value": 1e-9}
        with self.store.write("two rounds") as connection:
            first = connection.execute(sa.select(schema.rounds)).one()._mapping
            connection.execute(sa.insert(schema.rounds).values(**{**first, "id": number + 1}))
            for round_id in (number, number + 1):
                rows = [{"round": round_id, "number": each, **columns} for each in NUMBERS]
                connection.execute(sa.insert(schema.hitters), rows)
        self._set(number, state=DECODED)
        one.publisher.publish(number, one.now)
        self.round = number + 1
        for _ in range(FIRST):
            self._set(self.round, state=DECODED)
            self._measured("list", lambda: one.publisher.publish(self.round, one.now))()
        opened = sa.select(schema.rounds).where(schema.rounds.c.id == one.rounds.open(one.now))
        self.announcing = dict(self.store.rows(opened)[0]._mapping)

    def _set(self, round_id: int, **values: Any) -> None:
        with self.store.write("set") as connection:
            connection.execute(sa.update(schema.rounds).where(schema.rounds.c.id == round_id).values(**values))

    def _measured(self, what: str, act: Callable[[], Any]) -> Callable[[], Any]:
        def acting() -> Any:
            began = time.monotonic()
            done = act()
            self.lengths.setdefault(what, []).append(time.monotonic() - began)
            return done

        return acting

    def usual(self, what: str) -> float:
        """How long this took of late, in seconds."""
        return statistics.median(self.lengths.get(what, [0.01])[-RECENT:])

    def _together(self, one: Callable[[], Any], other: Callable[[], Any], later: float) -> tuple[float, list[Any]]:
        """Both at once, the other ``later`` by so many seconds; when the other began after the one, and what they gave.

        An error is what was given.
        """
        gate, began = Barrier(2), [0.0, 0.0]

        def run(place: int, act: Callable[[], Any], wait: float) -> Any:
            gate.wait(60)
            time.sleep(max(wait, 0.0))
            began[place] = time.monotonic()
            try:
                return act()
            except Exception as error:
                return error

        running = [self.threads.submit(run, 0, one, -later), self.threads.submit(run, 1, other, later)]
        given = [each.result(120) for each in running]
        return began[1], given

    # A list, and a correction.

    def list_race(self) -> None:
        """Publish the round; somebody corrects one of its numbers meanwhile."""
        publisher, operator = self.servers
        number, kind = self.dice.choice(NUMBERS), self.dice.choice(KINDS)
        share = self.dice.uniform(EARLIER, LATER)
        before = self._prepared(number if kind == "withdraw" else "")
        began = [0.0]

        def publish() -> None:
            began[0] = time.monotonic()
            publisher.publisher.publish(self.round, publisher.now)

        came, given = self._together(
            self._measured("list", publish), self._correction(operator, kind, number), share * self.usual("list")
        )
        for one in given:
            if isinstance(one, Exception):
                raise _Wrong(f"{type(one).__name__}: {one}")
        self.kinds[kind] += 1
        self.stages[self._stage(came, began[0])] += 1
        self.redrawn += len(self.eyes[0].kept_off) > 1
        self._in_force(before, given[1], kind)

    def _prepared(self, appealed: str) -> int:
        """Nothing is kept off but this number, and the round is decoded; the version in force."""
        table = schema.appeals.c
        with self.store.write("set") as connection:
            connection.execute(sa.delete(schema.allowed))
            connection.execute(sa.update(schema.appeals).where(table.closed.is_(None)).values(closed=START))
            if appealed:
                row = {"number": appealed, "why": "mine", "who": "its owner", "at": START}
                connection.execute(sa.insert(schema.appeals).values(**row))
            decoded = sa.update(schema.rounds).where(schema.rounds.c.id == self.round).values(state=DECODED)
            connection.execute(decoded)
            before = connection.execute(sa.select(sa.func.max(schema.versions.c.version))).scalar_one()
        for eye in self.eyes:
            eye.clear()
        return int(before)

    def _correction(self, operator: Service, kind: str, number: str) -> Callable[[], Corrected]:
        act = operator.corrections
        if kind == "appeal":
            return partial(act.appeal, number, "mine", "its owner", START)
        if kind == "allow":
            return partial(act.allow, number, "a school", "operator", START)
        (entry,) = (row.id for row in appeals.appeals(self.store, number) if row.closed is None)
        return partial(act.close, entry, "withdrawn", START)

    def _stage(self, came: float, began: float) -> str:
        """Where in publishing that moment was."""
        eye = self.eyes[0]
        if came < began:
            return STAGES[0]
        if came > eye.ended[-1]:
            return STAGES[3]
        inside = any(begun <= came <= ended for begun, ended in zip(eye.begun, eye.ended, strict=True))
        return STAGES[2] if inside else STAGES[1]

    def _in_force(self, before: int, corrected: Corrected, kind: str) -> None:
        """Compare every list that came into force with whom operators kept off when it did, and the last with all."""
        table = schema.versions.c
        query = sa.select(table.data).where(table.version > before).order_by(table.version)
        lists = [Blocklist.from_bytes(bytes(row.data)) for row in self.store.rows(query)]
        published = zip(self.eyes, (True, corrected.published), strict=True)
        commits = sorted(eye.kept_off[-1] for eye, did in published if did)
        if len(lists) != len(commits):
            raise _Wrong(f"{len(commits)} lists were put into force and {len(lists)} are there")
        for made, (_, off) in zip(lists, commits, strict=True):
            if off & {entry.number for entry in made.entries}:
                raise _Wrong(f"{kind}: a number came into force that was kept off at that moment")
        if {entry.number for entry in lists[-1].entries} != set(NUMBERS) - _kept_off(self.store):
            raise _Wrong(f"{kind}: when all was done, the list was not what was found less what is kept off")

    # A step, forced twice.

    def force_race(self) -> None:
        """Two force an announcing round on: one moves it, and nobody moves it further who did not see it moved."""
        number = self.announcing["id"]
        told = (number, ANNOUNCING) if self.dice.random() < 0.5 else None
        seen: list[RoundState] = []

        def force(service: Service) -> list[str]:
            look = service.rounds._forced

            def noted(given: Any) -> dict[int, RoundState]:
                forced = look(given)
                seen.extend(forced.values())
                return forced

            with patch.object(service.rounds, "_forced", noted):
                return service.rounds.advance(service.now, force=True, seen=told)

        one, other = (self._measured("force", partial(force, service)) for service in self.servers)
        length = self.usual("force")
        _, given = self._together(one, other, self.dice.uniform(-length, length))
        for each in given:
            if isinstance(each, Exception):
                raise _Wrong(f"{type(each).__name__}: {each}")
        self.same_step += seen.count(ANNOUNCING) > 1
        table = schema.rounds.c
        state = self.store.rows(sa.select(table.state).where(table.id == number))[0].state
        self._set(number, **self.announcing)  # its deadlines, too
        if state != COLLECTING and COLLECTING not in seen:
            raise _Wrong(f"forced: an announcing round went on to {state}")

    # One number, appealed twice.

    def appeal_race(self) -> None:
        """Two appeal for one number, then both withdraw it: one appeal is open, and one of them ends it."""
        number = self.dice.choice(NUMBERS)
        length = self.usual("appeal")
        one, other = (
            self._measured("appeal", partial(appeals.appeal, each.store, number, "mine", "its owner", START))
            for each in self.servers
        )
        _, entries = self._together(one, other, self.dice.uniform(-length, length))
        still_open = [row.id for row in appeals.appeals(self.store, number) if row.closed is None]
        if len(still_open) != 1 or entries != still_open * 2:
            raise _Wrong(f"appealed: {len(still_open)} appeals of one number are open")
        end = partial(appeals.close_appeal, entry=still_open[0], why="withdrawn", now=START)
        one, other = (partial(end, each.store) for each in self.servers)
        _, given = self._together(one, other, self.dice.uniform(-length, length))
        if sorted(type(each).__name__ for each in given) != [InvalidParameter.__name__, "NoneType"]:
            raise _Wrong("appealed: two ended one appeal")


@contextmanager
def _track(url: str, seed: int) -> Iterator[_Track]:
    """Two servers with the settings of every server, over one new database."""
    with tempfile.TemporaryDirectory(prefix="hushcall-races-") as folder, ExitStack() as stack:
        settings = load_settings(data=Path(folder), database=url, round={"scheduler": False, "decoders": 0})
        watching = open_store(settings.url)
        stack.callback(watching.close)
        must_be_empty(watching)
        eyes = (_Eye(watching), _Eye(watching))
        servers = []
        for place, eye in enumerate(eyes):
            coins = shared(seeded(f"races {seed} {place}".encode()))
            servers.append(open_service(settings, coins, lambda: START, eye))
            stack.callback(servers[-1].close)
            event.listen(servers[-1].store.engine, "begin", eye.began)  # called when the lock of SQLite is there
        threads = stack.enter_context(ThreadPoolExecutor(2))
        yield _Track(watching, (servers[0], servers[1]), eyes, random.Random(seed), threads)


@contextmanager
def _fine_turns() -> Iterator[None]:
    """Threads take turns every tenth of a millisecond, so that any two instructions can be apart."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def prove(
    races: int, seed: int = 1, url: str = "", plant: str = "", progress: Progress = quiet, *, to_first: bool = False
) -> Raced:
    """So many races of each kind: a list and a correction, a step forced twice, a number appealed twice.

    ``to_first``: no more once one of them was wrong.
    """
    began, broken, done = time.monotonic(), list[str](), 0
    with BUGS[plant]() if plant else ExitStack(), _fine_turns(), _track(url, seed) as track:
        for done in range(1, races + 1):
            for race in (track.list_race, track.force_race, track.appeal_race):
                try:
                    race()
                except _Wrong as wrong:
                    broken.append(str(wrong))
            progress(done, races)
            if broken and to_first:
                break
    return Raced(
        *("postgresql" if url else "sqlite", seed, done, dict(track.kinds)),
        {stage: track.stages[stage] for stage in STAGES},
        *(track.redrawn, track.same_step, 1000 * track.usual("list"), time.monotonic() - began),
        *(len(broken), broken[0] if broken else ""),
    )
