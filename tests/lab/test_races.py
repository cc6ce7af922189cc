"""``hushcall prove races``: what comes as a list is published is in it or finds it published; bugs are noticed."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from hushcall.lab.prove import races

TRIES = 400
"""A planted bug is met by one race in ten or so, by one in thirty at the least: missed in all with 1e-6."""


def test_a_few_races_keep_every_promise() -> None:
    before = sys.getswitchinterval()
    raced = races.prove(4, seed=2)
    assert raced.ok, raced
    assert (raced.races, raced.wrong, raced.database) == (4, 0, "sqlite")
    assert sum(raced.stages.values()) == sum(raced.kinds.values()) == 4
    assert sys.getswitchinterval() == before


@pytest.mark.slow
def test_races_on_postgresql_keep_every_promise(postgres: Any) -> None:
    raced = races.prove(20, url=postgres.fresh())
    assert raced.ok, raced
    assert raced.database == "postgresql"


@pytest.mark.slow
@pytest.mark.parametrize(("bug", "says"), [("corrections-read-once", "kept off"), ("forced-whatever-it-is", "went on")])
def test_a_planted_bug_is_noticed(bug: str, says: str) -> None:
    raced = races.prove(TRIES, plant=bug, to_first=True)
    assert raced.races < TRIES
    assert raced.wrong == 1
    assert says in raced.broken
