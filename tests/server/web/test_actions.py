"""What an operator does from a page: every action asks first, needs its scope, and refuses a wrong form in words."""

from __future__ import annotations

import re

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from tests.server.serving import newest
from tests.server.web.conftest import Act, LogIn, csrf_in
from tests.server.web.seeded import ALLOWED, LISTED, UNLISTED, Seeded, published

from hushcall.server.db import schema
from hushcall.server.publishing import exclusions
from hushcall.server.web.actions import ACTIONS


def test_each_action_asks_before_it_does(operator: TestClient, seeded: Seeded) -> None:
    before = published(seeded)
    form = {"csrf": csrf_in(operator.get("/").text), "number": "(202) 555-0143", "why": "a <b>school</b>", "who": "me"}
    asked = operator.post("/actions/appeal", data=form)
    assert asked.status_code == 200
    assert "+1 202 555 0143 leaves the list at once" in asked.text
    assert "a &lt;b&gt;school" in asked.text
    assert published(seeded) == before
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', asked.text.split('id="confirm"')[1]))
    assert fields["confirmed"] == "yes"


def test_an_appeal_takes_the_number_off_and_its_end_brings_it_back(
    operator: TestClient, seeded: Seeded, act: Act
) -> None:
    assert LISTED in published(seeded)
    done = act(operator, "appeal", number="202 555 0143", why="a school", who="the school")
    assert (done.status_code, done.headers["location"]) == (303, f"/numbers/{LISTED}")
    assert LISTED not in published(seeded)
    page = operator.get(f"/numbers/{LISTED}").text
    assert "A list without the number is published." in page
    assert "off: appealed" in page
    assert "A list without the number is published." not in operator.get(f"/numbers/{LISTED}").text  # said once
    entry = exclusions.appeals(seeded.service.store)[0]
    assert (entry.why, entry.who) == ("a school", "the school")
    assert act(operator, "close", entry=entry.id, why="withdrawn").status_code == 303
    assert LISTED in published(seeded)
    assert act(operator, "close", entry=entry.id, why="again").status_code == 400


def test_the_allowlist_from_a_page(operator: TestClient, seeded: Seeded, act: Act) -> None:
    act(operator, "allow", number=LISTED, why="a pharmacy")
    assert LISTED not in published(seeded)
    assert [row.who for row in exclusions.allowlist(seeded.service.store) if row.number == LISTED] == ["the operator"]
    assert "Never listed: a pharmacy" in operator.get(f"/numbers/{LISTED}").text
    act(operator, "disallow", number=LISTED)
    assert LISTED in published(seeded)
    assert act(operator, "disallow", number=LISTED).status_code == 400


def test_a_round_is_held_and_released_from_its_page(operator: TestClient, seeded: Seeded, act: Act) -> None:
    assert act(operator, "hold", round=14, why="odd numbers").headers["location"] == "/rounds/14"
    page = operator.get("/rounds/14").text
    assert "Held while collecting: odd numbers" in page
    assert "Round 14 is held" in operator.get("/").text  # at once, though the overview is kept for a second
    assert "/actions/release" in page
    assert act(operator, "release", round=14).status_code == 303
    assert newest(seeded.service).state == "collecting"
    assert act(operator, "release", round=14).status_code == 400
    assert act(operator, "hold", round=99, why="x").status_code == 400


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("announcing", "starts to collect now"),
        ("collecting", "closes now and is decoded"),
        ("published", "The next round opens now"),
    ],
)
def test_moving_on_says_what_it_means(operator: TestClient, seeded: Seeded, state: str, words: str) -> None:
    with seeded.service.store.write("test") as connection:
        connection.execute(sa.update(schema.rounds).where(schema.rounds.c.id == 14).values(state=state))
    form = {"csrf": csrf_in(operator.get("/").text)}
    assert words in operator.post("/actions/advance", data=form).text


def test_moving_on_moves_on(operator: TestClient, seeded: Seeded, act: Act) -> None:
    with seeded.service.store.write("test") as connection:
        connection.execute(sa.update(schema.rounds).where(schema.rounds.c.id == 14).values(state="published"))
    assert act(operator, "advance").headers["location"] == "/"
    assert newest(seeded.service).id == 15


@pytest.mark.parametrize("name", sorted(ACTIONS))
def test_each_action_needs_its_scope(log_in: LogIn, seeded: Seeded, act: Act, name: str) -> None:
    scopes = {"read", "lists", "rounds", "devices"} - {ACTIONS[name].scope}
    before = published(seeded), seeded.service.rounds.newest(), exclusions.appeals(seeded.service.store)
    refused = act(log_in(*scopes), name, number=LISTED, round=14, entry=1, why="x")
    assert refused.status_code == 403
    assert f"scope &#39;{ACTIONS[name].scope}&#39;" in refused.text
    assert before == (published(seeded), seeded.service.rounds.newest(), exclusions.appeals(seeded.service.store))


def test_buttons_are_shown_to_those_who_may_press_them(log_in: LogIn) -> None:
    reader = log_in("read")
    for path in ("/", "/rounds/14", "/appeals", f"/numbers/{UNLISTED}", f"/numbers/{ALLOWED}"):
        assert "/actions/" not in reader.get(path).text, path


@pytest.mark.parametrize(
    ("name", "form", "status"),
    [
        ("appeal", {"number": "911", "why": "x"}, 422),
        ("appeal", {"number": LISTED, "why": " "}, 400),
        ("appeal", {"number": LISTED, "why": "x" * 1001}, 400),
        ("allow", {"why": "x"}, 422),
        ("close", {"entry": "x", "why": "x"}, 400),
        ("close", {"entry": "9" * 30, "why": "x"}, 400),
        ("hold", {"round": "-1", "why": "x"}, 400),
        ("nothing", {}, 404),
        ("appeal", {"number": LISTED, "why": "x\0"}, 400),
        ("appeal", {"number": LISTED, "why": "x" * 9000}, 413),
    ],
)
def test_a_wrong_form_is_refused_in_words(
    operator: TestClient, act: Act, name: str, form: dict[str, str], status: int
) -> None:
    assert act(operator, name, **form).status_code == status


def test_a_form_of_too_many_fields_is_refused(operator: TestClient) -> None:
    assert operator.post("/actions/hold", data={str(n): "x" for n in range(30)}).status_code == 400
