"""Fixtures of the pages' tests: a service with a story, clients of it with and without a session, and a browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from tests.server.web.seeded import Seeded, open_seeded

from hushcall.server.http.app import make_app
from hushcall_lab.servers import running

LogIn = Callable[..., TestClient]
Act = Callable[..., Any]


@pytest.fixture
def seeded(tmp_path: Path) -> Iterator[Seeded]:
    made = open_seeded(tmp_path)
    yield made
    made.service.close()


@pytest.fixture
def app(seeded: Seeded) -> FastAPI:
    return make_app(seeded.service)


@pytest.fixture
def visitor(app: FastAPI) -> TestClient:
    """Somebody without a session."""
    return TestClient(app, follow_redirects=False)


@pytest.fixture
def log_in(app: FastAPI, seeded: Seeded) -> LogIn:
    """A client with a session: of the operator, or with a token of these scopes."""

    def made(*scopes: str) -> TestClient:
        client = TestClient(app, follow_redirects=False)
        token = seeded.token_for(*scopes) if scopes else seeded.token
        assert client.post("/login", data={"token": token}).status_code == 303
        return client

    return made


@pytest.fixture
def operator(log_in: LogIn) -> TestClient:
    return log_in()


def csrf_in(page: str) -> str:
    """The token of a page's forms."""
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', page)
    assert found is not None
    return found[1]


@pytest.fixture
def act(app: FastAPI) -> Act:
    """Send a form as a page of the session would, confirmed."""

    def made(client: TestClient, action: str, **fields: object) -> Any:
        given = {"csrf": csrf_in(client.get("/").text), "confirmed": "yes", **fields}
        return client.post(f"/actions/{action}", data=given)

    return made


@pytest.fixture
def visit(browser: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A window onto a server; whatever it complained about, or asked of others, is a failure."""
    from tests.server.web.visiting import Visit  # skips where there is no playwright

    seeded = open_seeded(tmp_path, story=getattr(request, "param", True))
    with running(seeded.service) as url:
        made = Visit(seeded, url)
        made.open(browser)
        yield made
        made.page.context.close()
    assert made.complaints == []
    assert all(one.startswith((made.url + "/", "data:")) for one in made.requests)
