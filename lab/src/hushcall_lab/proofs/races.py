"""Two servers over one database, and what each does while the other acts.

The excluded numbers are read over a connection of its own right before a list's commit, while its transaction blocks
all corrections. Threads are real, so a run is not reproducible.
"""

import random
import statistics
import sys
import tempfile
import time
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

from hushcall.errors import NotFound
from hushcall.mechanisms.aggregator import Progress, quiet
from hushcall.protocol.anonymity import tokens
from hushcall.protocol.anonymity.tokens import TokenKey
from hushcall.protocol.blocklist import Blocklist
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import seeded
from hushcall.protocol.states import ANNOUNCING, COLLECTING, DECODED, RoundState
from hushcall.server.auth.devices import token_hash
from hushcall.server.db import list_entries, partitions, schema
from hushcall.server.db.store import Store, open_store
from hushcall.server.ingest.ingest import Announce, Intake
from hushcall.server.problems import Problem
from hushcall.server.publishing import exclusions
from hushcall.server.service import Service, open_service
from hushcall.server.settings import load_settings
from hushcall_lab.proofs.promises import Broken, planted, require
from hushcall_lab.proofs.server_bugs import RACE_BUGS
from hushcall_lab.servers import shared
from hushcall_lab.simulation.rig import insert_hitters, must_be_empty

NUMBERS = tuple(NANP.number(NANP.area_codes[place], 5_550_143) for place in range(6))
START = 1_800_000_000
EARLIEST, LATEST = -0.15, 1.15
"""When a correction comes, in shares of the length of publishing. 0 is its beginning."""
RECENT_RACES, UNDISTURBED_LISTS = 15, 3
"""What the length of publishing is estimated from: recent races, and at first lists without a correction."""
KINDS = ("appeal", "allow", "withdraw")
STAGES = ("before", "while it was drafted", "in its transaction", "after")
LISTS = ("decoded to published", "publish a list")
_EXCLUDED = sa.union(
    sa.select(schema.appeals.c.number).where(schema.appeals.c.closed.is_(None)), sa.select(schema.allowed.c.number)
)


@dataclass
class RacesResult:
    """``wrong``: races that broke a promise, the first of them ``broken``. ``same_step``: pairs that forced one state.

    ``stages``: when in publishing corrections came. ``redrawn``: lists that were drafted again because of one.
    """

    database: str
    seed: int
    races: int = 0
    kinds: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    stages: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STAGES, 0))
    redrawn: int = 0
    same_step: int = 0
    publishing_ms: float = 0.0
    seconds: float = 0.0
    wrong: int = 0
    broken: str = ""

    def lines(self) -> list[str]:
        return [
            f"{self.races:,} races of each kind on {self.database}: {self.wrong} broke a promise. Publishing took "
            f"{self.publishing_ms:,.0f} ms at the median. {self.seconds:,.0f} s.",
            *(f"  {count:>5,} corrections came {stage}" for stage, count in self.stages.items()),
            f"  {self.redrawn:>5,} lists were drawn up again because of one",
            f"  {self.same_step:>5,} pairs forced the same step",
            *([f"BROKEN: {self.broken} (seed {self.seed})"] if self.broken else []),
        ]


@dataclass
class _Observer:
    """Notes when transactions begin and end, and which numbers are excluded at the commit of a list."""

    store: Store
    begun: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    excluded: list[tuple[float, frozenset[str]]] = field(default_factory=list)

    def clear(self) -> None:
        for noted in (self.begun, self.ended, self.excluded):
            noted.clear()

    def on_begin(self, connection: Connection) -> None:
        if connection.get_execution_options().get("writes", False):
            self.begun.append(time.monotonic())

    def __call__(self, name: str) -> None:
        write, _, where = name.partition(": ")
        if where == "after commit":
            self.ended.append(time.monotonic())
        elif write in LISTS:
            self.excluded.append((time.monotonic(), _excluded(self.store)))

    def stage(self, moment: float, began: float) -> str:
        if moment < began:
            return STAGES[0]
        if moment > self.ended[-1]:
            return STAGES[3]
        inside = any(begun <= moment <= ended for begun, ended in zip(self.begun, self.ended, strict=True))
        return STAGES[2] if inside else STAGES[1]


def _excluded(store: Store) -> frozenset[str]:
    return frozenset(row[0] for row in store.rows(_EXCLUDED))


@dataclass
class _Track:
    store: Store
    servers: tuple[Service, Service]
    observers: tuple[_Observer, _Observer]
    rng: random.Random
    threads: ThreadPoolExecutor
    result: RacesResult
    durations: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Two rounds found the same numbers. The first is published, the second will be in every race."""
        service = self.servers[0]
        number = service.rounds.open(service.now)
        with self.store.write("two rounds") as connection:
            row = connection.execute(sa.select(schema.rounds)).one()._mapping
            connection.execute(sa.insert(schema.rounds).values(**{**row, "id": number + 1}))
        for round_id in (number + 1, number):
            insert_hitters(service, round_id, NUMBERS)
        service.publisher.publish(number, service.now)
        self.round = number + 1
        for _ in range(UNDISTURBED_LISTS):
            self._set(self.round, state=DECODED)
            self._timed("list", partial(service.publisher.publish, self.round, service.now))
        opened = sa.select(schema.rounds).where(schema.rounds.c.id == service.rounds.open(service.now))
        self.announcing = dict(self.store.rows(opened)[0]._mapping)
        self.keys = dict(self.store.rows(sa.select(schema.anonymity))[-1]._mapping)

    def _set(self, round_id: int, **values: Any) -> None:
        with self.store.write("set") as connection:
            connection.execute(sa.update(schema.rounds).where(schema.rounds.c.id == round_id).values(**values))

    def _timed(self, name: str, act: Callable[[], Any]) -> Any:
        began = time.monotonic()
        result = act()
        self.durations.setdefault(name, []).append(time.monotonic() - began)
        return result

    def usual_seconds(self, name: str) -> float:
        return statistics.median(self.durations.get(name, [0.01])[-RECENT_RACES:])

    def _together(self, first: Callable[[], Any], second: Callable[[], Any], later: float) -> tuple[float, list[Any]]:
        """Runs both, the second so many seconds ``later``. Returns when it began, and both results or exceptions."""
        barrier, began = Barrier(2), [0.0, 0.0]

        def run(place: int, act: Callable[[], Any], wait_seconds: float) -> Any:
            barrier.wait(60)
            time.sleep(max(wait_seconds, 0.0))
            began[place] = time.monotonic()
            try:
                return act()
            except Exception as error:
                return error

        running = [self.threads.submit(run, 0, first, -later), self.threads.submit(run, 1, second, later)]
        results = [each.result(120) for each in running]
        return began[1], results

    def _close_race(self, name: str, first: Callable[[], Any], second: Callable[[], Any]) -> list[Any]:
        length = self.usual_seconds(name)
        return self._together(first, second, self.rng.uniform(-length, length))[1]

    def list_race(self) -> None:
        publisher, operator = self.servers
        number, kind, result = str(self.rng.choice(NUMBERS)), self.rng.choice(KINDS), self.result
        share = self.rng.uniform(EARLIEST, LATEST)
        version = self._prepare(number if kind == "withdraw" else "")
        began = 0.0

        def publish() -> None:
            nonlocal began
            began = time.monotonic()
            publisher.publisher.publish(self.round, publisher.now)

        correct = self._correction(operator, kind, number)
        later = share * self.usual_seconds("list")
        moment, results = self._together(partial(self._timed, "list", publish), correct, later)
        _require_no_errors(results)
        result.kinds[kind] += 1
        result.stages[self.observers[0].stage(moment, began)] += 1
        result.redrawn += len(self.observers[0].excluded) > 1
        self._check_lists(version, bool(results[1]), kind)

    def _prepare(self, appealed: str) -> int:
        """Excludes only this number and makes the round decoded. Returns the version in force."""
        table = schema.appeals.c
        with self.store.write("set") as connection:
            connection.execute(sa.delete(schema.allowed))
            connection.execute(sa.update(schema.appeals).where(table.closed.is_(None)).values(closed=START))
            if appealed:
                row = {"number": appealed, "why": "mine", "who": "its owner", "at": START}
                connection.execute(sa.insert(schema.appeals).values(**row))
            decoded = sa.update(schema.rounds).where(schema.rounds.c.id == self.round).values(state=DECODED)
            connection.execute(decoded)
            version = connection.execute(sa.select(sa.func.max(schema.versions.c.version))).scalar_one()
        for observer in self.observers:
            observer.clear()
        return int(version)

    def _correction(self, operator: Service, kind: str, number: str) -> Callable[[], bool]:
        corrections = operator.corrections
        if kind == "appeal":
            return lambda: corrections.appeal(number, "mine", "its owner", START)[1]
        if kind == "allow":
            return partial(corrections.allow, number, "a school", "operator", START)
        (entry,) = (row.id for row in exclusions.appeals(self.store, number) if row.closed is None)
        return partial(corrections.close, entry, "withdrawn", START)

    def _check_lists(self, version: int, corrected: bool, kind: str) -> None:
        table = schema.versions.c
        query = sa.select(table.version).where(table.version > version).order_by(table.version)
        with self.store.read() as connection:
            versions = connection.execute(query).scalars().all()
            bodies = [list_entries.whole(connection, number) or b"" for number in versions]
        lists = [{entry.number for entry in Blocklist.from_bytes(body).entries} for body in bodies]
        published = zip(self.observers, (True, corrected), strict=True)
        commits = sorted(observer.excluded[-1] for observer, did in published if did)
        require(len(lists) == len(commits), f"{len(commits)} lists were put into force and {len(lists)} are there")
        for numbers, (_, excluded) in zip(lists, commits, strict=True):
            require(not excluded & numbers, f"{kind}: a number came into force that was kept off at that moment")
        complete = lists[-1] == set(map(str, NUMBERS)) - _excluded(self.store)
        require(complete, f"{kind}: when all was done, the list was not what was found less what is kept off")

    def force_race(self) -> None:
        """Two operators force an announcing round on. It must not skip a state that neither has seen."""
        number = self.announcing["id"]
        condition = (number, ANNOUNCING) if self.rng.random() < 0.5 else None
        forced: list[RoundState] = []

        def force(service: Service) -> list[str]:
            look = service.rounds._forced

            def noted(condition: Any) -> dict[int, RoundState]:
                states = look(condition)
                forced.extend(states.values())
                return states

            with patch.object(service.rounds, "_forced", noted):
                return service.rounds.advance(service.now, force=True, seen=condition)

        first, second = (partial(self._timed, "force", partial(force, service)) for service in self.servers)
        _require_no_errors(self._close_race("force", first, second))
        self.result.same_step += forced.count(ANNOUNCING) > 1
        table = schema.rounds.c
        state = self.store.rows(sa.select(table.state).where(table.id == number))[0].state
        self._set(number, **self.announcing)
        require(state == COLLECTING or COLLECTING in forced, f"forced: an announcing round went on to {state}")

    def appeal_race(self) -> None:
        """Two appeal for one number, then both withdraw. One appeal is open, and one withdrawal ends it."""
        number = str(self.rng.choice(NUMBERS))
        appeals = (partial(exclusions.appeal, each.store, number, "mine", "its owner", START) for each in self.servers)
        first, second = (partial(self._timed, "appeal", appeal) for appeal in appeals)
        entries = self._close_race("appeal", first, second)
        still_open = [row.id for row in exclusions.appeals(self.store, number) if row.closed is None]
        single = len(still_open) == 1 and entries == still_open * 2
        require(single, f"appealed: {len(still_open)} appeals of one number are open")
        end = partial(exclusions.close_appeal, entry=still_open[0], why="withdrawn", now=START)
        results = self._close_race("appeal", *(partial(end, service.store) for service in self.servers))
        names = sorted(type(result).__name__ for result in results)
        require(names == ["NoneType", NotFound.__name__], "appealed: two ended one appeal")

    def voice_race(self) -> None:
        """A device announces by name to one server and asks the other for its token. One of the two is refused."""
        first, second = self.servers
        ((_, token),) = first.devices.enrol_many(1, START)
        with self.store.write("set") as connection:  # a race before may have brought the round to its end
            table = schema.anonymity
            connection.execute(sa.update(table).where(table.c.round == self.keys["round"]).values(**self.keys))
            partitions.make(connection, self.announcing["id"])
        key, device = TokenKey.from_bytes(self.keys["token_key"]), token_hash(token)
        request = tokens.write_request(key, tokens.prepare(key, self.announcing["seed"], self.rng.randbytes))
        announcement, intake = Announce(device, self.announcing["id"], 202), Intake(first.store, "race")
        announce = partial(self._timed, "voice", lambda: intake.accept([announcement])[0])
        ask = partial(self._timed, "voice", partial(second.issuer.issue, device, self.announcing["id"], request))
        results = self._close_race("voice", announce, ask)
        _require_no_errors([result for result in results if not isinstance(result, Problem)])
        refusals = sorted(result.name for result in results if isinstance(result, Problem))
        single = refusals in (["already-announced"], ["already-issued"])
        require(single, f"a device spoke by name and with a token: {refusals or 'neither'} was refused")


def _require_no_errors(results: list[Any]) -> None:
    for result in results:
        require(not isinstance(result, Exception), f"{type(result).__name__}: {result}")


@contextmanager
def _track(url: str, seed: int) -> Iterator[_Track]:
    with tempfile.TemporaryDirectory(prefix="hushcall-races-") as folder, ExitStack() as stack:
        settings = load_settings(
            data=Path(folder), database=url, round={"scheduler": False, "decoders": 0, "anonymous": True}
        )
        store = open_store(settings.url)
        stack.callback(store.close)
        must_be_empty(store)
        observers = (_Observer(store), _Observer(store))
        servers = []
        for place, observer in enumerate(observers):
            rand = shared(seeded(f"races {seed} {place}".encode()))
            servers.append(open_service(settings, rand, lambda: START, observer))
            stack.callback(servers[-1].close)
            event.listen(servers[-1].store.engine, "begin", observer.on_begin)  # once SQLite's lock is taken
        threads = stack.enter_context(ThreadPoolExecutor(2))
        result = RacesResult("postgresql" if url else "sqlite", seed)
        yield _Track(store, (servers[0], servers[1]), observers, random.Random(seed), threads, result)


@contextmanager
def _fast_switching() -> Iterator[None]:
    """Threads take turns every tenth of a millisecond, so that any two instructions can be apart."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def prove(
    races: int, seed: int = 1, url: str = "", bug: str = "", progress: Progress = quiet, *, to_first: bool = False
) -> RacesResult:
    began = time.monotonic()
    with planted(RACE_BUGS, bug), _fast_switching(), _track(url, seed) as track:
        result = track.result
        for result.races in range(1, races + 1):
            for race in (track.list_race, track.force_race, track.appeal_race, track.voice_race):
                try:
                    race()
                except Broken as error:
                    result.wrong += 1
                    result.broken = result.broken or str(error)
            progress(result.races, races)
            if result.broken and to_first:
                break
        result.publishing_ms = 1000 * track.usual_seconds("list")
    result.seconds = time.monotonic() - began
    return result
