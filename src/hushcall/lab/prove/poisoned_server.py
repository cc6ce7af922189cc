"""The same attack on a running server: devices that enrolled, announce and report over HTTP; what it listed leaves.

One round with an area code for every attack, decoded over all eight million suffixes of each. Sizes follow from the law
(:mod:`~.poisoning_law`) so that each outcome fails to come with a chance below 10⁻⁴. Every fake also asks for a second
voice: another report for its ticket, and another area code for its round. The clock is moved by hand; seeds of rounds,
devices and coins follow from ``seed``, so a run can be repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa
import urllib3

from hushcall.errors import Refused
from hushcall.lab.prove.poisoning import OLD_ATTACK, TOLERANCE, fake_report
from hushcall.lab.prove.poisoning_law import Terms, first
from hushcall.lab.prove.statistics import Progress, quiet
from hushcall.learn.bucket_setup import open_bucket
from hushcall.mechanisms import parameters
from hushcall.numbers import NANP
from hushcall.phone.reporting.transport import HttpTransport
from hushcall.privacy.coins import ByteSource, seeded, shared
from hushcall.profiles import DEFAULT, Profile
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.seeds import SEED_BYTES, report_seed
from hushcall.server.db import schema
from hushcall.server.serve import running
from hushcall.server.service import Service, open_service
from hushcall.server.settings import Settings

SURE = 1e-4
TARGET = 5_550_143
START = 1_800_000_000
AREAS = (201, 202, 203, 205, 206)
THREADS = 6
"""Enough that a commit of the server has company."""
HONEST = 60
MOST = 4000
ELSEWHERE = 212


@dataclass(frozen=True)
class Scene:
    """One area code: who reports there, and whether the target must be listed."""

    area: int
    what: str
    honest: int
    holders: int
    fakes: int
    hides: bool
    listed: bool


@dataclass(frozen=True)
class Outcome:
    """What a scene came to. ``reports`` were counted by the server; ``second_voices`` is how many it let pass."""

    scene: Scene
    runs: bool
    reports: int
    listed: bool
    second_voices: int

    @property
    def ok(self) -> bool:
        """As the law says, with one voice for each device."""
        scene = self.scene
        counted = self.reports == (scene.honest + scene.fakes if self.runs else 0)
        return self.listed == scene.listed and counted and self.second_voices == 0


def scenes(profile: Profile) -> list[Scene]:
    """The attacks, as large as the law asks."""
    f, count = profile.tolerance, len(AREAS)

    def chance(honest: int, holders: int = 0, supporting: int = 0, silent: int = 0) -> float:
        learner: Any = open_bucket(profile, NANP, honest + supporting + silent, bytes(SEED_BYTES), count)
        if learner is None:
            return 0.0
        bits, many = learner.mechanism.bits, learner.hypotheses
        terms = Terms(profile.epsilon, bits, profile.tau, profile.share, many, f)
        return terms.chance(honest, supporting, silent, holders)

    enough = first(lambda k: chance(HONEST, supporting=k) >= 1 - SURE, 2 * f, MOST)
    held = first(lambda h: chance(HONEST + h, holders=h) >= 1 - SURE, 2 * f, MOST)
    drown = first(lambda k: chance(HONEST + held, held, silent=k) <= SURE, 10 * f, MOST)
    spam, alone = HONEST + held, chance(0, supporting=OLD_ATTACK) > 1 / 2
    return [
        Scene(AREAS[0], f"{OLD_ATTACK} fakes alone in their area code", 0, 0, OLD_ATTACK, False, alone),
        Scene(AREAS[1], f"{f} fakes, as many as are tolerated", HONEST, 0, f, False, False),
        Scene(AREAS[2], f"{enough} fakes, as many as the law asks for", HONEST, 0, enough, False, True),
        Scene(AREAS[3], f"a spammer whom {held} of {spam} phones report", spam, held, 0, False, True),
        Scene(AREAS[4], f"the same, and {drown} fakes that hide it", spam, held, drown, True, False),
    ]


@dataclass
class _Clock:
    now: float = START

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class _Device:
    transport: HttpTransport
    area: int
    item: int
    lies: bool
    hides: bool
    coins: ByteSource

    def report(self, shown: RoundInfo, ticket: str) -> bytes | None:
        """What it says; None: its bucket is skipped."""
        terms = (shown.buckets or {}).get(str(self.area))
        if terms is None:
            return None
        mechanism = parameters.from_plain(terms["parameters"])
        public = report_seed(shown.seed, bytes.fromhex(ticket))
        if self.lies:
            return fake_report(mechanism, self.item, public, hides=self.hides)
        return bytes(mechanism.privatise(self.item, public, self.coins))


def attack(
    seed: int = 1,
    tolerance: int = TOLERANCE,
    epsilon: float = DEFAULT.epsilon,
    areas: Collection[int] = AREAS,
    progress: Progress = quiet,
) -> list[Outcome]:
    """One round over HTTP on loopback, with every scene in an area code of its own."""
    profile = replace(DEFAULT, epsilon=epsilon, tolerance=tolerance, windows=(1,))
    clock, wanted = _Clock(), [scene for scene in scenes(profile) if scene.area in areas]
    with _server(profile, seed, clock) as (service, url):
        return _round(service, url, clock, wanted, seed, progress)


@contextmanager
def _server(profile: Profile, seed: int, clock: _Clock) -> Iterator[tuple[Service, str]]:
    round_ = {
        "profile": profile.name,
        "epsilon": profile.epsilon,
        "tolerance": profile.tolerance,
        "windows": list(profile.windows),
    }
    with TemporaryDirectory(prefix="hushcall-") as folder:
        settings = Settings.model_validate(
            {
                "data": Path(folder) / "data",
                "round": {**round_, "decoders": 0, "scheduler": False},
                "list": {"exports": []},
                "intake": {"linger_ms": 0},
            }
        )
        service = open_service(settings, shared(seeded(b"poisoned server %d" % seed)), clock)
        try:
            with running(service) as url:
                yield service, url
        finally:
            service.close()


def _devices(service: Service, url: str, wanted: list[Scene], seed: int) -> list[_Device]:
    tokens = iter(service.devices.enrol_many(sum(one.honest + one.fakes for one in wanted), service.now))
    pool = urllib3.PoolManager(maxsize=THREADS, retries=False)
    coins, devices = seeded(b"poisoned phones %d" % seed), []
    for scene in wanted:
        for place in range(scene.honest + scene.fakes):
            lies = place >= scene.honest
            other = NANP.first_suffix + int.from_bytes(coins(8), "big") % NANP.valid_suffixes
            item = TARGET if lies or place < scene.holders else other
            transport = HttpTransport(url, next(tokens)[1], pool=pool)
            devices.append(_Device(transport, scene.area, item, lies, scene.hides, seeded(coins(32))))
    return devices


def _round(
    service: Service, url: str, clock: _Clock, wanted: list[Scene], seed: int, progress: Progress
) -> list[Outcome]:
    rounds, devices = service.rounds, _devices(service, url, wanted, seed)
    number = rounds.open(service.now)
    halves = iter((0, len(devices)))

    def each(what: Callable[[_Device, str], Any], tickets: Sequence[str]) -> list[Any]:
        before, out = next(halves), []
        with ThreadPoolExecutor(THREADS) as threads:
            for done, answer in enumerate(threads.map(what, devices, tickets), before + 1):
                out.append(answer)
                progress(done, 2 * len(devices))
        return out

    def announce(device: _Device, _: str) -> tuple[str, bool]:
        ticket = device.transport.announce(number, device.area)
        return ticket, device.lies and _passes(lambda: device.transport.announce(number, ELSEWHERE), ticket)

    def report(device: _Device, ticket: str) -> bool:
        body = device.report(shown, ticket)
        if body is None:
            return False
        device.transport.send(number, ticket, body)
        other = body[:-1] + bytes([body[-1] ^ 2])
        return device.lies and _passes(lambda: device.transport.send(number, ticket, other))

    announced = each(announce, [""] * len(devices))
    clock.now = devices[0].transport.current_round().collects
    rounds.start_collecting(number, service.now)
    shown = devices[0].transport.current_round()
    reported = each(report, [ticket for ticket, _ in announced])
    clock.now = shown.closes
    rounds.close(number)
    rounds.learn(number)
    twice = Counter[int]()
    for device, (_, first_time), second_time in zip(devices, announced, reported, strict=True):
        twice[device.area] += first_time + second_time
    return _outcomes(service, number, wanted, twice)


def _passes(ask: Callable[[], object], kept: str = "") -> bool:
    """Whether the server gave in: a second answer that is not the first one."""
    try:
        answer = ask()
    except Refused:
        return False
    return answer is None or answer != kept


def _outcomes(service: Service, number: int, wanted: list[Scene], twice: Counter[int]) -> list[Outcome]:
    table = schema.tallies.c
    counts = {
        row.bucket: row.count
        for row in service.store.rows(sa.select(table.bucket, table.count).where(table.round == number))
    }
    hitters = schema.hitters.c
    found = {row.number for row in service.store.rows(sa.select(hitters.number).where(hitters.round == number))}
    return [
        Outcome(
            scene,
            scene.area in counts,
            int(counts.get(scene.area, 0)),
            str(NANP.number(scene.area, TARGET)) in found,
            twice[scene.area],
        )
        for scene in wanted
    ]
