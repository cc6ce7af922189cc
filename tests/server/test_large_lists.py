"""A publication follows what changed: it writes and parses that, and the list is what all sightings make."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import Clock

from hushcall.protocol import blocklist
from hushcall.protocol.blocklist import Entry, Sighting, apply_delta, listed
from hushcall.protocol.numbers import NANP
from hushcall.server.db import list_entries, schema
from hushcall.server.http.routes import phoneblock
from hushcall.server.publishing import exclusions, publisher
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.service import Service
from hushcall_lab.simulation.rig import insert_hitters

WINDOW, DELTAS = 3, 4


def publish(service: Service, clock: Clock, numbers: list[str]) -> int:
    round_id = service.rounds.open(service.now)
    insert_hitters(service, round_id, map(NANP.parse, numbers))
    service.publisher.publish(round_id, service.now)
    clock.now += 1000
    return round_id


def all_sightings(service: Service) -> tuple[Entry, ...]:
    query = sa.select(schema.hitters, schema.rounds.c.opens).join(schema.rounds)
    rows = service.store.rows(query)
    sightings = [
        Sighting(r.number, r.round, r.opens, r.estimate, r.low, r.high, r.p_value, r.length, r.strict, r.hinted)
        for r in rows
    ]
    with service.store.read() as connection:
        never = exclusions.kept_off_by_operators(connection)
    newest = max(row.round for row in rows)
    return listed(sightings, newest, WINDOW, never, service.settings.list.block_days)


def bytes_of(service: Service, version: int) -> bytes:
    with service.store.read() as connection:
        return list_entries.whole(connection, version) or b""


def deltas(service: Service) -> dict[tuple[int, int], bytes]:
    paths = [path for path in service.store.files() if ".delta-" in path]
    pairs = {path: path.partition(".delta-")[2].removesuffix(".jsonl").split("-") for path in paths}
    return {(int(a), int(b)): (service.store.file(path) or (b"",))[0] for path, (a, b) in pairs.items()}


def test_the_list_is_what_all_sightings_make_and_deltas_lead_to_it(
    make_service: MakeService, database: str, clock: Clock
) -> None:
    service = make_service(database, list={"window": WINDOW, "deltas": DELTAS})
    rng, numbers = random.Random(37), [f"+120255501{place:02}" for place in range(30)]
    for step in range(12):
        publish(service, clock, rng.sample(numbers, rng.randrange(1, 12)))
        appealed = rng.choice(numbers)
        entry, _ = service.corrections.appeal(appealed, "mine", "its owner", service.now)
        if step % 2:
            service.corrections.close(entry, "withdrawn", service.now)
        with service.store.read() as connection:
            newest = newest_list(connection)
        assert newest is not None
        assert newest.entries == all_sightings(service)
        for (old, new), delta in deltas(service).items():
            if new == newest.version:
                assert apply_delta(bytes_of(service, old), delta) == newest.to_bytes()
    assert newest is not None
    assert {new - old for old, new in deltas(service) if new == newest.version} == {1, 2, 3, 4}
    with service.store.read() as connection:
        gone = connection.execute(sa.select(sa.func.min(schema.entries.c.until))).scalar_one()
    assert gone > newest.version - DELTAS, "lines of versions that no delta starts from are forgotten"


def test_a_publication_parses_and_writes_only_what_changed(
    make_service: MakeService, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service("")
    numbers = [f"+1202{2_000_000 + 11 * place}" for place in range(3000)]
    publish(service, clock, numbers)
    made: list[str] = []
    line, parse = Entry.line, Entry.from_line

    def written(entry: Entry) -> bytes:
        made.append(entry.number)
        return line(entry)

    def parsed(data: bytes) -> Entry:
        made.append("parsed")
        return parse(data)

    monkeypatch.setattr(Entry, "line", written)
    monkeypatch.setattr(Entry, "from_line", parsed)
    publish(service, clock, [numbers[7], "+12025550143"])
    assert service.corrections.appeal(numbers[9], "mine", "its owner", service.now)[1]
    assert len(made) < 20
    stored = service.store.rows(sa.select(schema.entries.c.number).where(schema.entries.c.since > 1))
    assert sorted(row.number for row in stored) == sorted([numbers[7], "+12025550143"])
    sizes = service.store.rows(sa.select(sa.func.sum(sa.func.length(schema.files.c.data))))
    assert sizes[0][0] < 40_000, "neither the list nor its deltas are stored again"


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "IN_ONE_WRITE", 6)
    monkeypatch.setattr(list_entries, "CHUNK", 4)


def apps_copy(service: Service) -> dict[str, int]:
    """What an app holds that asks PhoneBlock's interface for all."""
    version = service.store.rows(sa.select(sa.func.max(schema.versions.c.version)))[0][0] or 0
    return {change.phone: change.votes for change in phoneblock._changes(service.store, 0, version, None)}


def interrupt(service: Service, write: str, act: Callable[[], object]) -> None:
    """Acts once, after the second commit of a write."""
    seen: list[str] = []

    def fault(name: str) -> None:
        seen.extend([name] if name == f"{write}: after commit" else [])
        if len(seen) == 2:
            seen.append("once")
            act()

    service.publisher.store = replace(service.store, fault=fault)


NUMBERS = [f"+120255501{place:02}" for place in range(30)]


def test_a_list_that_is_stored_in_parts_is_the_same_list(
    make_service: MakeService, database: str, clock: Clock, in_parts: None
) -> None:
    service = make_service(database, list={"window": WINDOW, "deltas": DELTAS})
    rng = random.Random(5)
    for _ in range(7):
        publish(service, clock, rng.sample(NUMBERS, rng.randrange(1, 24)))
        with service.store.read() as connection:
            newest = newest_list(connection)
        assert newest is not None
        assert newest.entries == all_sightings(service)
        assert apps_copy(service).keys() == {entry.number for entry in newest.entries}
        current = service.store.file(f"targets/{blocklist.digest(newest.to_bytes())}.blocklist.jsonl")
        assert current is not None
        assert current[0] == newest.to_bytes()
        for (old, new), delta in deltas(service).items():
            if new == newest.version:
                assert apply_delta(bytes_of(service, old), delta) == newest.to_bytes()
    assert newest is not None
    assert newest.version > 2 * publisher.ROOM, "several were stored in parts"


def test_a_publication_that_is_killed_between_its_parts_shows_nothing_and_is_done_again(
    make_service: MakeService, database: str, clock: Clock, in_parts: None
) -> None:
    service = make_service(database, list={"window": WINDOW})
    publish(service, clock, NUMBERS[:3])
    before, copy = bytes_of(service, 1), apps_copy(service)
    store = service.store

    def die() -> None:
        raise KeyboardInterrupt

    interrupt(service, "stage a list", die)
    with pytest.raises(KeyboardInterrupt):
        publish(service, clock, NUMBERS)
    with store.read() as connection:
        newest = newest_list(connection)
        assert list_entries.staged(connection, 1 + publisher.ROOM) == 8
    assert newest is not None
    assert (newest.version, newest.to_bytes(), apps_copy(service)) == (1, before, copy)
    service.publisher.store = store
    assert service.corrections.appeal(NUMBERS[0], "mine", "its owner", service.now)[1], "a small version goes before"
    service.publisher.publish(2, service.now)
    with store.read() as connection:
        newest = newest_list(connection)
    assert newest is not None
    assert [entry.number for entry in newest.entries] == NUMBERS[1:]
    assert newest.entries == all_sightings(service)
    assert apps_copy(service).keys() == set(NUMBERS[1:])


def test_an_appeal_between_the_parts_of_a_publication_is_in_the_list(
    make_service: MakeService, database: str, clock: Clock, in_parts: None
) -> None:
    service = make_service(database, list={"window": WINDOW})
    publish(service, clock, NUMBERS[:3])
    other = replace(service.publisher)
    corrections = replace(service.corrections, publisher=other)
    interrupt(service, "stage a list", lambda: corrections.appeal(NUMBERS[1], "mine", "its owner", service.now))
    publish(service, clock, NUMBERS)
    with service.store.read() as connection:
        newest = newest_list(connection)
    assert newest is not None
    assert NUMBERS[1] not in {entry.number for entry in newest.entries}
    assert newest.entries == all_sightings(service)
    assert apps_copy(service).keys() == {entry.number for entry in newest.entries}


def test_what_was_stored_in_parts_for_a_list_that_never_came_is_in_no_later_one(
    make_service: MakeService, database: str, clock: Clock
) -> None:
    service = make_service(database, list={"window": WINDOW})
    publish(service, clock, NUMBERS[:3])
    with service.store.write("left by a kill") as connection:
        list_entries.stage(connection, 3, {NUMBERS[9]: (None, b'{"number":"x"}\n')})
    service.publisher.leap(service.now, 10)
    with service.store.read() as connection:
        newest = newest_list(connection)
    assert newest is not None
    assert (newest.version, [entry.number for entry in newest.entries]) == (12, NUMBERS[:3])


@pytest.mark.parametrize(("size", "names", "signed"), [(2, ["all"], True), (4, ["all"], False), (4, ["plain"], True)])
def test_all_formats_are_signed_of_lists_that_are_not_large_and_named_ones_always(
    make_service: MakeService, clock: Clock, monkeypatch: pytest.MonkeyPatch, size: int, names: list[str], signed: bool
) -> None:
    monkeypatch.setattr(publisher, "SIGNED_EXPORTS", 3)
    service = make_service("", list={"exports": names})
    publish(service, clock, NUMBERS[:size])
    assert any(path.startswith("targets/exports/") for path in service.store.files()) == signed


def test_a_delta_that_is_no_smaller_than_the_list_is_not_offered(
    make_service: MakeService, clock: Clock, in_parts: None
) -> None:
    service = make_service("", list={"window": WINDOW})
    publish(service, clock, NUMBERS[:5])
    for number in NUMBERS[5:8]:
        publish(service, clock, [number])
    assert [pair for pair in sorted(deltas(service)) if pair[1] == 4] == [(3, 4)], (
        "six changes; since 2 there are seven"
    )
