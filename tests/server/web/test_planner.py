"""The planner: it reckons as the command does, and names the wish that is wrong."""

from __future__ import annotations

import json
import sys
from contextlib import suppress

import pytest
from fastapi.testclient import TestClient

from hushcall.cli import main
from hushcall.decoding.planning import outlook
from hushcall.mechanisms.profiles import DEFAULT
from hushcall.protocol.numbers import NANP
from hushcall.server.web.budget import plan


def test_the_planner_reckons_as_the_command_does(operator: TestClient) -> None:
    expected = outlook(DEFAULT, 1000, 150, 400)
    page = operator.get("/plan", params={"users": 1000, "epsilon": 4, "tau": 10, "spam": 150, "buckets": 400}).text
    assert f"{expected.detectable} reports" in page
    assert f"{expected.smallest_bucket} phones" in page
    answer = operator.get("/plan/answer", params={"users": "1,000", "buckets": "400"})
    assert f"{expected.detectable} reports" in answer.text
    assert "<html" not in answer.text


def test_who_asks_page_and_command_the_same_in_few_words_hears_the_same(
    operator: TestClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["hushcall", "plan", "--users", "1000", "--profile", DEFAULT.name, "--json"])
    with suppress(SystemExit):
        main()
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    page = operator.get("/plan", params={"users": 1000}).text
    assert all(f"{row[name]} reports" in page for name in ("detectable", "in_window"))
    assert f"{row['smallest_bucket']} phones" in page


def test_wrong_listings_stay_below_the_level() -> None:
    made = plan({"users": "5000"}, DEFAULT, NANP)
    assert [row.chosen for row in made.rows].count(True) == 1
    assert all(row.wrong is not None and 0 < row.wrong <= DEFAULT.warn_level for row in made.rows)
    finds = [row.outlook.detectable or 0 for row in made.rows]
    assert finds == sorted(finds, reverse=True)  # more budget, smaller numbers found


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"users": "0"}, "users"),
        ({"users": "-5"}, "users"),
        ({"users": "9" * 30}, "users"),
        ({"epsilon": "nan"}, "epsilon"),
        ({"epsilon": "99"}, "epsilon"),
        ({"epsilon": "x"}, "epsilon"),
        ({"tau": "1.5"}, "tau"),
        ({"mechanism": "rappor"}, "mechanism"),
        ({"users": "10", "spam": "11"}, "spam"),
        ({"users": "²"}, "users"),
    ],
)
def test_a_wrong_wish_is_named(form: dict[str, str], field: str) -> None:
    assert set(plan(form, DEFAULT, NANP).problems) == {field}
