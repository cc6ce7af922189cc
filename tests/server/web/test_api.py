"""The API's page: every operation and every problem is on it, and no address of the pages is."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.testclient import TestClient

from hushcall.protocol.problems import PROBLEMS


def test_the_api_page_tells_of_every_operation_and_problem(app: FastAPI, visitor: TestClient) -> None:
    page = visitor.get("/docs").text
    document = app.openapi()
    for path, methods in document["paths"].items():
        assert f"<code>{path}</code>" in page
        for given in methods.values():
            assert given["summary"].replace("'", "&#39;") in page
    for kind in PROBLEMS.values():
        assert f'id="problem-{kind.name}"' in page
        assert kind.todo.split("'")[0] in page
    assert "&#34;bucket&#34;: 202" in page  # an example of a request
    assert "Needs a device&#39;s token." in page
    assert not any(path.startswith(("/login", "/actions", "/live")) for path in document["paths"])
