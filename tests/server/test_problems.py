"""Everything the API refuses, over real HTTP: each problem has its own type and status, and repeats nothing."""

from __future__ import annotations

import json
import re

import httpx
import pytest
from tests.server.conftest import MakeService
from tests.server.provoking import CASES, Case
from tests.server.serving import Clock, serving
from tests.server.stage import Stage

from hushcall.protocol.problems import PROBLEMS, URN
from hushcall.server.problems import MEDIA_TYPE, Problem


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.problem}-{case.scene.__name__}")
def test_each_problem_has_its_type_and_status_and_repeats_nothing(
    case: Case, make_service: MakeService, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service(**case.sections)
    if case.opened:
        service.rounds.open(service.now)
    with serving(service) as client:
        answer = case.scene(Stage(service, client, clock, monkeypatch))
    kind = PROBLEMS[case.problem]
    found = answer.json()
    assert (found["type"], answer.status_code) == (URN + case.problem, kind.status), answer.text
    assert (found["status"], found["title"], found["todo"]) == (kind.status, kind.title, kind.todo)
    assert found["detail"]
    assert set(found) == {"type", "title", "status", "detail", "todo"}
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert ("www-authenticate" in answer.headers) == (kind.status == 401)
    for word in sent(answer.request):
        assert word not in answer.text


def sent(request: httpx.Request) -> set[str]:
    """Whatever with a digit in it was sent: numbers, tokens, tickets, texts."""
    try:
        body = request.content.decode("latin-1")
    except httpx.RequestNotRead:  # it was streamed
        body = "x12345"
    text = " ".join([str(request.url.path), str(request.url.query), body, request.headers.get("authorization", "")])
    return {word for word in re.findall(r"\w+", text) if len(word) >= 5 and re.search("[0-9]", word)}


def test_every_problem_of_the_table_is_provoked() -> None:
    assert {case.problem for case in CASES} == set(PROBLEMS) - {"bucket-skipped"}


def test_every_type_is_its_own() -> None:
    assert len({kind.title for kind in PROBLEMS.values()}) == len(PROBLEMS)
    assert all(kind.todo.endswith(".") for kind in PROBLEMS.values())


def test_a_problem_in_the_description_is_the_one_on_the_wire(stage: Stage) -> None:
    described = stage.client.get("/openapi.json").json()["paths"]["/v1/rounds/current"]["get"]["responses"]["404"]
    example = described["content"][MEDIA_TYPE]["examples"]["no-round"]["value"]
    assert example == json.loads(bytes(Problem("no-round").response().body))
