"""Reports without a name, over HTTP and through a relay: counted once, listed like others, refused where need be."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from tests.server.anonymous import GENEROUS, Neighbourhood, Stranger, neighbourhood, private, told
from tests.server.conftest import MakeService
from tests.server.serving import CLOSES, COLLECTS, SPAM, START, Clock, bearer, honest_report, serving

from hushcall.protocol import round_commitment
from hushcall.protocol.anonymity import tokens
from hushcall.protocol.blocklist import Blocklist
from hushcall.server.db import partitions, schema
from hushcall.server.db.rows import existing_round
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.rounds.round_status import info_of
from hushcall.server.serve import bound, port_of
from hushcall.server.service import Service
from hushcall_lab.servers import running

MIDDLE = (START + COLLECTS) // 2


def anonymous(make_service: MakeService, url: str, relay: str) -> Service:
    return make_service(url, round={"anonymous": True, "relay": relay}, intake=GENEROUS)


@pytest.fixture
def street(make_service: MakeService, database: str, clock: Clock) -> Iterator[Neighbourhood]:
    """A server with its first round open, and its relay, over each database in turn."""
    place = bound("127.0.0.1", 0)
    service = anonymous(make_service, database, f"http://127.0.0.1:{port_of(place)}")
    service.rounds.open(service.now)
    with neighbourhood(service, clock, place) as made:
        yield made


@pytest.fixture
def lone(make_service: MakeService, clock: Clock) -> Iterator[tuple[Service, Stranger]]:
    """A server without a relay, over SQLite, and somebody in front of it."""
    service = anonymous(make_service, "", "")
    service.rounds.open(service.now)
    ((_, token),) = service.devices.enrol_many(1, service.now)
    with serving(service) as client:
        yield service, Stranger(client, token)


def problem(answer: httpx.Response) -> str:
    return str(answer.json()["type"]).rpartition(":")[2]


def newest(service: Service) -> Blocklist:
    with service.store.read() as connection:
        found = newest_list(connection)
    assert found is not None
    return found


def live(street: Neighbourhood, phones: list[Any], moments: list[int]) -> list[list[str]]:
    """Let every phone look at each of these moments; what each of them did."""
    did: list[list[str]] = [[] for _ in phones]
    for moment in moments:
        street.clock.now = moment
        street.service.rounds.advance(street.service.now)
        for place, phone in enumerate(phones):
            did[place].append(phone.report().action)
    return did


def test_a_day_without_names_through_the_relay(street: Neighbourhood) -> None:
    phones = [street.phone(f"phone {i}", (SPAM,) if i < 8 else ()) for i in range(12)]
    live(street, phones, [START, START + 120, MIDDLE - 1, MIDDLE, COLLECTS - 1])
    rows = street.service.store.rows(sa.select(schema.announcements))
    assert len(rows) == 12
    assert all(row.device < 0 for row in rows)
    assert len(street.service.store.rows(sa.select(schema.issued))) == 12
    did = live(street, phones, [COLLECTS, CLOSES - 1])
    assert all(actions[-1] in ("sent", "done", "skipped") for actions in did)
    street.clock.now = CLOSES
    street.service.rounds.advance(street.service.now)
    # Tickets follow from the server's keys, which no seed makes: chance may list a stranger, once in three thousand.
    assert SPAM in [entry.number for entry in newest(street.service).entries]
    assert street.service.store.rows(sa.select(schema.issued)) == []
    assert street.service.store.rows(sa.select(schema.anonymity.c.token_secret)) == [(b"",)]


def test_phones_by_name_and_without_one_are_counted_together(street: Neighbourhood) -> None:
    anonymous = [street.phone(f"nameless {i}", (SPAM,)) for i in range(5)]
    ((_, token),) = street.service.devices.enrol_many(1, street.service.now)
    with httpx.Client(base_url=street.url) as client:
        named = client.post(
            "/v1/rounds/1/announcements", json={"bucket": 202}, headers={"authorization": f"Bearer {token}"}
        )
    assert named.status_code == 201
    live(street, anonymous, [START, START + 120, MIDDLE - 1, COLLECTS - 1, COLLECTS, CLOSES - 1])
    rows = street.service.store.rows(sa.select(schema.announcements.c.device))
    assert sorted(row.device > 0 for row in rows) == [False] * 5 + [True]
    assert len(street.service.store.rows(sa.select(schema.reports))) == 5


@pytest.mark.parametrize("named_first", [True, False])
def test_a_device_takes_part_by_name_or_with_a_token(street: Neighbourhood, named_first: bool) -> None:
    ((_, device),) = street.service.devices.enrol_many(1, street.service.now)
    terms, seed = told(street.service)
    with httpx.Client(base_url=street.url) as client:
        stranger = Stranger(client, device)
        place, named = "/v1/rounds/1/announcements", bearer(device)
        asks = [
            partial(client.post, place, json={"bucket": 202}, headers=named),
            partial(stranger.ask, terms, stranger.wish(terms, seed)),
        ]
        first, second = asks if named_first else asks[::-1]
        assert first().is_success
        refused = second()
        assert problem(refused) == ("already-announced" if named_first else "already-issued")
        assert first().is_success  # a retry is answered as before


@pytest.mark.parametrize("count", [10, pytest.param(1000, marks=pytest.mark.slow)])
def test_the_signed_anonymity_set_of_a_bucket_is_an_independent_count(
    make_service: MakeService, database: str, count: int
) -> None:
    """Generated rounds: participants by name and with a token, over a few area codes."""
    service = make_service(database, round={"anonymous": True, "profile": "cheapest"})
    service.rounds.open(service.now)
    rng, tables = random.Random(count), (schema.rounds, schema.anonymity)
    first, keys = (dict(service.store.rows(sa.select(table))[0]._mapping) for table in tables)
    for number in range(2, count + 2):
        sizes = {area: (rng.randrange(40), rng.randrange(40)) for area in (202, 203, 212)}
        devices = iter(rng.sample(range(1, 1000), 240))
        rows = [
            {"round": number, "device": next(devices) * sign, "bucket": area, "ticket": rng.randbytes(16)}
            for area, pair in sizes.items()
            for sign, users in zip((1, -1), pair, strict=True)
            for _ in range(users)
        ]
        with service.store.write("a round") as connection:
            partitions.make(connection, number)
            connection.execute(sa.insert(schema.rounds).values(**{**first, "id": number}))
            connection.execute(
                sa.insert(schema.anonymity).values(**{**keys, "round": number, "key_id": rng.randbytes(32)})
            )
            service.store.insert_new(connection, schema.announcements, rows, key=("round", "device"))
        service.rounds.start_collecting(number, service.now)
        with service.store.read() as connection:
            document = info_of(connection, existing_round(connection, number), service.now).to_plain()
        sets = {int(area): bucket["crowd"] for area, bucket in document["buckets"].items()}
        assert sets == {area: sizes[area][1] for area in sets}
        assert document["crowd"] == sum(nameless for _, nameless in sizes.values())
        assert json.loads(round_commitment.decided(document))["buckets"] == document["buckets"]
    assert sets


def test_a_phone_that_crashes_anywhere_asks_for_the_same_again(street: Neighbourhood) -> None:
    phone = street.phone("crashing", (SPAM,))
    live(street, [phone], [START, START + 120])
    street.clock.now = MIDDLE - 1
    before = phone.store.rows("SELECT * FROM passes")
    phone.report()
    signed = phone.store.rows("SELECT token FROM passes")[0][0]
    phone.store.run("UPDATE passes SET token = x''")  # the answer was lost
    assert phone.store.rows("SELECT * FROM passes") == before
    phone.report()
    assert phone.store.rows("SELECT token FROM passes")[0][0] == signed
    assert len(street.service.store.rows(sa.select(schema.issued))) == 1


def test_a_relay_that_is_away_is_waited_for_and_nobody_speaks_directly(make_service: MakeService, clock: Clock) -> None:
    place = bound("127.0.0.1", 0)
    port = port_of(place)
    service = anonymous(make_service, "", f"http://127.0.0.1:{port}")
    service.rounds.open(service.now)
    with neighbourhood(service, clock, place) as street:
        phone = street.phone("patient", (SPAM,))
        live(street, [phone], [START, START + 120, MIDDLE - 1])
    again = anonymous(make_service, "", f"http://127.0.0.1:{port}")
    with running(again, scheduler=False) as url, bound("127.0.0.1", port):  # kept, so that nobody else answers there
        phone.transport.address = url  # type: ignore[attr-defined]
        clock.now = COLLECTS - 1
        assert phone.report_patiently().action == "waiting"
    assert again.store.rows(sa.select(schema.announcements)) == []


def test_a_second_token_is_refused_and_the_same_request_is_signed_again(lone: tuple[Service, Stranger]) -> None:
    service, stranger = lone
    terms, seed = told(service)
    pending = stranger.wish(terms, seed)
    first = stranger.ask(terms, pending)
    assert (first.status_code, len(first.content)) == (200, 256)
    assert stranger.ask(terms, pending).content == first.content
    assert problem(stranger.ask(terms, stranger.wish(terms, seed, "greedy"))) == "already-issued"


def test_tokens_are_issued_while_their_round_is_announcing_only(lone: tuple[Service, Stranger], clock: Clock) -> None:
    service, stranger = lone
    terms, seed = told(service)
    assert problem(stranger.ask(terms, stranger.wish(terms, seed), number=99)) == "unknown-round"
    clock.now = COLLECTS
    service.rounds.advance(service.now)
    assert problem(stranger.ask(terms, stranger.wish(terms, seed))) == "wrong-phase"
    assert service.store.rows(sa.select(schema.issued)) == []


def test_a_token_is_spent_once(lone: tuple[Service, Stranger], clock: Clock) -> None:
    service, stranger = lone
    terms, seed = told(service)
    token = stranger.token(terms, seed)
    first = stranger.announce(token)
    assert (first.status_code, first.json()["ticket"]) == (201, tokens.ticket_of_token(token))
    assert stranger.announce(token).status_code == 200
    assert problem(stranger.announce(token, bucket=212)) == "token-spent"
    ((_, device),) = service.devices.enrol_many(1, service.now)
    stranger_two = Stranger(stranger.client, device)
    assert stranger_two.announce(stranger_two.token(terms, seed, rand="two")).status_code == 201
    clock.now = COLLECTS
    service.rounds.advance(service.now)
    current = stranger.client.get("/v1/rounds/current").json()
    body = honest_report(current, tokens.ticket_of_token(token))
    other = bytes([*body[:-1], body[-1] ^ 1])
    assert stranger.report(token, body).status_code == 201
    assert stranger.report(token, body).status_code == 200  # a replay is counted once
    assert problem(stranger.report(token, other)) == "token-spent"
    assert len(service.store.rows(sa.select(schema.reports))) == 1


def test_tokens_of_other_rounds_and_of_nobody_are_refused(lone: tuple[Service, Stranger], clock: Clock) -> None:
    service, stranger = lone
    terms, seed = told(service)
    old = stranger.token(terms, seed)
    forged = bytearray(old)
    forged[-1] ^= 1
    assert problem(stranger.announce(bytes(forged))) == "foreign-token"
    assert problem(stranger.announce(b"x" * 354)) == "foreign-token"
    short = stranger.client.post("/v1/rounds/1/announcements", json={"bucket": 202}, headers=private(b"short"))
    assert problem(short) == "foreign-token"
    clock.now = CLOSES
    service.rounds.advance(service.now, force=True)
    while (row := service.rounds.newest()) is not None and row.id == 1:
        clock.now = row.next
        service.rounds.advance(service.now)
    assert problem(stranger.announce(old, number=2)) == "expired-token"
    assert stranger.announce(old, number=1).status_code in (401, 409)
    assert service.store.rows(sa.select(schema.announcements)) == []


def test_refusals_of_strangers_cannot_hold_a_round(lone: tuple[Service, Stranger]) -> None:
    service, stranger = lone
    for _ in range(20):
        stranger.announce(b"x" * 354)
    assert service.store.rows(sa.select(schema.counters)) == []


@pytest.mark.parametrize(
    "damage", [lambda r: r[:-1], lambda r: b"\0\1" + r[2:], lambda r: r[:3] + bytes(256)], ids=["short", "type", "zero"]
)
def test_requests_for_tokens_that_are_none_are_refused(lone: tuple[Service, Stranger], damage: Any) -> None:
    service, stranger = lone
    terms, seed = told(service)
    request = damage(tokens.write_request(terms.token_key, stranger.wish(terms, seed)))
    answer = stranger.client.post(
        "/v1/rounds/1/tokens", content=request, headers={"authorization": f"Bearer {stranger.device}"}
    )
    assert (answer.status_code, problem(answer)) == (400, "bad-request")


def test_a_round_by_name_issues_nothing(make_service: MakeService) -> None:
    service = make_service()
    service.rounds.open(service.now)
    ((_, token),) = service.devices.enrol_many(1, service.now)
    with serving(service) as client:
        assert "anonymous" not in client.get("/v1/rounds/current").json()
        asked = client.post("/v1/rounds/1/tokens", content=bytes(259), headers=bearer(token))
        assert problem(asked) == "not-anonymous"
        said = client.post("/v1/rounds/1/announcements", json={"bucket": 202}, headers=private(b"x" * 354))
        assert problem(said) == "not-anonymous"
