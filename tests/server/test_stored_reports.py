"""A bucket's reports leave the database in the order of their tickets, all of them, and not in the order they came."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from tests.server.conftest import MakeService
from tests.server.serving import SPAM, Clock, Village, downgraded, plans, state

from hushcall.server.db import schema
from hushcall.server.rounds import round_data
from hushcall.server.rounds.round_data import bucket_specs, stored_reports
from hushcall.server.service import Service

OTHER = "+13035550177"
CALLERS = [SPAM, OTHER] * 10
INDEX = sa.text("SELECT name FROM pragma_index_info('reports_by_bucket')")


@pytest.mark.parametrize("chunk", [1, 3, 10, 100])
def test_they_leave_by_ticket(
    make_service: MakeService, database: str, clock: Clock, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(round_data, "CHUNK", chunk)
    service = make_service(database)
    number = Village(service, clock).to("closed", CALLERS)
    stored = service.store.rows(sa.select(schema.reports))
    with service.store.write("as if each had come by itself") as connection:
        connection.execute(sa.delete(schema.reports))
        for row in reversed(stored):
            connection.execute(sa.insert(schema.reports).values(**row._mapping))
    specs = bucket_specs(service.store, number)
    assert len(specs) == 2
    for opened in specs:
        chunks = list(stored_reports(service.store, opened))
        sizes = [len(one.tickets) for one in chunks]
        assert sizes == [chunk] * (10 // chunk) + [10 % chunk] * (10 % chunk > 0)
        left = [(t.tobytes(), b.tobytes()) for one in chunks for t, b in zip(one.tickets, one.bodies, strict=True)]
        came = [(bytes(row.ticket), bytes(row.body)) for row in stored if row.bucket == opened.bucket]
        assert left == sorted(came)


def test_a_chunk_is_found_by_its_rows_places_however_large_its_bucket(lite: Service, clock: Clock) -> None:
    number = Village(lite, clock).to("closed", CALLERS)
    with plans(lite.store) as found:
        assert len(list(stored_reports(lite.store, bucket_specs(lite.store, number)[0]))) == 1
    order, chunk = found
    assert "(round=? AND bucket=?)" in order
    assert "rowid=?" in chunk


def test_an_older_database_is_given_the_smaller_index(make_service: MakeService, clock: Clock) -> None:
    service = make_service("")
    Village(service, clock).to("closed", CALLERS)
    downgraded(str(service.store.engine.url), "0008")
    assert service.store.rows(INDEX) == [("round",), ("bucket",), ("ticket",)]
    again = make_service("")
    assert again.store.rows(INDEX) == [("round",), ("bucket",)]
    again.rounds.advance(again.now)
    assert state(again, 1) == "published"
