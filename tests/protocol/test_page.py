"""``docs/protocol.md`` names what an implementer meets: problems, members of documents, parameters, vectors."""

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_type_hints

import pytest
from tests.lists import sample

from hushcall.mechanisms.registry import MECHANISMS, SHIPPED
from hushcall.protocol.problems import PROBLEMS, ProblemType
from hushcall.protocol.states import RoundState
from hushcall.server.http.routes.phones import Phase

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]


def row_of(name: str) -> str:
    """The second cell of the row whose first cell has this name."""
    return next(row[1] for row in ROWS if f"`{name}`" in row[0] or row[0] == name)


@pytest.mark.parametrize("kind", PROBLEMS.values(), ids=PROBLEMS)
def test_every_problem_is_there_with_its_status_and_whether_it_is_final(kind: ProblemType) -> None:
    cells = [row[1].split(", ") for row in ROWS if str(kind.status) in row[0].split(", ")]
    assert len(cells) == 1
    assert (f"**`{kind.name}`**" if kind.final else f"`{kind.name}`") in cells[0]


def test_the_page_names_no_other_problem() -> None:
    named = {name for row in ROWS if re.match(r"[45]\d\d", row[0]) for name in re.findall(r"`([a-z-]+)`", row[1])}
    assert named == set(PROBLEMS)


def test_every_member_of_the_round_document_and_every_state_is_there() -> None:
    for name in Phase.model_fields:
        assert row_of(name)
    assert all(f"`{state.value}`" in row_of("state") for state in RoundState)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_parameter_of_a_mechanism_is_there(name: str) -> None:
    spec = MECHANISMS[name]
    row = row_of(spec.wire_name)
    for parameter in fields(spec.client):
        assert f"`{parameter.name}`" in row
        part = get_type_hints(spec.client)[parameter.name]
        if is_dataclass(part):
            assert all(f"`{inner.name}`" in row for inner in fields(part))


def test_every_member_of_a_list_is_there_in_order() -> None:
    blocklist = sample()
    header = re.findall(r"`(\w+)`", row_of("header"))
    assert [name for name in header if name in blocklist.first_line()] == list(blocklist.first_line())
    entry = re.findall(rb'"(\w+)":', blocklist.entries[0].line())
    assert [name for name in re.findall(r"`(\w+)`", row_of("entry")) if name.encode() in entry] == [
        name.decode() for name in entry
    ]


def test_every_file_of_vectors_is_named() -> None:
    for file in (ROOT / "tests" / "vectors").glob("*.json"):
        assert f"`{file.name}`" in PAGE, file.name
