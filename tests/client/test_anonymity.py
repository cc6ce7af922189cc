"""A phone with a relay: what it believes, what it refuses, and that nothing but two messages names its device."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.client.fake_server import DAY, FakeService, over_http
from tests.client.lists_on_disk import put_list
from tests.client.world import World

from hushcall.client.reporting import anonymity, split_view
from hushcall.client.reporting.anonymity import AnonymousTransport, Route
from hushcall.client.reporting.consent import Limits
from hushcall.client.reporting.transport import Answer, HttpTransport
from hushcall.client.setup import Options, set_up
from hushcall.client.storage.store import Store
from hushcall.errors import InvalidParameter, Refused, Unreachable
from hushcall.protocol import round_commitment
from hushcall.protocol.anonymity import hpke, ohttp
from hushcall.protocol.anonymity.ohttp import KeyConfig
from hushcall.protocol.blocklist import iso
from hushcall.protocol.randomness import seeded
from hushcall.protocol.round_document import RoundInfo
from hushcall_lab.proofs import linking
from hushcall_lab.proofs.linking import RELAY, SERVER, START, Linker

GATEWAY = KeyConfig(1, hpke.public_key(hpke.generate_key(seeded(b"a gateway"))))


@dataclass
class Street:
    """One phone in a folder before a server that a test has lie, on a clock that a test moves."""

    folder: Path
    lie: str = ""
    change: Callable[[dict[str, Any]], dict[str, Any]] = lambda document: document
    linker: Linker = field(init=False)

    def __post_init__(self) -> None:
        self.linker = Linker(self.lie, 1)
        honest = self.linker.round
        self.linker.round = lambda: self.sign(self.change(honest()))  # type: ignore[method-assign]
        self.phone = linking.Phone(self.linker, self.folder, 0).client
        put_list(self.folder, START - DAY, START + 90 * DAY)

    def sign(self, document: dict[str, Any]) -> dict[str, Any]:
        message = round_commitment.to_sign(document)
        return {**document, "signatures": [{"keyid": "k", "sig": self.linker.key.sign(message).hex()}]}

    def at(self, seconds: float) -> str:
        """What a run comes to at that moment of the first day."""
        self.linker.now = START + seconds
        return self.phone.report().words


@pytest.fixture
def street(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Street]:
    made = Street(tmp_path / "phone")
    monkeypatch.setattr(anonymity, "gateway_by", made.linker.relay_key)
    yield made
    made.phone.close()


def test_a_round_is_looked_at_twice_before_the_device_is_named_and_in_no_run_both_happen(street: Street) -> None:
    assert "looks again" in street.at(10)
    assert "nothing to ask" in street.at(11)
    assert "will ask for a token" in street.at(3700)
    assert street.linker.direct == []
    looks = len(street.linker.looks)
    assert "has a token" in street.at(DAY // 4 - 1)
    assert street.phone.sync_at() > street.linker.now, "the list is not fetched in the run that named the device"
    assert [one.path for one in street.linker.direct] == ["/v1/rounds/1/tokens"]
    assert len(street.linker.looks) == looks == 2
    assert "announced" in street.at(DAY // 2 - 1)
    assert len(street.linker.direct) == 1
    assert len(street.linker.announced) == 1


def test_a_round_that_is_another_at_the_second_look_is_the_last(street: Street) -> None:
    street.at(10)
    street.change = lambda document: {**document, "seed": "ab" * 32}
    assert "two different documents of round 1" in street.at(3700)
    street.change = lambda document: document
    assert "two different documents of round 1" in street.at(2 * 3700)
    assert street.linker.direct == []


def _without_times(document: dict[str, Any]) -> dict[str, Any]:
    names = ("token_key", "gateway", "relay")
    return {**document, "anonymous": {name: document["anonymous"][name] for name in names}}


def _with_phases_of(seconds: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def changed(document: dict[str, Any]) -> dict[str, Any]:
        times = {"opens": START, "collects": START + 2 * seconds, "closes": START + 3 * seconds}
        return {**document, "anonymous": {**document["anonymous"], **{name: iso(at) for name, at in times.items()}}}

    return changed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_without_times, "older than this phone and does not sign when its rounds are"),
        (_with_phases_of(3599), "has 3599 seconds, and the owner wants 3600"),
        (lambda document: {**document, "server_time": iso(START + 400)}, "differ by 390 seconds"),
        (lambda document: {name: document[name] for name in document if name != "anonymous"}, "reports by name"),
    ],
    ids=["a server of before", "short phases", "another clock", "by name"],
)
def test_rounds_that_would_tell_are_refused_with_the_reason(street: Street, change: Any, words: str) -> None:
    street.change = change
    assert words in street.at(10)
    assert street.phone.store.rows("SELECT * FROM rounds") == []


def test_an_unsigned_round_is_refused(street: Street) -> None:
    street.linker.key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    assert "signature of the server's round does not hold" in street.at(10)
    street.sign = lambda document: {**document, "signatures": []}  # type: ignore[method-assign]
    assert "not signed" in street.at(1000)


def test_without_the_list_s_keys_nothing_is_joined(street: Street) -> None:
    (street.phone.store.lists / "metadata" / "root.json").unlink()
    assert "run hushcall phone sync" in street.at(10)
    assert street.phone.store.rows("SELECT * FROM rounds") == []


def test_a_key_that_the_phone_does_not_know_makes_it_fetch_nothing(street: Street) -> None:
    street.at(10)
    street.linker.attack, street.sign = "rotation", lambda document: document  # type: ignore[method-assign]
    for hour in range(6, 12):
        assert "no key that this phone knows" in street.at(hour * 3600)
    assert street.linker.direct == []


@pytest.mark.parametrize("seconds", [90 * DAY, 100 * DAY])
def test_a_phone_whose_list_has_expired_takes_no_part(street: Street, seconds: int) -> None:
    assert "looks again" in street.at(10)
    assert "its list expired" in street.at(seconds)


def test_a_phone_by_name_stops_as_well_and_after_three_days_without_any_list(tmp_path: Path) -> None:
    world = World()
    world.phone.store = Store.open(tmp_path)
    world.calls("+12025550143")
    assert [one.action for one in world.day(0)] == ["announced", "sent"]
    assert [one.action for one in world.day(2)] == ["announced", "sent"]
    assert "no list has come for three days" in world.day(3)[0].words
    put_list(tmp_path, int(world.now), int(world.now) + DAY)
    assert world.day(4)[0].action == "announced"
    put_list(tmp_path, int(world.now), int(world.now) + DAY // 4)
    assert world.day(5)[0].action == "stopped"
    world.phone.close()


@pytest.mark.parametrize(
    ("status", "problem", "error"),
    [
        (200, "", Unreachable),
        (201, "", Unreachable),
        (302, "", Unreachable),
        (409, "already-announced", Unreachable),
        (400, "token-spent", Unreachable),
        (503, "wrong-phase", Refused),
        (400, "sealed-otherwise", Refused),
    ],
)
def test_what_a_relay_says_by_itself_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, status: int, problem: str, error: type[Exception]
) -> None:
    document = json.dumps({"type": f"urn:hushcall:problem:{problem}", "ticket": "0" * 32}).encode()
    answer = Answer(status, {"Content-Type": "application/json"}, document)
    monkeypatch.setattr(AnonymousTransport, "fetch", lambda *_: answer)
    transport = AnonymousTransport(SERVER, Route(GATEWAY, RELAY), b"token", sleep=lambda _: None)
    with pytest.raises(error) as raised:
        transport.announce(1, 202)
    if isinstance(raised.value, Refused):
        assert raised.value.problem == ("sealed-otherwise" if status == 400 else "http-503")


@dataclass
class _Hosts:
    """A server and its relay, which gives the gateway's key."""

    server: str
    keys: bytes = ohttp.encode_configs(GATEWAY)

    def fetch(self, transport: HttpTransport, method: str, url: str, body: Any, headers: Any) -> Answer:
        if url == RELAY:
            return Answer(200 if self.keys else 405, {"Content-Type": ohttp.KEYS_TYPE}, self.keys)
        return _FETCH(transport, method, url, body, headers)


_FETCH = HttpTransport.fetch


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Hosts]:
    with over_http(FakeService(lambda: START)) as url:
        made = _Hosts(url)
        monkeypatch.setattr(HttpTransport, "fetch", lambda *given: made.fetch(*given))  # noqa: PLW0108
        yield made


def test_the_owner_chooses_the_relay_and_there_are_no_names_then(hosts: _Hosts, tmp_path: Path) -> None:
    result = set_up(tmp_path, hosts.server, Options(relay=RELAY, log=f"{RELAY}/log"))
    assert result.limits.by_name is False
    with closing(Store.open(tmp_path)) as store:
        assert anonymity.route_of(store) == Route(GATEWAY, RELAY)
        assert store.get(split_view.LOG) == f"{RELAY}/log"
    assert set_up(tmp_path, None, Options(limits={"by_name": True})).limits.by_name is True
    with closing(Store.open(tmp_path)) as store:
        assert anonymity.route_of(store) is None


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (Options(limits={"by_name": False}), "relay"),
        (Options(relay="http://127.0.0.1:9/relay"), "relay"),
        (Options(log="http://127.0.0.1/log"), "log"),
        (Options(relay=RELAY, limits={"by_name": True}), "relay"),
        (Options(relay="relay.example"), "relay"),
    ],
    ids=["none", "the server's host", "the server's log", "by name too", "no address"],
)
def test_a_relay_is_needed_and_not_the_server_s(hosts: _Hosts, tmp_path: Path, options: Options, field: str) -> None:
    with pytest.raises(InvalidParameter) as raised:
        set_up(tmp_path, hosts.server, options)
    assert raised.value.field == field
    with closing(Store.open(tmp_path)) as store:
        assert store.get("server") == ""


def test_a_relay_of_before_gives_no_key(hosts: _Hosts, tmp_path: Path) -> None:
    hosts.keys = b""
    with pytest.raises(Refused, match="does not give its gateway's key"):
        set_up(tmp_path, hosts.server, Options(relay=RELAY))


def test_a_phone_of_before_goes_on_through_the_relay_that_it_had(hosts: _Hosts) -> None:
    hosts.keys = b""  # a relay of before gives none
    info = Linker("", 1).round()["anonymous"]
    for relay, host, goes_on in ((RELAY, SERVER, True), (f"{SERVER}/relay", SERVER, False), ("", SERVER, False)):
        store = Store.in_memory()
        store.put("server", host)
        store.put("anonymity.terms", json.dumps({**info, "relay": relay}))
        assert (anonymity.route_of(store) is not None) is goes_on
        assert anonymity._route_now(store) == anonymity.route_of(store)
    anonymity.save_route(store, RELAY, GATEWAY)
    with pytest.raises(Refused, match="does not give its gateway's key"):
        anonymity._route_now(store)
    store.put("anonymity.terms", json.dumps({**info, "relay": RELAY}))
    anonymity.save_route(store, "", None)
    assert anonymity.route_of(store) is None, "the owner's choice replaces the server's of before"


@pytest.mark.parametrize(("at", "seconds"), [(0, 3600), (DAY // 4 - 5000, 2500), (DAY // 4 + 1, 0)])
def test_the_second_look_is_in_the_first_half_of_what_is_left_until_tokens_end(
    street: Street, at: int, seconds: int
) -> None:
    now, info = START + at, RoundInfo.from_plain(street.linker.round())
    store, limits = street.phone.store, Limits.load(street.phone.store)
    context: Any = SimpleNamespace(store=store, info=info, limits=limits, now=now)
    assert anonymity.middle(info) == START + DAY // 4
    assert anonymity.seconds_to_look(context) == seconds
    anonymity.save_route(store, "", None)
    assert anonymity.seconds_to_look(context) == 0


def test_anonymous_only_without_a_relay_says_what_to_do(tmp_path: Path) -> None:
    made = Street(tmp_path / "phone")
    anonymity.save_route(made.phone.store, "", None)
    assert "no relay is chosen (hushcall phone init --relay)" in made.at(10)
    made.phone.close()


@dataclass
class _Log:
    """A log that somebody else keeps. A test writes what its keeper was shown."""

    lines: list[bytes] = field(default_factory=list)

    def add(self, what: str, id_: int, sha256: str) -> None:
        self.lines.append(json.dumps({"at": iso(START), "id": id_, "sha256": sha256, "what": what}).encode())

    def shown(self, document: dict[str, Any]) -> None:
        for part, body in round_commitment.parts(document).items():
            self.add(part, document["round"], round_commitment.digest(body))


@pytest.fixture
def log(street: Street, monkeypatch: pytest.MonkeyPatch) -> _Log:
    made, fetch = _Log(), HttpTransport.fetch

    def read(transport: HttpTransport, method: str, url: str, body: Any, headers: Any) -> Answer:
        if url == f"{RELAY}/log":
            return Answer(200, {}, b"\n".join(made.lines) + b"\n" if made.lines else b"")
        return fetch(transport, method, url, body, headers)

    monkeypatch.setattr(HttpTransport, "fetch", read)
    street.phone.store.put(split_view.LOG, f"{RELAY}/log")
    return made


def test_a_round_that_the_log_does_not_have_is_not_joined(street: Street, log: _Log) -> None:
    assert "the log does not have opened 1 yet" in street.at(10)
    log.shown(street.linker.round())
    assert "looks again" in street.at(1000)


def test_a_twin_is_found_at_the_next_look_of_a_phone_with_a_log(street: Street, log: _Log) -> None:
    log.shown({**street.linker.round(), "seed": "ab" * 32})
    words = street.at(10)
    assert "showed this phone another round 1 than it showed the log" in words
    assert split_view.rejection(street.phone.store, SERVER) is not None


def test_a_twin_of_the_list_is_found_at_the_next_look(street: Street, log: _Log) -> None:
    log.shown(street.linker.round())
    meta = {"version": 3, "hashes": {"sha256": hashlib.sha256(b"this phone's").hexdigest()}}
    timestamp = {"signed": {"meta": {"snapshot.json": meta}}}
    (street.phone.store.lists / "metadata" / "timestamp.json").write_text(json.dumps(timestamp), encoding="ascii")
    assert "the log does not have snapshot 3 yet" in street.at(10)
    log.add("snapshot", 3, hashlib.sha256(b"everybody's").hexdigest())
    assert "showed this phone another list than it showed the log" in street.at(1000)


def test_a_log_that_is_rewritten_is_found(street: Street, log: _Log) -> None:
    log.shown(street.linker.round())
    street.at(10)
    log.lines[0] = log.lines[0].replace(b"Z", b" ", 1)
    assert "changed where it should only grow" in street.at(3700)


def test_a_log_that_says_two_things_or_nothing(street: Street, log: _Log) -> None:
    log.lines = [b"<html>"]
    assert "there is no log at" in street.at(10)
    log.lines = []
    log.shown(street.linker.round())
    log.shown({**street.linker.round(), "seed": "ab" * 32})
    assert "another round 1" in street.at(1000)


def test_the_list_is_fetched_through_the_relay_at_a_moment_of_its_own(street: Street, monkeypatch: Any) -> None:
    monkeypatch.setattr("hushcall.client.screening.list_sync.ListClient", linking._Lists)
    street.linker.now = START + 100
    assert street.phone.sync_at() == 0
    street.phone.sync()
    assert street.linker.direct == []
    assert 12 * 3600 <= street.phone.sync_at() - street.linker.now < 24 * 3600


def test_a_run_with_nothing_to_say_does_not_wait(street: Street) -> None:
    waits = {street.phone.seconds_to_wait() for _ in range(50)}
    assert len(waits) > 20
    assert max(waits) < 900
    street.at(10)
    street.phone.store.put(anonymity.LOOK_AT, str(START + 3000))
    assert street.phone.seconds_to_wait() == 0


def test_a_round_with_an_id_far_ahead_leaves_no_phone_idle() -> None:
    world = World()
    world.calls("+12025550143")
    world.service.changes = {"round": 1_000_001}
    assert "far ahead" in world.phone.report().words
    world.phone.store.run(  # an earlier release joined it
        "INSERT INTO rounds (server, round, joined, mechanism, number, dummy, bucket, announce_at, report_at, state)"
        " VALUES (?, ?, 0, '', '', 0, 0, 0, 0, 'skipped')",
        *(world.phone.transport.url, (1 << 63) - 1),
    )
    world.service.changes = {}
    assert [one.action for one in world.day(1)] == ["announced", "sent"]


def test_a_ticket_that_does_not_follow_from_the_token_ends_the_round(street: Street, monkeypatch: Any) -> None:
    """A report's seed follows from its ticket: who chooses that could tell an anonymous phone from others."""
    for moment in (10, 3700, DAY // 4 - 1):
        street.at(moment)
    monkeypatch.setattr(AnonymousTransport, "announce", lambda *_: "00" * 16)
    assert "another ticket than the token's" in street.at(DAY // 2 - 1)
    monkeypatch.setattr(AnonymousTransport, "send", lambda *_: pytest.fail("it spoke all the same"))
    assert "nothing left to do (skipped" in street.at(DAY - 1)
