"""What phones ask again and again is answered by keys, however many rounds the database holds."""

from __future__ import annotations

import pytest
from sqlalchemy import event
from starlette.testclient import TestClient
from tests.server.serving import SPAM, Clock, Village

from hushcall.server.http.app import make_app
from hushcall.server.service import Service


@pytest.mark.parametrize("state", ["announcing", "collecting", "published"])
def test_the_current_round_is_read_by_keys(lite: Service, clock: Clock, state: str) -> None:
    Village(lite, clock).to(state, [SPAM] * 6)
    statements: list[tuple[str, object]] = []

    def note(_: object, __: object, statement: str, values: object, *___: object) -> None:
        if statement.startswith("SELECT"):
            statements.append((statement, values))

    with TestClient(make_app(lite)) as client:
        event.listen(lite.store.engine, "before_cursor_execute", note)
        assert client.get("/v1/rounds/current").status_code == 200
        event.remove(lite.store.engine, "before_cursor_execute", note)
    assert statements
    with lite.store.read() as connection:
        for statement, values in statements:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all()  # type: ignore[arg-type]
            steps = [str(row[3]) for row in plan]
            newest = (
                "ORDER BY rounds.id DESC" in statement and "LIMIT" in statement
            )  # a walk that ends at the first row
            assert newest or not any(step.startswith("SCAN") or "TEMP B-TREE" in step for step in steps), steps
