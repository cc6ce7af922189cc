"""On PostgreSQL a round is forgotten by dropping its partitions; older databases are taken over with all their rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from tests.postgres import Postgres
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, Clock, Village, downgraded, everything, newest, plans, state

from hushcall.protocol.blocklist import Blocklist
from hushcall.server.auth.devices import token_hash
from hushcall.server.db import partitions, schema
from hushcall.server.db.store import Store
from hushcall.server.ingest.ingest import Announce, Intake
from hushcall.server.publishing.publisher import newest_list
from hushcall.server.rounds import holding
from hushcall.server.service import Service

OTHER = "+13035550177"
CALLERS = [SPAM] * 8 + [OTHER] * 8


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    made = postgres.fresh()
    yield made
    postgres.drop(made)


def parts(store: Store) -> dict[str, list[int]]:
    with store.read() as connection:
        return {table.name: partitions.rounds_of(connection, table) for table in partitions.TABLES}


@contextmanager
def statements(store: Store) -> Iterator[list[str]]:
    """What is sent to the database meanwhile."""
    sent: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        sent.append(statement)

    event.listen(store.engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(store.engine, "before_cursor_execute", note)


def touching(sent: list[str]) -> list[str]:
    """The statements that take rows of reports or announcements away."""
    return [one for one in sent if one.startswith(("DELETE FROM reports", "DELETE FROM announ", "TRUNC", "DROP"))]


@pytest.mark.parametrize("end", ["decoded", "discarded"])
def test_a_round_is_forgotten_by_a_drop(make_service: MakeService, url: str, clock: Clock, end: str) -> None:
    service = make_service(url)
    number = Village(service, clock).to("closed", CALLERS)
    assert parts(service.store) == {"announcements": [number], "reports": [number]}
    with statements(service.store) as sent:
        if end == "decoded":
            service.rounds.learn(number)
        else:
            holding.hold(service.store, number, "a flood")
            holding.discard(service.store, number, "a flood")
    assert touching(sent) == ["DROP TABLE announcements_1", "DROP TABLE reports_1"]
    assert parts(service.store) == {"announcements": [], "reports": []}
    rows = service.store.rows(sa.text("SELECT relname FROM pg_class WHERE relname ~ '^(reports|announcements)_[0-9]'"))
    assert rows == [], "nor an index"


def test_a_backup_in_the_way_does_not_keep_a_round_from_being_forgotten(
    make_service: MakeService, url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "LOCK_MILLISECONDS", 50)
    service = make_service(url)
    village = Village(service, clock)
    first = village.to("closed", CALLERS)
    with service.store.read() as reader, statements(service.store) as sent:
        assert reader.execute(sa.text("SELECT count(*) FROM reports")).scalar() == len(CALLERS)  # as pg_dump holds it
        service.rounds.learn(first)
        assert len([one for one in touching(sent) if one.startswith("DELETE")]) == 1
    assert service.store.rows(sa.select(schema.reports)) == []
    assert service.store.rows(sa.select(schema.announcements)) == []
    service.rounds.publish(first, service.now)
    clock.now = newest(service).next
    second = village.to("announcing", CALLERS)  # a partition is made whoever reads
    assert parts(service.store) == {"announcements": [second], "reports": [first, second]}
    clock.now = newest(service).collects
    service.rounds.start_collecting(second, service.now)
    village.report(CALLERS)
    service.rounds.close(second)
    service.rounds.learn(second)
    assert parts(service.store) == {"announcements": [], "reports": []}, "what was left went along"


def test_a_partition_is_made_beside_a_reader(make_service: MakeService, url: str, clock: Clock) -> None:
    service = make_service(url)
    Village(service, clock).to("published", CALLERS)
    with service.store.read() as reader, statements(service.store) as sent:
        reader.execute(sa.select(schema.reports))
        reader.execute(sa.select(schema.announcements))
        with service.store.write("beside it", 0.2) as connection:
            partitions.make(connection, 2)
            partitions.make(connection, 2)
    assert parts(service.store) == {"announcements": [2], "reports": [2]}
    assert len([one for one in sent if one.startswith("CREATE")]) == 2


def test_an_upload_looks_at_its_own_rounds_partition_alone(make_service: MakeService, url: str, clock: Clock) -> None:
    service = make_service(url, round={"keep_reports": True})
    village = Village(service, clock)
    village.to("published", CALLERS)
    village.to("collecting", CALLERS)
    assert parts(service.store)["reports"] == [1, 2]
    with plans(service.store) as found:
        village.report(CALLERS)
    assert len(found) == 3, "what was announced, by device and by ticket, and what was reported"
    assert all("'reports_2'" in one or "'announcements_2'" in one for one in found)
    assert not any("_1'" in one for one in found)


def test_an_upload_is_found_by_its_ticket_however_large_its_round(
    make_service: MakeService, database: str, clock: Clock
) -> None:
    """An index of all that a round has would do too, for a planner that knows no better, and take as long as it is."""
    service = make_service(database)
    village = Village(service, clock)
    village.to("collecting", CALLERS)
    if database:

        @event.listens_for(service.store.engine, "begin")
        def large(connection: Any) -> None:  # small tables are read whole, whatever indices there are
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")

    with plans(service.store) as found:
        village.report(CALLERS)
    kinds = ("device", "ticket", "ticket")
    assert len(found) == 3
    for kind, plan in zip(kinds, found, strict=True):
        wanted = f"{kind}_round_idx" if database else f"{kind}=?"
        assert wanted in plan, plan


def test_a_plan_of_a_small_round_is_not_used_for_a_large_one(make_service: MakeService, url: str, clock: Clock) -> None:
    """Made over a few rows, a generic plan reads a partition from end to end, until the next statistics."""
    service = make_service(url)
    village = Village(service, clock)
    village.to("announcing", CALLERS)
    uploads = [Announce(token_hash(token), newest(service).id, 202) for token in village.tokens]
    for _ in range(12):  # the driver prepares at the fifth, the server has a generic plan five later
        Intake(service.store, "village").accept(uploads)
    query = "SELECT count(*), sum(generic_plans) FROM pg_prepared_statements WHERE statement LIKE '%FROM announ%'"
    with ExitStack() as stack:  # all connections of the pool, and a new one
        pooled = [stack.enter_context(service.store.read()) for _ in range(4)]
        counts = [tuple(connection.execute(sa.text(query)).one()) for connection in pooled]
    assert any(prepared for prepared, _ in counts)
    assert not any(generic for _, generic in counts)


def listed(service: Service) -> Blocklist | None:
    with service.store.read() as connection:
        return newest_list(connection)


def test_an_older_database_is_taken_over_with_everything_in_it(
    make_service: MakeService, url: str, clock: Clock
) -> None:
    service = make_service(url)
    village = Village(service, clock)
    village.to("published", CALLERS)
    village.to("collecting", CALLERS[:-1])
    holding.hold(service.store, 2, "a look")
    with service.store.write("rounds of before had no such column") as connection:
        connection.execute(sa.update(schema.rounds).values(call_days=0))
    kept, served = everything(service), listed(service)
    downgraded(url, "0006")
    assert service.store.rows(sa.text("SELECT relkind FROM pg_class WHERE relname = 'reports'")) == [("r",)]
    again = make_service(url)  # this release opens it
    after = everything(again)
    assert {name for name in kept if after[name] != kept[name]} <= {"files", "versions"}, "which held whole lists then"
    assert listed(again) == served
    assert parts(again.store) == {"announcements": [2], "reports": [2]}
    holding.release(again.store, 2)
    assert len(village.report(CALLERS[:-1])) == len(CALLERS) - 1
    assert len(again.store.rows(sa.select(schema.reports))) == len(CALLERS) - 1
    clock.now = newest(again).closes
    again.rounds.advance(again.now)
    assert state(again, 2) == "published"


def test_sqlite_deletes(lite: Service, clock: Clock) -> None:
    number = Village(lite, clock).to("closed", CALLERS)
    with statements(lite.store) as sent:
        lite.rounds.learn(number)
    assert all(one.startswith("DELETE") for one in touching(sent))
    assert lite.store.rows(sa.select(schema.reports)) == []
