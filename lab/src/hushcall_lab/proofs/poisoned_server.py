"""The poisoning attack on a running server, over HTTP.

One round has an area code for every scene, of a size at which an outcome fails with a probability below 10⁻⁴. Every
fake also tries to participate twice: with another report for its ticket, and with another area code.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial

import sqlalchemy as sa
import urllib3

from hushcall.client.reporting.transport import HttpTransport
from hushcall.errors import InvalidParameter, Refused
from hushcall.mechanisms import parameters
from hushcall.mechanisms.aggregator import Progress, quiet
from hushcall.mechanisms.bucket_setup import open_bucket
from hushcall.mechanisms.profiles import DEFAULT, Profile
from hushcall.protocol.anonymity import tokens
from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import ByteSource, seeded
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.seeds import SEED_BYTES, report_seed
from hushcall.server.anonymity import parameters_of
from hushcall.server.auth.devices import token_hash
from hushcall.server.db import schema
from hushcall.server.db.rows import existing_round
from hushcall.server.ingest.ingest import Announce, Answer, Decisions, Intake, Upload
from hushcall.server.problems import Problem
from hushcall.server.service import Service
from hushcall_lab.proofs.poisoning import SINGLE_BUCKET_FAKES, TOLERANCE, Law, fake_report, first
from hushcall_lab.servers import running, shared
from hushcall_lab.simulation.rig import filled

MAX_FAILURE = 1e-4
TARGET = 5_550_143
START = 1_800_000_000
AREAS = (201, 202, 203, 205, 206)
OTHER_AREA = 212
THREADS = 6
HONEST = 60
MAX = 4000
NEIGHBOURS = 3
"""Honest phones beside the fakes with two voices,"""
VOICE_ROUNDS = 7
"""in as many rounds as the longest window has."""
VOICES = ((4, DEFAULT.tolerance), (6, DEFAULT.tolerance), (40, 40))
"""Fakes, and the tolerance: two voices each would list a victim."""


@dataclass(frozen=True)
class Scene:
    area: int
    what: str
    honest: int
    holders: int
    fakes: int
    hides: bool
    listed: bool


@dataclass(frozen=True)
class Outcome:
    """What the server did. ``reports`` were counted, ``second_participants`` were accepted against the rules."""

    scene: Scene
    runs: bool
    reports: int
    listed: bool
    second_participants: int

    @property
    def ok(self) -> bool:
        expected = self.scene.honest + self.scene.fakes if self.runs else 0
        return self.listed == self.scene.listed and self.reports == expected and self.second_participants == 0

    @property
    def line(self) -> str:
        outcome = "listed" if self.listed else "not listed" if self.runs else "skipped, nothing listed"
        return f"{'✓' if self.ok else '✗'} over HTTP: {self.scene.what}: {outcome}"


def scenes(profile: Profile) -> list[Scene]:
    f = profile.tolerance

    def chance(honest: int, holders: int = 0, supporting: int = 0, silent: int = 0) -> float:
        aggregator = open_bucket(profile, NANP, honest + supporting + silent, bytes(SEED_BYTES), len(AREAS))
        return 0.0 if aggregator is None else Law.of(profile, aggregator).chance(honest, supporting, silent, holders)

    enough = first(lambda k: chance(HONEST, supporting=k) >= 1 - MAX_FAILURE, 2 * f, MAX)
    holders = first(lambda h: chance(HONEST + h, holders=h) >= 1 - MAX_FAILURE, 2 * f, MAX)
    drown = first(lambda k: chance(HONEST + holders, holders, silent=k) <= MAX_FAILURE, 10 * f, MAX)
    clients, alone = HONEST + holders, SINGLE_BUCKET_FAKES
    listed_alone = chance(0, supporting=alone) > 1 / 2
    return [
        Scene(AREAS[0], f"{alone} fakes alone in their area code", 0, 0, alone, False, listed_alone),
        Scene(AREAS[1], f"{f} fakes, as many as are tolerated", HONEST, 0, f, False, False),
        Scene(AREAS[2], f"{enough} fakes, as many as the law asks for", HONEST, 0, enough, False, True),
        Scene(AREAS[3], f"a spammer whom {holders} of {clients} phones report", clients, holders, 0, False, True),
        Scene(AREAS[4], f"the same, and {drown} fakes that hide it", clients, holders, drown, True, False),
    ]


@dataclass
class _Device:
    transport: HttpTransport
    scene: Scene
    item: int
    fake: bool
    rand: ByteSource
    ticket: str = ""
    second_participations: int = 0

    def announce(self, info: RoundInfo) -> None:
        self.ticket = self.transport.announce(info.round, self.scene.area)
        self._repeat(lambda: self.transport.announce(info.round, OTHER_AREA), self.ticket)

    def report(self, info: RoundInfo) -> None:
        bucket = (info.buckets or {}).get(str(self.scene.area))
        if bucket is None:
            return
        mechanism = parameters.from_plain(bucket["parameters"])
        public = report_seed(info.seed, bytes.fromhex(self.ticket))
        if self.fake:
            body = fake_report(mechanism, self.item, public, hides=self.scene.hides)
        else:
            body = bytes(mechanism.privatise(self.item, public, self.rand))
        self.transport.send(info.round, self.ticket, body)
        other = body[:-1] + bytes([body[-1] ^ 2])
        self._repeat(lambda: self.transport.send(info.round, self.ticket, other))

    def _repeat(self, ask: Callable[[], object], first_answer: str = "") -> None:
        """A fake tries a second time. It is accepted if the answer is not a repetition of the first one."""
        if self.fake:
            with suppress(Refused):
                answer = ask()
                self.second_participations += answer is None or answer != first_answer


def prove(
    seed: int = 1,
    tolerance: int = TOLERANCE,
    epsilon: float = DEFAULT.epsilon,
    areas: Collection[int] = AREAS,
    progress: Progress = quiet,
) -> list[Outcome]:
    """Plays one round over HTTP on loopback, with a clock that is moved by hand."""
    profile = replace(DEFAULT, epsilon=epsilon, tolerance=tolerance, windows=(1,))
    chosen = [scene for scene in scenes(profile) if scene.area in areas]
    now = float(START)
    with _opened(profile, b"poisoned server %d" % seed, lambda: now) as service, running(service) as url:
        devices = list(_devices(service, url, chosen, seed))
        number, done = service.rounds.open(service.now), 0

        def each(act: Callable[[_Device, RoundInfo], None]) -> RoundInfo:
            nonlocal done
            info = devices[0].transport.current_round()
            with ThreadPoolExecutor(THREADS) as threads:
                for _ in threads.map(lambda device: act(device, info), devices):
                    done += 1
                    progress(done, 2 * len(devices))
            return info

        now = each(_Device.announce).collects
        service.rounds.start_collecting(number, service.now)
        now = each(_Device.report).closes
        service.rounds.close(number)
        service.rounds.learn(number)
        return _outcomes(service, number, chosen, devices)


def _opened(
    profile: Profile, seed: bytes, clock: Callable[[], float], database: str = ""
) -> AbstractContextManager[Service]:
    names = ("epsilon", "tolerance", "windows", "anonymous")
    round_ = {name: getattr(profile, name) for name in names} | {"profile": profile.name}
    sections = {"round": round_, "list": {"exports": []}, "intake": {"linger_ms": 0}}
    return filled(database, shared(seeded(seed)), clock, alone=True, **sections)


def _devices(service: Service, url: str, chosen: Sequence[Scene], seed: int) -> Iterator[_Device]:
    tokens = iter(service.devices.enrol_many(sum(scene.honest + scene.fakes for scene in chosen), service.now))
    pool = urllib3.PoolManager(maxsize=THREADS, retries=False)
    rand = seeded(b"poisoned phones %d" % seed)
    for scene in chosen:
        for place in range(scene.honest + scene.fakes):
            fake = place >= scene.honest
            other = NANP.first_suffix + int.from_bytes(rand(8), "big") % NANP.valid_suffixes
            item = TARGET if fake or place < scene.holders else other
            yield _Device(HttpTransport(url, next(tokens)[1], pool=pool), scene, item, fake, seeded(rand(32)))


def _outcomes(service: Service, number: int, chosen: Sequence[Scene], devices: Sequence[_Device]) -> list[Outcome]:
    tallies, hitters, rows = schema.tallies.c, schema.hitters.c, service.store.rows
    counts = {row[0]: row[1] for row in rows(sa.select(tallies.bucket, tallies.count).where(tallies.round == number))}
    listed = {row.number for row in rows(sa.select(hitters.number).where(hitters.round == number, hitters.strict > 0))}
    return [
        Outcome(
            scene,
            runs=scene.area in counts,
            reports=int(counts.get(scene.area, 0)),
            listed=str(NANP.number(scene.area, TARGET)) in listed,
            second_participants=sum(device.second_participations for device in devices if device.scene is scene),
        )
        for scene in chosen
    ]


@dataclass(frozen=True)
class TwoVoices:
    """Fakes that try to take part by name and with a token. ``second`` participations were accepted in all."""

    devices: int
    tolerance: int
    rounds: int
    runs: int
    blocked: int
    second: int

    @property
    def ok(self) -> bool:
        return self.blocked == 0 and self.second == 0

    @property
    def broken(self) -> str:
        if self.ok:
            return ""
        return f"{self.devices} devices spoke {self.second} times more than once and blocked {self.blocked} victims"

    @property
    def line(self) -> str:
        fakes = f"{self.devices} fakes with two voices each, f = {self.tolerance}"
        times = f"{self.rounds} rounds beside {NEIGHBOURS} honest phones"
        return f"{'✓' if self.ok else '✗'} {fakes}, {times}: {self.blocked} of {self.runs} victims blocked"


def two_voices(
    devices: int, tolerance: int, runs: int, seed: int = 1, url: str = "", progress: Progress = quiet
) -> TwoVoices:
    """Rounds that take names and tokens, over the real issuer, intake and decision. Each run is a new server."""
    profile = replace(DEFAULT, tolerance=tolerance, anonymous=True)
    blocked = second = 0
    for run in range(runs):
        now, rand = float(START), seeded(b"two voices %d %d %d" % (seed, devices, run))
        with _opened(profile, b"two voices %d" % run, lambda: now, url) as service:  # noqa: B023
            tokens_of = [token for _, token in service.devices.enrol_many(NEIGHBOURS + devices, service.now)]
            for day in range(VOICE_ROUNDS):
                now = START + day * 86_400.0
                second += _voices(service, [token_hash(token) for token in tokens_of], rand)
                progress(run * VOICE_ROUNDS + day + 1, runs * VOICE_ROUNDS)
            hitters = schema.hitters.c
            blocking = service.store.rows(sa.select(hitters.number).where(hitters.strict > 0))
            blocked += str(NANP.number(AREAS[0], TARGET)) in {row.number for row in blocking}
    return TwoVoices(devices, tolerance, VOICE_ROUNDS, runs, blocked, second)


def _voices(service: Service, devices: Sequence[bytes], rand: ByteSource) -> int:
    """How many second participations were accepted. Every other fake asks for its token before it announces."""
    number, intake, second = service.rounds.open(service.now), Intake(service.store, "voices"), 0
    voices: list[tuple[bytes, bytes, bool]] = []
    for place, device in enumerate(devices):
        fake = place >= NEIGHBOURS
        ways: list[Callable[[], bytes]] = [partial(bytes, device)]
        if fake:
            ways.insert(place % 2, partial(_token, service, number, device, rand))
        accepted = 0
        for way in ways:
            with suppress(Problem):
                credential = way()
                (answer,) = intake.accept([Announce(credential, number, AREAS[0])])
                if isinstance(answer, Answer):
                    voices.append((credential, bytes.fromhex(answer.body["ticket"]), fake))
                    accepted += 1
        second += accepted - 1
    service.rounds.start_collecting(number, service.now)
    with service.store.read() as connection:
        mechanism, row = Decisions().of(connection, number).mechanisms[AREAS[0]], existing_round(connection, number)
    uploads = []
    for credential, ticket, fake in voices:
        if mechanism is None:
            break
        public = report_seed(row.seed, ticket)
        other = NANP.first_suffix + int.from_bytes(rand(8), "big") % NANP.valid_suffixes
        body = fake_report(mechanism, TARGET, public) if fake else mechanism.privatise(other, public, rand)
        uploads.append(Upload(credential, number, ticket, body))
    intake.accept(uploads)
    service.rounds.close(number)
    service.rounds.learn(number)
    return second


def _token(service: Service, number: int, device: bytes, rand: ByteSource) -> bytes:
    with service.store.read() as connection:
        terms, seed = parameters_of(connection, number), existing_round(connection, number).seed
    if terms is None:
        raise InvalidParameter("round", "take blind tokens", number)
    key = terms.token_key
    pending = tokens.prepare(key, seed, rand)
    return tokens.token_of(key, pending, service.issuer.issue(device, number, tokens.write_request(key, pending)))
