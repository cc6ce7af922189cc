"""The relay gives the gateway's key and keeps a log; the gateway's key changes, and lists come through the seal."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from tests.server.anonymous import GENEROUS, neighbourhood
from tests.server.conftest import MakeService
from tests.server.serving import CLOSES, COLLECTS, PERIOD, SPAM, START, Clock, Village, serving

from hushcall.client.client import Client
from hushcall.client.reporting import anonymity, split_view
from hushcall.client.reporting.consent import Limits
from hushcall.client.reporting.transport import HttpTransport
from hushcall.client.screening import subscriptions
from hushcall.client.screening.list_sync import SyncResult
from hushcall.client.storage.store import Store
from hushcall.errors import InvalidMessage, Refused
from hushcall.protocol.anonymity import ohttp
from hushcall.protocol.anonymity.tokens import TOKEN_BYTES
from hushcall.protocol.randomness import os_entropy, seeded
from hushcall.server.anonymity import GATEWAY_DAYS, GatewayKeys
from hushcall.server.db import schema
from hushcall.server.http.routes.gateway import ADDRESS, PADDING_BYTES
from hushcall.server.relay import GATEWAY_PATH, Follower, RelaySettings
from hushcall.server.serve import bound, port_of
from hushcall.server.service import Service
from hushcall_lab.servers import running_relay


@pytest.fixture
def service(make_service: MakeService) -> Service:
    place = port_of(bound("127.0.0.1", 0))
    made = make_service("", round={"anonymous": True, "relay": f"http://127.0.0.1:{place}"}, intake=GENEROUS)
    made.rounds.open(made.now)
    return made


def test_the_path_of_the_gateway_is_known_to_relays() -> None:
    assert GATEWAY_PATH == ADDRESS


def test_a_relay_gives_the_gateway_s_key_and_nothing_else(service: Service) -> None:
    with serving(service) as client, running_relay(RelaySettings(str(client.base_url) + ADDRESS)) as relay:
        answer = httpx.get(relay)
        assert answer.headers["content-type"] == ohttp.KEYS_TYPE
        assert answer.content == client.get(ADDRESS).content
        assert anonymity.gateway_by(relay) == HttpTransport(str(client.base_url)).current_round().anonymity.gateway  # type: ignore[union-attr]
        assert [httpx.get(relay + path).status_code for path in ("/healthz", "/log", "/v1/rounds/current")] == [
            200,
            404,
            404,
        ]


def test_the_log_has_each_digest_once_and_only_grows(service: Service, clock: Clock, tmp_path: Path) -> None:
    with serving(service) as client:
        settings = RelaySettings(str(client.base_url) + ADDRESS, log=tmp_path / "log")
        follower, village = Follower(settings, clock), Village(service, clock)
        contents = [b""]
        for moment in (START, START + 1, COLLECTS, CLOSES):
            clock.now = moment
            if moment == COLLECTS:
                village.announce([SPAM] * 6)
            service.rounds.advance(service.now)
            follower.look()
            Follower(settings, clock).look()  # another process, after a restart
            contents.append(follower.log())
    assert all(after.startswith(before) for before, after in pairwise(contents))
    rows = [json.loads(line) for line in contents[-1].splitlines()]
    assert len({(row["what"], row["id"]) for row in rows}) == len(rows)
    assert {row["what"] for row in rows} == {"opened", "decided", "snapshot"}


def test_a_follower_whose_server_is_away_keeps_what_it_has(tmp_path: Path) -> None:
    follower = Follower(RelaySettings("http://127.0.0.1:9" + ADDRESS, log=tmp_path / "log"), lambda: START)
    follower.look()
    assert (follower.keys, follower.log()) == (b"", b"")


def test_the_list_comes_through_the_relay_and_nothing_directly(
    make_service: MakeService, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = bound("127.0.0.1", 0)
    relay = f"http://127.0.0.1:{port_of(place)}"
    service = make_service("", round={"anonymous": True, "relay": relay}, intake=GENEROUS)
    service.rounds.open(service.now)
    with neighbourhood(service, clock, place) as street:
        phone = Client(Store.open(tmp_path / "phone"), HttpTransport(street.url), rand=seeded(b"p"), clock=clock)
        Limits(by_name=False, least_phase=0).save(phone.store)
        anonymity.save_route(phone.store, relay, anonymity.gateway_by(relay))
        monkeypatch.setattr(
            "hushcall.client.screening.list_sync.Urllib3Fetcher._fetch", lambda *_: pytest.fail("fetched directly")
        )
        with pytest.raises(Refused, match="no list yet"):
            phone.sync()
        for moment in (COLLECTS, CLOSES):
            clock.now = moment
            service.rounds.advance(service.now)
        result = phone.sync()
        assert (result.version, result.how) == (1, "full")
        assert phone.sync_at() > clock.now
        # a phone of another server, which subscribes to this list through this server's relay
        other = Client(Store.open(tmp_path / "other"), HttpTransport("http://other.example"), rand=seeded(b"o"))
        subscriptions.add(other.store, street.url, "", relay.replace("127.0.0.1", "localhost"), direct=False)
        ((row, fetched),) = other.sync_others()
        assert isinstance(fetched, SyncResult), fetched
        assert (row.url, fetched.how) == (street.url, "full")
        other.close()
        phone.close()


def test_a_relay_cannot_tell_a_look_from_a_report_by_its_length_in_a_small_round(service: Service) -> None:
    key = GatewayKeys(service.store, os_entropy).configs()[0]
    lengths = set()
    with serving(service) as client:
        for method, path, token, body in (
            ("GET", "/v1/rounds/current", b"", b""),
            ("POST", "/v1/rounds/1/announcements", b"x" * TOKEN_BYTES, b'{"bucket":202}'),
            ("PUT", f"/v1/rounds/1/reports/{'0' * 32}", b"x" * TOKEN_BYTES, bytes(64)),
        ):
            transport = anonymity.AnonymousTransport(str(client.base_url), anonymity.Route(key, "http://relay"), token)
            request = transport._inner_request(method, path, body, "application/octet-stream")
            sealed, _ = ohttp.encapsulate_request(key, request, os_entropy)
            answer = client.post(ADDRESS, content=sealed, headers={"content-type": ohttp.REQUEST_TYPE})
            lengths.add((len(sealed), len(answer.content)))
    assert lengths == {(anonymity.PADDED_BYTES + ohttp.REQUEST_OVERHEAD, PADDING_BYTES + 32)}


def test_the_gateway_s_key_changes_and_the_one_before_is_accepted_for_as_long(
    make_service: MakeService, database: str, clock: Clock
) -> None:
    service = make_service(database, round={"anonymous": True}, intake=GENEROUS)
    keys, seen = GatewayKeys(service.store, os_entropy, clock=lambda: clock.now), dict[int, ohttp.KeyConfig]()
    for number in range(1, 2 * GATEWAY_DAYS + 2):
        assert service.rounds.open(service.now) == number
        seen[number] = keys.configs()[0]
        with service.store.write("a round is over") as connection:
            connection.execute(sa.update(schema.rounds).values(state="published"))
        clock.now += PERIOD
    first, second, third = (seen[number] for number in (1, GATEWAY_DAYS, 2 * GATEWAY_DAYS))
    assert len({first.public, second.public, third.public}) == 3
    assert len(set(seen.values())) == 3
    clock.now += 2
    for config, fits in ((first, False), (second, True), (third, True)):
        sealed, _ = ohttp.encapsulate_request(config, b"hello", os_entropy)
        if fits:
            assert keys.opened(sealed)[0] == b"hello"
        else:
            with pytest.raises(InvalidMessage, match="present one"):
                keys.opened(sealed)


def test_strangers_make_the_gateway_read_its_keys_once_a_second_at_most(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, reads, store = [100.0], list[object](), service.store
    keys = GatewayKeys(store, os_entropy, clock=lambda: now[0])
    (config,) = keys.configs()
    read = type(store).rows

    def counted(own: Any, query: Any) -> Any:
        reads.append(query)
        return read(own, query)

    monkeypatch.setattr(type(store), "rows", counted)
    sealed, _ = ohttp.encapsulate_request(config, b"hello", os_entropy)
    unknown = bytes([config.key_id + 1]) + sealed[1:]
    for message, count in ((sealed, 0), (b"", 0), (unknown, 0), (unknown, 2), (unknown, 2), (sealed, 2)):
        now[0] += 1.0 if count and not reads else 0.0
        if message == sealed:
            assert keys.opened(message)[0] == b"hello"
        else:
            with pytest.raises(InvalidMessage, match="present one"):
                keys.opened(message)
        assert len(reads) == count


def test_a_phone_uses_the_gateway_key_that_its_relay_gives_to_everybody_now(service: Service) -> None:
    with serving(service) as client, running_relay(RelaySettings(str(client.base_url) + ADDRESS)) as relay:
        store = Store.in_memory()
        anonymity.save_route(store, relay, ohttp.KeyConfig(77, bytes(range(32))))
        assert anonymity.look(store, HttpTransport(str(client.base_url), sleep=lambda _: None)).round == 1
        assert anonymity.route_of(store) == anonymity.Route(anonymity.gateway_by(relay), relay)


def test_a_twin_with_the_server_s_own_keys_is_found_by_the_relay_s_log(
    make_service: MakeService, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server shows the phone a round that it has signed, and the relay another."""
    place = bound("127.0.0.1", 0)
    relay = f"http://127.0.0.1:{port_of(place)}"
    service = make_service("", round={"anonymous": True, "relay": relay}, intake=GENEROUS)
    service.rounds.open(service.now)
    with serving(service) as client:
        settings = RelaySettings(str(client.base_url) + ADDRESS, log=tmp_path / "log")
        Follower(settings, clock).look()
        with running_relay(settings, place):
            phone = Client(
                Store.open(tmp_path / "phone"), HttpTransport(str(client.base_url)), rand=seeded(b"p"), clock=clock
            )
            Limits(report=Fraction(16), window=Fraction(99), by_name=False, least_phase=0).save(phone.store)
            anonymity.save_route(phone.store, relay, anonymity.gateway_by(relay))
            phone.store.put(split_view.LOG, f"{relay}/log")
            with pytest.raises(Refused, match="no list yet"):
                phone.sync()
            signed = service.round_signer.signed
            monkeypatch.setattr(service.round_signer, "signed", lambda document: signed({**document, "window": 9}))
            assert "another round 1 than it showed the log" in phone.report().words
            phone.close()
