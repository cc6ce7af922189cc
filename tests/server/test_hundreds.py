"""Rounds that ask half of the phones about hundreds of numbers: a rented hundred becomes a range that warns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import Clock, operator_token

from hushcall.client.client import Client
from hushcall.client.screening.list_sync import ListClient
from hushcall.client.screening.lookup import Policy, check
from hushcall.client.storage.personal import Action
from hushcall.decoding.archive.learn import learn
from hushcall.decoding.archive.manifest import Address
from hushcall.decoding.backends import ProcessBackend
from hushcall.decoding.task import BucketSpec
from hushcall.errors import InvalidParameter, Refused
from hushcall.formats.blocklists import WRITERS
from hushcall.mechanisms.mechanism import report_bytes
from hushcall.mechanisms.parameters import about_hundreds, from_plain, to_plain
from hushcall.mechanisms.profiles import PROFILES
from hushcall.protocol.numbers import NANP, Number
from hushcall.protocol.randomness import seeded
from hushcall.protocol.ranges import RANGES_TARGET
from hushcall.protocol.round_document import RoundInfo
from hushcall.protocol.seeds import about_hundred
from hushcall.protocol.wire import Kind
from hushcall.server.db import schema
from hushcall.server.http.public_cache import Lists, PublishedList
from hushcall.server.rounds.archiving import export_round, import_round
from hushcall.server.rounds.round_data import decode_tasks
from hushcall_lab.servers import running
from hushcall_lab.simulation.fleet import Fleet, Operator
from hushcall_lab.simulation.processes import play_day

PHONES, CALLED = 200, 160
RANGE, INSIDE, FRIEND, CLINIC, OUTSIDE = "+120255501xx", *(f"+120255501{last}" for last in (44, 45, 46)), "+12025550244"
SETTINGS: dict[str, Any] = {
    "round": {"profile": "nation", "hundreds": 50, "period": 86_400, "decoders": 0},
    "list": {"window": 7, "exports": ["all"]},
}


def rented(day: int) -> list[list[Number]]:
    """A spammer calls from another number each time, all of one hundred. The other phones hear from strangers."""
    strangers = seeded(b"strangers %d" % day)
    spam = [NANP.number(202, 5550100 + place % 100) for place in range(CALLED)]
    return [[number] for number in [*spam, *(NANP.dummy(strangers, 202) for _ in range(PHONES - CALLED))]]


def one_number(day: int) -> list[list[Number]]:
    return [
        [NANP.number(202, 5550044 + 100 * day)] if place < CALLED else calls for place, calls in enumerate(rented(day))
    ]


def without_hundreds(info: RoundInfo) -> RoundInfo:
    """The document as a client of before reads it: it knows no ``hundreds``."""
    if info.buckets is None:
        return info
    buckets = {name: {key: v for key, v in each.items() if key != "hundreds"} for name, each in info.buckets.items()}
    return replace(info, buckets=buckets)


def grow_old(fleet: Fleet, phones: Sequence[Client]) -> None:
    for phone in phones:
        phone.transport.current_round = lambda: without_hundreds(fleet.round)  # type: ignore[method-assign]


def listed(reader: ListClient) -> tuple[set[str], dict[str, Any]]:
    reader.sync()
    loaded = reader.load()
    numbers = {json.loads(line)["number"] for line in bytes(loaded.data).splitlines()[1:]}
    return numbers, {entry.number: entry for entry in loaded.ranges.entries}


def test_hundreds_are_decoded_only_beside_the_numbers_of_their_round(make_service: MakeService) -> None:
    """Else a number of today could make a range of its hundred: its own count of today would be missing."""
    service = make_service(**SETTINGS)
    number, profile = service.rounds.open(service.now), service.settings.profile
    mechanism = profile.spec.client(profile.epsilon, 5, profile.spec.items.bits(NANP))
    plain = to_plain(mechanism)
    tally = {"round": number, "bucket": -202, "count": 5, "checksum": bytes(32), "data": b"sealed"}
    with service.store.write("a sealed half") as connection:
        row = {"round": number, "bucket": 202, "users": 10, "runs": True, "parameters": json.dumps(plain)}
        connection.execute(sa.insert(schema.buckets).values(**row))
        connection.execute(sa.insert(schema.tallies).values(**tally))
    bucket = BucketSpec(number, 202, 10, 1, profile, NANP, plain).hundreds
    with service.store.read() as connection:
        assert decode_tasks(connection, [number], bucket) == []


def test_anonymous_rounds_ask_about_no_hundreds() -> None:
    """The kind of a report is seen: the anonymity set would be as small as its kind."""
    with pytest.raises(InvalidParameter, match="hundreds must be 0 in anonymous rounds"):
        replace(PROFILES["nation"], anonymous=True)


def test_a_rented_hundred_warns(make_service: MakeService, database: str, clock: Clock, tmp_path: Path) -> None:
    service = make_service(database, **SETTINGS)
    reader = ListClient(tmp_path / "reader", "")
    reader.folder.mkdir()
    with running(service) as url:
        operator = Operator(url, operator_token(service))
        fleet, reader = Fleet(url, operator.enrol(PHONES), clock), replace(reader, server_url=url)
        status = play_day(operator, fleet, clock, rented(1))
        assert (status["state"], status["refused"], status["reports"]) == ("published", {}, PHONES)
        assert (status["parts"], status["parts_decoded"], status["found"]) == (2, 2, 1)
        numbers, ranges = listed(reader)
        assert (numbers, [*ranges]) == (set(), [RANGE])
        assert ranges[RANGE].block is False

        # What a phone does with it.
        loaded, knows = reader.load(), Policy(contacts={FRIEND})
        verdict = check(loaded, INSIDE, now=0)
        assert (verdict.action, verdict.entry) == (Action.WARN, ranges[RANGE])
        assert "in the range +120255501xx" in verdict.why
        assert check(loaded, INSIDE, Policy(block_days=1), now=0).action is Action.WARN, (
            "only its operator blocks ranges"
        )
        assert check(loaded, FRIEND, knows, now=0).action is check(loaded, OUTSIDE, now=0).action is Action.ALLOW

        # What others are told.
        wildcard = httpx.get(f"{url}/api/num/{INSIDE}?format=json").json()
        assert (wildcard["votes"], wildcard["votesWildcard"]) == (0, 2)
        assert f"lies in the range {RANGE}, found as a range" in httpx.get(f"{url}/list?q={INSIDE[1:]}").text
        assert RANGE[1:] not in httpx.get(f"{url}/v1/lists/current/kamailio-ranges.sql").text, "it only warns"

        # What the operator does with it: a number that passes, then an appeal against all of them.
        published = operator.ask("POST", "/v1/admin/allowlist", {"number": CLINIC, "why": "a clinic"})["published"]
        assert published
        _, ranges = listed(reader)
        assert ranges[RANGE].passing == (CLINIC,)
        assert check(reader.load(), CLINIC, now=0).action is Action.ALLOW
        assert check(reader.load(), INSIDE, now=0).action is Action.WARN
        seen = operator.ask("GET", f"/v1/admin/numbers/{RANGE}")
        assert [row["round"] for row in seen["seen"]] == [1]
        appeal = operator.ask(
            "POST", "/v1/admin/appeals", {"number": "(202) 555-01xx", "why": "a hospital", "who": "it"}
        )
        assert appeal["published"]
        assert listed(reader) == (set(), {})
        assert check(reader.load(), INSIDE, now=0).action is Action.ALLOW
        operator.ask("POST", f"/v1/admin/appeals/{appeal['appeal']}/close", {"why": "withdrawn"})
        assert [*listed(reader)[1]] == [RANGE]
        fleet.close()
    with service.store.read() as connection:
        tallies = sa.select(schema.tallies.c.bucket, schema.tallies.c.count).where(schema.tallies.c.count > 0)
        counts = dict(connection.execute(tallies.order_by(schema.tallies.c.bucket)).all())
    assert [*counts] == [-202, 202]
    assert sum(counts.values()) == PHONES


def test_ranges_block_where_the_operator_says_so(make_service: MakeService, clock: Clock, tmp_path: Path) -> None:
    settings = {**SETTINGS, "list": {**SETTINGS["list"], "block_ranges": True, "block_days": 1}}
    settings["round"] = {**SETTINGS["round"], "keep_reports": True}
    service = make_service(**settings)
    with running(service) as url:
        operator = Operator(url, operator_token(service))
        fleet = Fleet(url, operator.enrol(PHONES), clock)
        play_day(operator, fleet, clock, rented(1))
        fleet.close()
        (tmp_path / "reader").mkdir()
        _, ranges = listed(reader := ListClient(tmp_path / "reader", url))
        assert ranges[RANGE].block is True
        assert check(reader.load(), INSIDE, now=0).action is Action.BLOCK
    newest = Lists(service.store).newest()
    assert isinstance(newest, PublishedList)
    for name in ("asterisk-ranges", "kamailio-ranges"):
        assert RANGE[1:] in WRITERS[name].write(newest.blocklist).decode()

    # An archive of the round says the same, here and on another server.
    address = Address(str(tmp_path / "archive"))
    archived = export_round(service.store, 1, address, lambda *_: None)
    assert {bucket.bucket for bucket in archived.buckets} == {202, -202}
    assert archived.decided_together == 1
    assert [row["number"] for row in learn(address, archived, ProcessBackend(0)).listed] == [RANGE]
    other = make_service(folder="other", **settings)
    import_round(other.store, address, archived, lambda *_: None)
    other.rounds.advance(int(clock.now), force=True)
    found = [dict(row._mapping) for row in other.store.rows(sa.select(schema.ranges))]
    assert found == [dict(row._mapping) for row in service.store.rows(sa.select(schema.ranges))]


@pytest.mark.parametrize("days", [2, pytest.param(9, marks=pytest.mark.slow)])
def test_old_phones_and_new_ones_take_part_together(
    make_service: MakeService, database: str, clock: Clock, tmp_path: Path, days: int
) -> None:
    """Phones of before report numbers, whatever the seed says: nothing is refused, nothing is lost."""
    service = make_service(database, **SETTINGS)
    with running(service) as url:
        operator = Operator(url, operator_token(service))
        fleet = Fleet(url, operator.enrol(PHONES), clock)
        grow_old(fleet, fleet.phones[::2])
        (tmp_path / "reader").mkdir()
        reader = ListClient(tmp_path / "reader", url)
        for day in range(1, days + 1):
            status = play_day(operator, fleet, clock, one_number(day))
            assert (status["state"], status["refused"], status["reports"]) == ("published", {}, PHONES)
            numbers, ranges = listed(reader)
            assert f"+1202{5550044 + 100 * day}" in numbers
            assert ranges == {}, "busy numbers are no range"
        with service.store.read() as connection:
            (count,) = connection.scalars(
                sa.select(schema.tallies.c.count).where(schema.tallies.c.bucket == -202, schema.tallies.c.round == 2)
            )
        assert 0.1 * PHONES < count < 0.4 * PHONES, "about half of the new phones, and none of the old"
        fleet.close()


@pytest.mark.parametrize("days", [1, pytest.param(9, marks=pytest.mark.slow)])
def test_new_phones_and_a_server_of_before(make_service: MakeService, clock: Clock, tmp_path: Path, days: int) -> None:
    """Its document says nothing of hundreds, and it publishes no ranges."""
    settings = {**SETTINGS, "round": {**SETTINGS["round"], "profile": "balanced", "hundreds": 0}}
    service = make_service(**settings)
    with running(service) as url:
        operator = Operator(url, operator_token(service))
        fleet = Fleet(url, operator.enrol(PHONES), clock)
        (tmp_path / "reader").mkdir()
        reader = ListClient(tmp_path / "reader", url)
        (reader.folder / RANGES_TARGET).write_bytes(b"of a round before the operator switched hundreds off")
        for day in range(1, days + 1):
            status = play_day(operator, fleet, clock, one_number(day))
            assert (status["refused"], status["reports"], status["parts"]) == ({}, PHONES, 1)
            numbers, ranges = listed(reader)
            assert f"+1202{5550044 + 100 * day}" in numbers
            assert ranges == {}
        assert not (reader.folder / RANGES_TARGET).exists()
        assert "hundreds" not in json.dumps(fleet.round.to_plain())
        fleet.close()


def _taken(phone: Client, round_id: int, ticket: str, body: bytes) -> bool:
    try:
        phone.transport.send(round_id, ticket, body)
    except Refused as refusal:
        return refusal.problem != "malformed-report"
    return True


def test_the_seed_chooses_the_kind(make_service: MakeService, clock: Clock) -> None:
    """A report about a hundred whose seed says "number" is refused, and costs its device's good name."""
    service = make_service(**SETTINGS)
    with running(service) as url:
        operator = Operator(url, operator_token(service))
        fleet = Fleet(url, operator.enrol(PHONES), clock)
        operator.ask("POST", "/v1/admin/rounds/advance")
        fleet.hear(rented(1))
        clock.now = fleet.round.collects - 1
        fleet.visit()
        clock.now += 1
        operator.ask("POST", "/v1/admin/rounds/advance")
        fleet.forget_round()
        info = fleet.round
        mechanism = from_plain(info.parameters_for(202) or {})
        hundreds = about_hundreds(mechanism, NANP)
        assert report_bytes(hundreds) == report_bytes(mechanism) == info.upload_bytes
        answers = []
        for phone in fleet.phones:
            ((ticket,),) = phone.store.rows("SELECT ticket FROM rounds")
            public = info.public_for(ticket)
            body = hundreds.privatise(55501, public, seeded(public))
            answers.append((about_hundred(public, 50), _taken(phone, info.round, ticket, body)))
        assert {*answers} == {(True, True), (False, False)}
        fleet.close()
    assert hundreds.kind is Kind.SUBSPACE_HUNDREDS
