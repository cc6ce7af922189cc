"""The simulation on a virtual clock: promises hold, runs repeat, and planted bugs are noticed and made short."""

from __future__ import annotations

import random

import pytest

from hushcall_lab.proofs import client_bugs, decision_bugs
from hushcall_lab.proofs.faults import ACTS, KINDS, Fault, play, prove, schedule, shorten
from hushcall_lab.proofs.server_bugs import FAULT_BUGS, RACE_BUGS


def test_promises_are_kept_for_a_run() -> None:
    result = prove(1, seed=40)
    assert not result.broken, result
    assert result.faults > 0


def test_schedules_follow_from_their_number_and_know_every_fault() -> None:
    assert schedule(7) == schedule(7) != schedule(8)
    assert {fault.kind for seed in range(60) for fault in schedule(seed)} == set(KINDS)


@pytest.mark.parametrize("name", [*client_bugs.BUGS, *FAULT_BUGS, *RACE_BUGS, *decision_bugs.BUGS])
def test_a_bug_replaces_something_that_exists(name: str) -> None:
    with (client_bugs.BUGS | FAULT_BUGS | RACE_BUGS | decision_bugs.BUGS)[name]():
        pass


@pytest.mark.slow
def test_promises_are_kept_for_many_runs() -> None:
    result = prove(20, seed=1000)
    assert not result.broken, result
    assert result.faults > 50


@pytest.mark.slow
def test_several_processes_find_what_one_finds() -> None:
    bug = "what is published is remembered"
    alone, together = (prove(25, seed=1, shrink=False, bug=bug, jobs=jobs) for jobs in (1, 2))
    assert alone == together
    assert alone.first is not None
    assert prove(11, seed=1, jobs=2) == prove(11, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("bug", FAULT_BUGS)
def test_a_planted_bug_is_noticed_and_its_run_repeats(bug: str) -> None:
    result = prove(40, seed=SEEDS.get(bug, 1), shrink=False, bug=bug)
    assert result.first is not None
    with FAULT_BUGS[bug]():
        again = play(result.first.seed)
        assert again == result.first, "the same number is the same run, to the same step"
    assert "broke down" not in result.first.broken
    assert play(result.first.seed).broken == "", "without the bug the same run is fine"


SEEDS = {
    "a released round begins anew": 79,
    "appeals are read once": 39,
    "a discarded round keeps its reports": 24,
    "a late round is not told": 19,
    "acknowledged although the commit failed": 12,
    "reports go before their tally is kept": 12,
}
"""Shortly before the run in which a bug is met first, from 1 on; the others are met within a few."""


def test_a_run_is_made_shorter() -> None:
    def numbered(act: str) -> int:
        return next(n for n in range(1000) if random.Random(n).choice(list(ACTS)) == act)

    noise = [Fault(step, "messages are lost", step) for step in (1, 4)]
    needed = [Fault(3, "an operator acts", numbered("hold")), Fault(4, "an operator acts", numbered("release"))]
    with FAULT_BUGS["a released round begins anew"]():
        long = play(3, [*noise, *needed])
        assert long.broken == "a round went from held to announcing"
        short = shorten(long)
        assert short.broken == long.broken
        assert set(short.faults) <= set(needed)
        assert play(3, short.faults) == short, "the same faults are the same run"
