"""What is seen first, and its live parts: they follow the round, and many viewers cost what one costs."""

from __future__ import annotations

import itertools

import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from fastapi.testclient import TestClient
from tests.server.web.seeded import NOW, Seeded, bucket_rows, queries, round_row

from hushcall.server.db import schema
from hushcall.server.rounds import holding
from hushcall.server.rounds.round_status import one_round
from hushcall.server.web.site import Cached, overview


def test_a_part_that_did_not_change_is_not_sent_again(operator: TestClient, visitor: TestClient) -> None:
    for client, path in ((operator, "/live"), (visitor, "/live"), (operator, "/live/decided")):
        first = client.get(path)
        again = client.get(path, headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_fifty_viewers_cost_what_one_costs(app: FastAPI, operator: TestClient, seeded: Seeded) -> None:
    operator.get("/live")
    asked = queries(seeded)
    app.state.site.pages["parts/live.html"]._until = float("inf")  # a long second
    for _ in range(50):
        operator.get("/live")
    asked = [one for one in asked if not one.startswith("PRAGMA")]
    assert len(asked) <= 100  # whose session it is, and whether it was ended; nothing else
    assert all("admins" in one or "ended_sessions" in one for one in asked)


def test_the_overview_takes_few_queries_however_many_rounds_there_are(seeded: Seeded) -> None:
    asked = queries(seeded)
    overview(seeded.service.store)
    assert len(asked) <= 12


def test_what_is_kept_is_made_once_a_while() -> None:
    now, made = [0.0], itertools.count(1)
    kept = Cached(lambda: next(made), 1.0, lambda: now[0])
    assert [kept.get(), kept.get()] == [1, 1]
    now[0] = 1.0
    assert kept.get() == 2
    kept.forget()
    assert kept.get() == 3


def test_the_live_part_follows_the_round(app: FastAPI, operator: TestClient, seeded: Seeded) -> None:
    assert "Round 14 is collecting" in operator.get("/live").text
    assert "900 of 934,229" in operator.get("/live").text
    holding.hold(seeded.service.store, 14, "looked at")
    app.state.site.forget()
    assert "Round 14 is held" in operator.get("/live").text


def test_reports_are_counted_while_buckets_are_sealed(seeded: Seeded) -> None:
    tally = {"round": 14, "bucket": 203, "count": 50, "checksum": bytes(32), "data": b""}
    with seeded.service.store.write("test") as connection:
        connection.execute(sa.insert(schema.tallies), [tally])
    round_ = one_round(seeded.service.store, 14)
    assert round_ is not None
    assert (round_.reports, round_.expected) == (950, sum(r["users"] for r in bucket_rows(14, 430) if r["runs"]))
    assert round_.share(NOW) == pytest.approx(950 / round_.expected)


def test_a_discarded_round_says_so_to_operators_only(operator: TestClient, visitor: TestClient, seeded: Seeded) -> None:
    holding.hold(seeded.service.store, 14, "odd")
    holding.discard(seeded.service.store, 14, "flooded by one address")
    for path in ("/", "/rounds/14"):
        assert "This round was discarded: flooded by one address" in operator.get(path).text, path
    for path in ("/", "/live", "/list"):
        assert "flooded" not in visitor.get(path).text, path


def test_a_held_round_shows_the_phase_it_goes_back_to(seeded: Seeded) -> None:
    row = round_row(15, "held", NOW, held_from="closed", reason="odd")
    with seeded.service.store.write("test") as connection:
        connection.execute(sa.insert(schema.rounds), [row])
    newest = overview(seeded.service.store).rounds[0]
    assert (newest.id, newest.phase, newest.held, newest.row.reason) == (15, "closed", True, "odd")


def test_an_operator_sees_what_the_crowds_of_the_newest_round_add(operator: TestClient, visitor: TestClient) -> None:
    page = operator.get("/").text
    assert "Anonymity sets of the newest round" in page
    assert "Then the report's own ε protects it" in page
    assert "newest round add" not in visitor.get("/").text  # it says how many phones there are
