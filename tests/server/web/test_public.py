"""What anybody may see, and what only an operator may: every address is asked, and nothing secret is answered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from tests.server.serving import newest
from tests.server.web.seeded import ALLOWED, GUARD, LISTED, MARKERS, UNLISTED, WHY_ALLOWED, WHY_APPEAL, Seeded

from hushcall.server.rounds import holding

VALUES = {
    "number": UNLISTED,
    "name": "advance",
    "path": "x",
    "entry": "1",
    "device": "7654321",
    "ticket": "0" * 25 + "74cbb1",
    "phone": UNLISTED,
    "rest": "books/10/",
    "limit": "10",
}
HEX = re.compile("[0-9a-f]{24,}")
"""Keys, signatures and digests: five digits in a row stand in them by chance, once in some hundred runs."""
PAGES = ("/", "/live", "/live/decided", "/list", "/rounds/13", "/rounds/14", "/appeals", "/system", "/plan", "/docs")


def routes_in(routes: Iterable[Any]) -> Iterator[tuple[str, set[str]]]:
    """Every path and its methods, also of routers within routers."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from routes_in(inner.routes)
        elif getattr(route, "methods", None):
            yield route.path, route.methods


def addresses(path: str) -> Iterator[str]:
    """A path with values that would show something if anything did: a number, or a round."""
    for number in (UNLISTED, ALLOWED, LISTED, "13", "14"):
        filled = path.replace(":path}", "}")
        for name, value in {**VALUES, "number": number}.items():
            filled = filled.replace("{" + name + "}", value)
        assert "{" not in filled, f"give {path} a value"
        yield filled


def test_without_a_session_no_address_tells_a_secret(app: FastAPI, visitor: TestClient, seeded: Seeded) -> None:
    holding.hold(seeded.service.store, 14, GUARD)
    found = dict(routes_in(app.routes))
    assert {"/", "/live", "/numbers/{number}", "/rounds/{number}", "/appeals", "/actions/{name}", "/v1/devices"} < set(
        found
    )
    asked = 0
    with visitor:
        for path, methods in found.items():
            for address in sorted(set(addresses(path))):
                for method in sorted(methods | {"GET", "POST"}):
                    for query in ("", "?q=212&page=1&fragment=1&since=0&force=false"):
                        form = {"number": UNLISTED, "round": "14", "entry": "1", "why": "x", "confirmed": "yes"}
                        body = {"data": form} if method in ("POST", "PUT") else {}
                        answer = visitor.request(method, address + query, **body)
                        assert answer.status_code < 500, (method, address, answer.text)
                        told = str(dict(answer.headers)) + answer.text
                        told = told.replace(address, "").replace(UNLISTED, UNLISTED if UNLISTED not in address else "")
                        told = HEX.sub("", told)
                        told = told.replace(ALLOWED, ALLOWED if ALLOWED not in address else "")  # a redirect names it
                        for marker in MARKERS:
                            assert marker not in told, (method, address, marker)
                        asked += 1
    assert asked > 300


def test_nothing_was_changed_by_asking_without_a_session(visitor: TestClient, seeded: Seeded) -> None:
    before = newest(seeded.service)
    for name in ("hold", "advance", "allow", "appeal", "close"):
        form = {"number": LISTED, "round": "14", "entry": "1", "why": "x", "confirmed": "yes", "csrf": "0" * 64}
        assert visitor.post(f"/actions/{name}", data=form).status_code == 401
    assert seeded.service.rounds.newest() == before


def test_with_a_session_the_operator_sees_it_all(operator: TestClient, seeded: Seeded) -> None:
    holding.hold(seeded.service.store, 14, GUARD)
    shown = {path: operator.get(path) for path in PAGES}
    assert {answer.status_code for answer in shown.values()} == {200}
    home = shown["/"].text
    for secret in ("48,731", "9,417", "212 555 0187", "off: appealed", "wrong phase", GUARD, "round 14 is held"):
        assert secret in home, secret
    assert "48,731" in shown["/rounds/14"].text
    assert GUARD in shown["/rounds/14"].text
    assert "off: on the allowlist" in shown["/rounds/13"].text
    log = shown["/appeals"].text
    for secret in (WHY_APPEAL, WHY_ALLOWED, "310 555 0172", "the school"):
        assert secret.replace("'", "&#39;") in log, secret
    story = operator.get(f"/numbers/{UNLISTED}").text
    assert "9,417" in story
    assert WHY_APPEAL.replace("'", "&#39;") in story
    assert all("7654321" not in answer.text for answer in shown.values())  # which device is nobody's business


@pytest.mark.parametrize(
    "path", ["/appeals", "/system", "/plan", "/rounds/13", f"/numbers/{LISTED}", "/numbers?number=1"]
)
def test_a_page_for_operators_leads_to_the_login(visitor: TestClient, path: str) -> None:
    answer = visitor.get(path)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/login?next=/")
    assert answer.content == b""


def test_everybody_sees_the_list_the_round_the_budget_and_health(visitor: TestClient) -> None:
    home = visitor.get("/").text
    for said in ("version 1", ">41<", "14, collecting", "15 Jan 2027, 16:00 UTC", "all is well", "54.6 times", "98.2"):
        assert said in home, said
    assert "ε of 7 reports, one a day</dt><dd>28<" in home
    for link in ('href="/owner"', 'href="/docs"', 'href="/list"', 'href="/login"'):
        assert link in home


def test_everybody_may_search_the_published_list(visitor: TestClient) -> None:
    listed = visitor.get("/list", params={"q": "(202) 555-0143"}).text
    assert "+1 202 555 0143 is on the list" in listed
    for fact in ("about 626", "545 to 708", "days that found it</dt><dd>5", "9 January 2027", "13 January 2027"):
        assert fact in listed
    assert "is not on the list" in visitor.get("/list", params={"q": UNLISTED}).text


def test_no_page_of_an_operator_is_kept_on_the_way(operator: TestClient, visitor: TestClient) -> None:
    for path in ("/", "/list", "/appeals", "/system", "/rounds/14", f"/numbers/{LISTED}"):
        assert operator.get(path).headers["cache-control"] == "no-store"
    assert operator.get("/live").headers["vary"] == "cookie"
    assert "private" in operator.get("/live").headers["cache-control"]
    assert operator.get("/live").text != visitor.get("/live").text
