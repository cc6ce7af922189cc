"""Files and settings that pages are made with: each is served with its type, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from hushcall.server.web.rendering import static_files


def test_static_files_have_their_types_and_are_asked_for_once(visitor: TestClient) -> None:
    for name, media in (("live.js", "text/javascript"), ("dashboard.css", "text/css"), ("icon.svg", "image/svg+xml")):
        answer = visitor.get(f"/static/{name}")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(media)
        assert answer.headers["x-content-type-options"] == "nosniff"
        again = visitor.get(f"/static/{name}", headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("name", ["nothing.js", "..%2F__init__.py", "%2e%2e/rendering.py", "", "owner.html"])
def test_nothing_else_is_served_as_a_static_file(visitor: TestClient, name: str) -> None:
    assert visitor.get(f"/static/{name}").status_code == 404


def test_every_file_of_the_folder_is_served() -> None:
    folder = Path(__file__).parents[3] / "src" / "hushcall" / "server" / "web" / "static"
    assert set(static_files()) == {path.name for path in folder.iterdir()}


def test_the_owners_page_is_given_the_servers_settings(visitor: TestClient) -> None:
    page = visitor.get("/owner").text
    for given in ('"profile": "balanced"', '"epsilon": 4.0', '"bits_example": 5', '"window_days": 7', '"tau": 10'):
        assert given in page, given
    assert 'data-list-url="/v1/lists/current/blocklist.jsonl"' in page
