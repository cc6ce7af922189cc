"""The table of mutations is up to date, and mutations are noticed where tests look."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests import mutations


def test_every_explanation_is_of_a_mutation_and_every_test_is_there() -> None:
    assert mutations.stale() == []


def test_there_are_many_mutations_in_every_part() -> None:
    rows = mutations.chosen("", 10)
    assert len(rows) >= 300
    assert {part for part, *_ in rows} == set(mutations.PARTS)


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("a = b == c", ["b != c"]),
        ("a = (b or 0) >= c", ["(b or 0) > c", "((b) and (0))"]),
        ("a = not b", ["bool(b)"]),
        ("if a:\n    return", ["(False and (a))"]),
        ("a = b + (c - d)", ["(b - (c - d))", "(c + d)"]),
        ("f(a)", ["(None and f(a))"]),
        ("a = f'{b}' + 'c'", []),
    ],
)
def test_the_mutations_of_a_line(source: str, texts: list[str]) -> None:
    rows = list(mutations.mutants(source))
    assert [text for _, text, _ in rows] == texts
    for _, text, changed in rows:
        assert text in changed
        compile(changed.replace("return", "pass"), "mutation", "exec")


@pytest.mark.slow
def test_mutations_are_noticed() -> None:
    command = [sys.executable, "-m", "tests.mutations", "--only", "protocol/exact", "--each", "3", "--json"]
    done = subprocess.run(command, cwd=mutations.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"mutations": 3' in done.stdout
