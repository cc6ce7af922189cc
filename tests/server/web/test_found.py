"""Pages of numbers and of rounds: what was found, whether it is listed, and why not."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from tests.server.web.seeded import ALLOWED, LISTED, NOW, UNLISTED, Seeded, hitter_rows, published

from hushcall.server.db import schema


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (LISTED, "listed"),
        (UNLISTED, "off: appealed"),
        (ALLOWED, "off: on the allowlist"),
        ("+12025550199", "never found by any round"),
    ],
)
def test_a_number_s_page_says_whether_it_is_listed_and_why(operator: TestClient, text: str, verdict: str) -> None:
    page = operator.get(f"/numbers/{text}").text
    assert f">{verdict}</span>" in page


def test_a_number_seen_too_long_ago_and_one_not_yet_published(operator: TestClient, seeded: Seeded) -> None:
    rows = [
        {**hitter_rows(1, 0)[0], "round": where, "number": text}
        for where, text in ((1, "+14155550101"), (14, "+14155550102"))
    ]
    with seeded.service.store.write("test") as connection:
        connection.execute(sa.insert(schema.hitters), rows)
    assert "off: not seen within the window" in operator.get("/numbers/+14155550101").text
    assert "not yet: its round is not published" in operator.get("/numbers/+14155550102").text


def test_what_is_no_number_has_no_page(operator: TestClient) -> None:
    assert operator.get("/numbers/911").status_code == 422
    assert operator.get("/rounds/99").status_code == 404
    assert operator.get("/numbers", params={"number": "(202) 555 0143"}).headers["location"].startswith("/numbers/")


def test_a_round_without_buckets_is_told_in_words(operator: TestClient, seeded: Seeded) -> None:
    row = {"round": 12, "bucket": 0, "users": 23_188, "runs": True, "parameters": "{}"}
    with seeded.service.store.write("test") as connection:
        connection.execute(sa.insert(schema.buckets), [row])
    assert "23,188 phones" in operator.get("/rounds/12").text


def test_the_window_is_the_one_that_the_list_was_made_with(operator: TestClient, seeded: Seeded) -> None:
    row = {**hitter_rows(1, 0)[0], "round": 4, "number": "+14155550101"}
    with seeded.service.store.write("test") as connection:
        connection.execute(sa.update(schema.rounds).values(window=10))  # the setting says 7
        connection.execute(sa.insert(schema.hitters), [row])
    assert "off: not seen within the window" in operator.get("/numbers/+14155550101").text
    seeded.service.publisher.republish(NOW)
    assert "+14155550101" in published(seeded)
    assert ">listed</span>" in operator.get("/numbers/+14155550101").text
    with seeded.service.store.write("test") as connection:  # found, within those ten rounds, and yet not on the list
        connection.execute(sa.insert(schema.hitters), [{**row, "number": "+14155550102"}])
    assert "off: not in the published version" in operator.get("/numbers/+14155550102").text
