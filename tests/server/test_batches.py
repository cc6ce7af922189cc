"""Many rows in one statement: the same rows as one by one; the first of a key stays, what does not fit is refused."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from tests.server.conftest import MakeService
from tests.server.serving import Clock, Village

from hushcall.server.db import schema
from hushcall.server.db.store import has_batch_form
from hushcall.server.service import Service

HITTER = {"round": 1, "bucket": 202, "estimate": 1.5, "low": 0.0, "high": 3.0, "p_value": 1e-9, "length": 2}
ROWS = [
    {**HITTER, "number": f"+1202555{place:04}", "implausible": place % 2 == 0, "strict": 2, "hinted": 0}
    for place in range(120)
]


@pytest.fixture
def opened(make_service: MakeService, database: str, clock: Clock) -> Service:
    service = make_service(database)
    Village(service, clock).to("announcing")
    return service


def put(service: Service, table: sa.Table, rows: list[dict[str, Any]], key: str) -> list[str]:
    """Insert them; the statements that it took."""
    sent: list[str] = []

    def note(_: Any, __: Any, statement: str, ___: Any, ____: Any, many: bool) -> None:
        sent.append(f"{statement.split(maxsplit=1)[0]} {'many' if many else 'one'}")

    with service.store.write("rows") as connection:
        event.listen(connection, "before_cursor_execute", note)
        service.store.insert_new(connection, table, rows, key=(key,))
    return sent


def test_a_batch_is_one_statement_and_has_every_row(opened: Service) -> None:
    sent = put(opened, schema.hitters, ROWS[::-1], "number")
    assert sent == (["INSERT one"] if opened.store.postgres else ["INSERT many"])
    found = opened.store.rows(sa.select(schema.hitters).order_by(schema.hitters.c.number))
    assert [dict(row._mapping) for row in found] == ROWS


def test_the_first_of_a_key_stays(opened: Service) -> None:
    reports = [
        {"ticket": bytes([place]) * 16, "round": 1, "bucket": 202, "body": b'\\x00{,}"\x00'} for place in range(9)
    ]
    put(opened, schema.reports, reports, "ticket")
    put(opened, schema.reports, [{**row, "body": b"another"} for row in reports] + [reports[0]], "ticket")
    found = opened.store.rows(sa.select(schema.reports).order_by(schema.reports.c.ticket))
    assert [dict(row._mapping) for row in found] == reports


def test_a_column_that_is_left_to_its_default_has_it(opened: Service) -> None:
    rows = [{key: value for key, value in row.items() if key not in ("length", "implausible")} for row in ROWS[:3]]
    assert not has_batch_form(schema.hitters, rows)
    put(opened, schema.hitters, rows, "number")
    found = opened.store.rows(sa.select(schema.hitters.c.length, schema.hitters.c.implausible))
    assert found == [(1, False)] * 3


def test_a_text_that_is_too_long_is_not_cut(make_service: MakeService, postgres: Any, clock: Clock) -> None:
    url = postgres.fresh()
    service = make_service(url)
    Village(service, clock).to("announcing")
    with pytest.raises(sa.exc.DataError, match="too long"):
        put(service, schema.hitters, [*ROWS[:2], {**ROWS[2], "number": "+1" * 9}], "number")
    service.close()
    postgres.drop(url)
