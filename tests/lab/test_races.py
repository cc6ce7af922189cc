"""``hushcall-lab prove races``: what comes as a list is published is in it or finds it published; bugs are noticed."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from hushcall_lab.proofs import races

TRIES = 400
"""A planted bug is met by one race in ten or so, by one in thirty at the least: missed in all with 1e-6."""


def test_a_few_races_keep_every_promise() -> None:
    before = sys.getswitchinterval()
    result = races.prove(4, seed=2)
    assert not result.broken, result
    assert (result.races, result.wrong, result.database) == (4, 0, "sqlite")
    assert sum(result.stages.values()) == sum(result.kinds.values()) == 4
    assert sys.getswitchinterval() == before


@pytest.mark.slow
def test_races_on_postgresql_keep_every_promise(postgres: Any) -> None:
    result = races.prove(20, url=postgres.fresh())
    assert not result.broken, result
    assert result.database == "postgresql"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "says"),
    [("corrections-read-once", "kept off"), ("forced-whatever-it-is", "went on"), ("tokens-beside-names", "neither")],
)
def test_a_planted_bug_is_noticed(bug: str, says: str) -> None:
    result = races.prove(TRIES, bug=bug, to_first=True)
    assert result.races < TRIES
    assert result.wrong == 1
    assert says in result.broken
