"""All pages of a site together: with nothing in it yet, over PostgreSQL, and with logs longer than a page."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from fastapi.testclient import TestClient
from tests.postgres import Postgres
from tests.server.web.seeded import LISTED, NOW, UNLISTED, Seeded, open_seeded

from hushcall.server.db import schema
from hushcall.server.http.app import make_app

MIGRATIONS = Path(schema.__file__).parent / "migrations" / "versions"


def test_long_logs_come_by_the_page(operator: TestClient, seeded: Seeded) -> None:
    rows = [{"number": f"+1415555{2000 + n}", "why": f"reason {n}", "who": "x", "at": NOW} for n in range(120)]
    with seeded.service.store.write("test") as connection:
        connection.execute(sa.insert(schema.allowed), rows)
        connection.execute(sa.insert(schema.appeals), rows)
    first, last = operator.get("/appeals").text, operator.get("/appeals?page=3&allowed=99").text
    assert "415 555 2119" in first
    assert "reason 119" in first
    assert "Page 1 of 3" in first
    assert "MARKER a school" not in first
    assert "MARKER a school" in last
    assert last.count("Page 3 of 3") == 2


def test_pages_of_a_server_where_nothing_has_happened_yet(tmp_path: Path) -> None:
    empty = open_seeded(tmp_path, story=False)
    client = TestClient(make_app(empty.service))
    assert "none yet" in client.get("/").text
    assert "No list has been published yet" in client.get("/list").text
    assert client.get("/owner").status_code == 200
    client.post("/login", data={"token": empty.token})
    for path in ("/", "/live/decided", "/list", "/appeals", "/system", f"/numbers/{LISTED}"):
        assert client.get(path).status_code == 200, path
    empty.service.close()


def test_pages_over_postgresql(tmp_path: Path, postgres: Postgres) -> None:
    made = open_seeded(tmp_path, url=postgres.fresh())
    client = TestClient(make_app(made.service))
    client.post("/login", data={"token": made.token})
    for path in ("/", "/live/decided", "/list?q=202", "/appeals", "/rounds/13", f"/numbers/{UNLISTED}"):
        assert client.get(path).status_code == 200, path
    system = client.get("/system").text
    assert "PostgreSQL 1" in system
    newest = max(path.name[:4] for path in MIGRATIONS.glob("0*.py"))
    assert newest in system
    made.service.close()
