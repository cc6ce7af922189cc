"""A server that wants to know whose an anonymous report is. It sees every connection but those between phone and relay.

Issuer, intake, gateway and list server are one adversary here, and the relay is honest. The clients are the real ones.
The adversary matches devices with announcements: by time, delay, order, or what it showed to whom. A guess gets one
pair of a round right on average, whatever it is, as long as nothing tells.
"""

import base64
import heapq
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import gmpy2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy import stats
from urllib3 import HTTPResponse

from hushcall.client.client import Client
from hushcall.client.reporting import anonymity, split_view
from hushcall.client.reporting.consent import Limits
from hushcall.client.reporting.transport import HttpTransport
from hushcall.client.screening import list_sync
from hushcall.client.screening.lookup import STATE_FILE
from hushcall.client.storage.store import DAY_SECONDS as DAY
from hushcall.client.storage.store import Store
from hushcall.errors import HushcallError
from hushcall.mechanisms.aggregator import Progress, quiet
from hushcall.protocol import round_commitment
from hushcall.protocol.anonymity import binary_http, blind_rsa, hpke, ohttp, tokens
from hushcall.protocol.anonymity.ohttp import KeyConfig
from hushcall.protocol.blocklist import iso
from hushcall.protocol.randomness import seeded
from hushcall.protocol.round_document import AnonymityInfo, Schedule
from hushcall.protocol.states import ANNOUNCING, CLOSED, COLLECTING
from hushcall.server.anonymity import TokenSecret, signing_key
from hushcall.server.http.routes.gateway import PADDING_BYTES
from hushcall.server.relay import FOLLOW_SECONDS
from hushcall_lab.proofs.adversary import document, respond
from hushcall_lab.proofs.promises import MEMORY, Broken, require

START = 20_000 * DAY
RUN_SECONDS = 900
LOG = "http://relay.example/log"
SERVER, RELAY, OWN_RELAY = "http://server.example", "http://relay.example", "http://server-relay.example"
MAX_CHANCE = 1e-7
OWN_ROUNDS, OWN_KEYS = 24, 200
"""So many rounds of its own an adversary shows at once, and the first number of its gateway keys for each."""
ATTACKS = {
    "an honest server": "",
    "a key that nobody knows": "rotation",
    "times of its own for each asker": "times",
    "a round of its own for each quarter of an hour": "slots",
    "a gateway key of its own for each phone that asks its relay": "keys",
    "phases of seconds": "short",
    "a clock of its own for each asker": "clock",
    "a relay of its own": "relay",
    "a gateway key of its own for each asker": "gateway",
    "a server of before": "before",
    "a list that is held back until it expires": "expired",
    "a copy of the server that its log does not know": "twin",
}
REFUSED = frozenset({"times", "short", "clock", "gateway", "before", "expired", "twin"})
"""Lies that no client takes part in."""


@cache
def _secret(place: int = 0) -> TokenSecret:
    """A token key that follows from a seed. Rounds of their own have one each."""
    rng = random.Random(f"the issuer's key {place}")
    p, q = (int(gmpy2.next_prime(rng.getrandbits(1024) | 3 << 1022)) for _ in range(2))
    return TokenSecret(p, q)


@dataclass(frozen=True)
class Direct:
    at: float
    place: int
    path: str


@dataclass
class Linker:
    """The adversary. ``attack``: how it lies."""

    attack: str
    seed: int
    now: float = START
    direct: list[Direct] = field(default_factory=list)
    looks: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    announced: list[tuple[float, int, bytes]] = field(default_factory=list)  # when, in which round, with which token
    own_relay: int = 0
    relayed: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    asker: int = 0
    refused_in: int = -1
    asked: list[tuple[int, int]] = field(default_factory=list)  # which device, with a token of which key
    truth: dict[bytes, int] = field(default_factory=dict)  # token → phone: what is to be guessed

    def __post_init__(self) -> None:
        self.rng = random.Random(f"linker {self.seed}")
        self.gateway_secret = hpke.generate_key(seeded(b"gateway"))
        self.gateway = KeyConfig(1, hpke.public_key(self.gateway_secret))
        self.others: dict[int, tuple[KeyConfig, bytes]] = {}
        self.key = Ed25519PrivateKey.from_private_bytes(seeded(b"timestamp key")(32))
        self.strange = Ed25519PrivateKey.from_private_bytes(seeded(b"a newer key")(32))

    def root(self) -> str:
        public = self.key.public_key().public_bytes_raw().hex()
        signed = {"keys": {"k": {"keyval": {"public": public}}}, "roles": {"timestamp": {"keyids": ["k"]}}}
        return json.dumps({"signed": signed})

    @property
    def slot(self) -> int:
        """Which of its rounds or keys the adversary shows now, where these change with time."""
        return int(self.now // (FOLLOW_SECONDS if self.attack == "keys" else RUN_SECONDS) % OWN_ROUNDS)

    def relay_key(self, _: str) -> KeyConfig:
        """The gateway's key that the relay gives to everybody who asks it now."""
        self.relayed += 1
        return self._own_key(OWN_KEYS + self.slot) if self.attack == "keys" else self.gateway

    def _own_key(self, key_id: int) -> KeyConfig:
        if key_id not in self.others:
            secret = hpke.generate_key(seeded(f"gateway {key_id}".encode()))
            self.others[key_id] = KeyConfig(key_id, hpke.public_key(secret)), secret
        return self.others[key_id][0]

    def log(self) -> bytes:
        """What everybody but these phones is shown."""
        return json.dumps({"what": "opened", "id": (int(self.now) - START) // DAY + 1, "sha256": "0" * 64}).encode()

    def round(self) -> dict[str, Any]:
        day, into = divmod(int(self.now) - START, DAY)
        opens, lie = START + day * DAY, self.attack
        times = [opens, opens + DAY // 2, opens + DAY * 19 // 20]
        state = ANNOUNCING if self.now < times[1] else COLLECTING if self.now < times[2] else CLOSED
        shift = self.rng.randrange(DAY // 4) if lie == "times" and state == ANNOUNCING else 0
        own = self.slot if lie == "slots" else self.asker
        if lie == "short":
            times = [int(self.now), int(self.now) + 8, int(self.now) + 16]
        times = [times[0] + shift, times[1] + shift // 2, times[2]]
        own_key = 2 + len(self.looks) % 250 if lie == "gateway" else OWN_KEYS + self.asker
        gateway = self._own_key(own_key) if lie in ("gateway", "keys") else self.gateway
        relay = OWN_RELAY if lie == "relay" else RELAY
        info = AnonymityInfo(_secret(own).key, gateway, relay, Schedule(*times))
        plain = info.to_plain()
        if lie == "before":
            plain = {name: plain[name] for name in ("token_key", "gateway", "relay")}
        shown = document(day + 1, state, int(self.now), skip=True) | {"anonymous": plain}
        shown |= {name: iso(time) for name, time in zip(("opens", "collects", "closes"), times, strict=True)}
        shown["server_time"] = iso(int(self.now) + (self.rng.randrange(400, DAY // 4) if lie == "clock" else 0))
        strange = lie == "rotation" and into >= DAY // 4
        message = round_commitment.to_sign(shown)
        signature = (self.strange if strange else self.key).sign(message).hex()
        shown["signatures"] = [{"keyid": "new" if strange else "k", "sig": signature}]
        self.looks.append((self.now, shown))
        return shown

    def answer(self, method: str, path: str, authorization: str, body: bytes) -> tuple[int, bytes]:
        if path == "/v1/rounds/current":
            return 200, json.dumps(self.round()).encode()
        if path.endswith("/tokens"):
            secret = next(secret for secret in map(_secret, range(OWN_ROUNDS)) if secret.key.key_id[-1] == body[2])
            self.asked.append((self.direct[-1].place, body[2]))
            blinded = tokens.read_request(secret.key, body)
            return 200, blind_rsa.blind_sign(signing_key(secret.to_bytes()), blinded, seeded(blinded))
        if path.endswith("/announcements"):
            token = base64.urlsafe_b64decode(authorization.partition('"')[2].rstrip('"'))
            self.announced.append((self.now, int(path.split("/")[3]), token))
            return 201, json.dumps({"ticket": tokens.ticket_of_token(token)}).encode()
        return 201 if method == "PUT" else 200, b"a file of the list"

    def refusal(self, message: bytes) -> tuple[int, str] | None:
        """One phone at a time is made to ask its relay for a key. Others are told to wait, as long as they had one."""
        if self.attack != "keys" or message[0] >= OWN_KEYS:
            return None
        first, self.refused_in = self.refused_in != self.slot, self.slot
        return (400, "urn:hushcall:problem:sealed-otherwise") if first else (503, "")

    def sealed(self, message: bytes) -> bytes:
        config, secret = self.others.get(message[0], (self.gateway, self.gateway_secret))
        self.asker = config.key_id - OWN_KEYS if self.attack == "keys" else 0
        plain, exchange = ohttp.decapsulate_request(config, secret, message)
        inner = binary_http.read_request(plain)
        authorization = dict(inner.fields).get("authorization", b"").decode()
        status, data = self.answer(inner.method, inner.path, authorization, inner.content)
        response = binary_http.Response(status, (("content-type", b"application/json"),), data)
        answer = binary_http.padded(response.to_bytes(), PADDING_BYTES)
        return ohttp.encapsulate_response(exchange, answer, seeded(message[-16:]))


@dataclass
class Line:
    linker: Linker
    place: int

    def request(self, method: str, url: str, body: bytes | None, headers: dict[str, str], **_: Any) -> HTTPResponse:
        linker = self.linker
        if url.startswith(SERVER):
            path = url.removeprefix(SERVER)
            linker.direct.append(Direct(linker.now, self.place, path))
            status, data = linker.answer(method, path, headers.get("Authorization", ""), body or b"")
            return respond(status, data, "application/json")
        linker.own_relay += not url.startswith(RELAY)
        if url == LOG:
            return respond(200, linker.log(), "application/jsonl")
        if refusal := linker.refusal(body or b""):
            return respond(refusal[0], json.dumps({"type": refusal[1]}).encode(), "application/problem+json")
        data = linker.sealed(body or b"")
        linker.relayed += 1
        linker.sent_bytes += len(body or b"")
        linker.received_bytes += len(data)
        if linker.announced:
            linker.truth.setdefault(linker.announced[-1][2], self.place)
        return respond(200, data, ohttp.RESPONSE_TYPE)


class _Lists:
    """Stands in for TUF, which is not what is tested here: one file, fetched as the client says."""

    def __init__(self, folder: Path, url: str, _root: Any, _digest: Any, files: Any = None) -> None:
        self.folder, self.url, self.files = folder, url, files

    def sync(self) -> Any:
        address = f"{self.url}/v1/lists/metadata/timestamp.json"
        linker, direct = _DIRECT[self.folder]
        (self.files or direct)(address)
        now = int(linker.now)
        expires = START if linker.attack == "expired" else now + DAY * 3 // 2
        state = {"version": 1, "synced": iso(now), "expires": iso(expires)}
        (self.folder / STATE_FILE).write_text(json.dumps(state), encoding="ascii")

    def named_rounds(self) -> dict[int, dict[str, str]]:
        return {}


_DIRECT: dict[Path, tuple[Linker, Callable[[str], Any]]] = {}


class Phone:
    def __init__(self, linker: Linker, folder: Path, place: int) -> None:
        self.linker, rng = linker, random.Random(f"phone {linker.seed} {place}")
        self.starts = START - DAY // 8 + rng.random() * RUN_SECONDS
        store = Store.open(folder)
        (store.lists / "metadata").mkdir(parents=True)
        (store.lists / "metadata" / "root.json").write_text(linker.root(), encoding="ascii")
        Limits(by_name=False).save(store)
        store.put("server", SERVER)
        store.put(split_view.LOG, LOG if linker.attack == "twin" else "")
        anonymity.save_route(store, RELAY, linker.gateway)
        line = Line(linker, place)
        transport = HttpTransport(SERVER, f"hcd_{place}", sleep=lambda _: None, pool=line)
        transport._relay_pool = line
        _DIRECT[store.lists] = linker, lambda url: transport.fetch("GET", url, None, {})
        rand = seeded(f"phone {linker.seed} {place}".encode())
        self.client = Client(store, transport, rand=rand, clock=lambda: linker.now)

    def run(self, at: float) -> Iterator[float]:
        """``hushcall phone report; hushcall phone sync``, as timers run it. Gives the moments at which it goes on."""
        yield at + self.client.seconds_to_wait()
        with suppress(HushcallError):
            self.client.report()
        yield self.linker.now + 2.3
        with suppress(HushcallError):
            if not self.client.sync_at():
                self.client.sync()


def _simulate(attack: str, phones: int, days: int, seed: int, progress: Progress) -> tuple[Linker, list[Phone]]:
    linker = Linker(attack, seed)
    folder = Path(tempfile.mkdtemp(prefix="hushcall-linking-", dir=MEMORY))
    try:
        relay = patch.object(anonymity, "gateway_by", linker.relay_key)
        with relay, patch.object(list_sync, "ListClient", _Lists):
            street = [Phone(linker, folder / str(place), place) for place in range(phones)]
            waiting: list[tuple[float, int, int, Any]] = []
            for place, phone in enumerate(street):
                heapq.heappush(waiting, (phone.starts, place, 0, None))
            while waiting:
                at, place, number, going = heapq.heappop(waiting)
                if at >= START + days * DAY:
                    continue
                linker.now = at
                if going is None:
                    going = street[place].run(at)
                    heapq.heappush(waiting, (at + RUN_SECONDS, place, number + 1, None))
                moment = next(going, None)
                if moment is not None:
                    heapq.heappush(waiting, (moment, place, -number - 1, going))
                progress(int(at - START), days * DAY)
        return linker, street
    finally:
        for phone in street:
            phone.client.close()
        shutil.rmtree(folder, ignore_errors=True)


Guess = dict[bytes, int]
Asked = list[tuple[float, int]]
Spoken = list[tuple[float, bytes]]


def _guesses(linker: Linker, round_: int) -> dict[str, Guess]:
    """Matchings of a round's tokens with devices, by what the adversary saw."""
    opens = START + (round_ - 1) * DAY
    asked = [(one.at, one.place) for one in linker.direct if one.path == f"/v1/rounds/{round_}/tokens"]
    spoken = [(at, token) for at, number, token in linker.announced if number == round_]
    today = [one for one in linker.direct if opens <= one.at < opens + DAY]
    places, spoken_tokens = [place for _, place in asked], [token for _, token in spoken]
    return {
        "order": dict(zip(spoken_tokens, places, strict=False)),
        "reversed order": dict(zip(spoken_tokens, reversed(places), strict=False)),
        "who spoke directly last before": _beside(spoken, today, -RUN_SECONDS, 0),
        "who spoke directly next": _beside(spoken, today, 0, RUN_SECONDS),
        "the second of the quarter of an hour": _nearest(asked, spoken, _apart_in_run),
        "a fixed delay": _by_delay(asked, spoken),
        "the times that were shown": _by_times(linker, round_, asked, spoken),
        "the round that was shown": _by_key(linker, spoken_tokens),
    }


def _beside(spoken: Spoken, messages: list[Direct], first: float, last: float) -> Guess:
    guess = {}
    for at, token in spoken:
        near = [one for one in messages if first <= one.at - at <= last]
        if near:
            guess[token] = min(near, key=lambda one: abs(one.at - at)).place
    return guess


def _apart_in_run(a: float, b: float) -> float:
    apart = abs(a - b) % RUN_SECONDS
    return min(apart, RUN_SECONDS - apart)


def _nearest(asked: Asked, spoken: Spoken, apart: Callable[[float, float], float]) -> Guess:
    """Pairs, the closest first."""
    pairs = sorted((apart(a, b), place, token) for a, place in asked for b, token in spoken)
    guess: Guess = {}
    taken: set[int] = set()
    for _, place, token in pairs:
        if token not in guess and place not in taken:
            guess[token] = place
            taken.add(place)
    return guess


def _by_delay(asked: Asked, spoken: Spoken) -> Guess:
    best: tuple[float, Guess] = (float("inf"), {})
    for delay in range(0, DAY // 2, 1800):
        misses = sum(min((abs(b - a - delay) for a, _ in asked), default=0.0) for b, _ in spoken)
        if misses < best[0]:
            best = misses, _nearest(asked, spoken, lambda a, b, delay=delay: abs(b - a - delay))  # type: ignore[misc]
    return best[1]


def _by_key(linker: Linker, spoken: list[bytes]) -> Guess:
    """Who asked for a token of the same key, each device once."""
    guess, left = {}, list(linker.asked)
    for token in spoken:
        if place := next((place for place in left if place[1] == tokens.key_id_of(token)[-1]), None):
            guess[token] = place[0]
            left.remove(place)
    return guess


def _by_times(linker: Linker, round_: int, asked: Asked, spoken: Spoken) -> Guess:
    """Who asked and who spoke within the windows of one shown document, the rarest first."""
    windows = []
    for at, shown in linker.looks:
        if shown["round"] == round_ and "opens" in shown["anonymous"]:
            schedule = AnonymityInfo.from_plain(shown["anonymous"]).schedule
            windows.append((at, schedule.middle, schedule.collects) if schedule else (at, 0, 0))

    def bits(moment: float, before: int) -> int:
        fits = (window[before] <= moment < window[before + 1] for window in windows)
        return sum(1 << place for place, fit in enumerate(fits) if fit)

    asks, words = {at: bits(at, 0) for at, _ in asked}, {at: bits(at, 1) for at, _ in spoken}

    def apart(a: float, b: float) -> float:
        both, either = (asks[a] & words[b]).bit_count(), (asks[a] | words[b]).bit_count()
        return -both / either if either else 0.0

    return _nearest(asked, spoken, apart)


@dataclass(frozen=True)
class Linked:
    """``right``: the most right guesses of any way to guess, ``announced``: how many there were to get right."""

    attack: str
    phones: int
    rounds: int
    announced: int
    right: int
    by: str
    by_chance: int
    requests: float = 0.0
    direct: float = 0.0
    sent_bytes: float = 0.0
    received_bytes: float = 0.0
    """Of a phone and day: to the relay, directly, and the bytes through the relay."""

    def cost(self) -> str:
        return (
            f"a phone sends {self.requests:.1f} requests a day to its relay ({self.sent_bytes / 1000:,.0f} kB, and"
            f" {self.received_bytes / 1000:,.0f} kB of answers, lists apart) and {self.direct:.1f} directly"
        )


def link(attack: str, phones: int, days: int, seed: int = 1, progress: Progress = quiet) -> Linked:
    """Runs one attack. Raises :class:`Broken` where it links more than chance, or gets what it should not."""
    linker, _ = _simulate(ATTACKS[attack], phones, days, seed, progress)
    right: dict[str, int] = {}
    for round_ in range(1, days + 1):
        for by, guess in _guesses(linker, round_).items():
            hits = sum(linker.truth.get(token) == place for token, place in guess.items())
            right[by] = right.get(by, 0) + hits
    by, most = max(right.items(), key=lambda item: item[1])
    limit = int(stats.poisson.isf(MAX_CHANCE, days))  # by chance one guess a round is right on average
    others = {one.path for one in linker.direct if not one.path.endswith("/tokens")}
    require(not linker.own_relay, f"{linker.own_relay} requests went through the server's own relay")
    require(not others, f"clients fetched directly: {', '.join(sorted(others))}")
    asked = sum(one.path.endswith("/tokens") for one in linker.direct)
    require(ATTACKS[attack] not in REFUSED or not asked, f"{asked} devices were named in rounds that nobody else saw")
    require(most <= limit, f"{most} of {len(linker.truth)} announcements were linked by {by}, {limit} come by chance")
    days_of_phones = phones * days
    cost = (linker.relayed, len(linker.direct), linker.sent_bytes, linker.received_bytes)
    return Linked(attack, phones, days, len(linker.truth), most, by, limit, *(value / days_of_phones for value in cost))


def link_all(phones: int, days: int = 1, seed: int = 1, progress: Progress = quiet) -> list[Linked]:
    results = []
    for attack in ATTACKS:
        try:
            results.append(link(attack, phones, days, seed, progress))
        except Broken as error:
            raise Broken(f"{attack}: {error}") from None
    return results
