"""The closed loop in small: what is blocked stays on the list while it calls, and leaves it afterwards."""

import json
import re
from pathlib import Path

import pytest

from hushcall.client.calls import candidates
from hushcall_lab.simulation import stream
from hushcall_lab.study import closed_loop
from hushcall_lab.study.closed_loop import CAST, LEFT_OUT, SHIPPED, Caller, Loop, fates

SCHOOL = Caller("the school", 90, spam=False, among=270, first_place=3)


def small(caller: Caller, days: int, *, blocked_count: bool = True) -> tuple[str, float | None]:
    """What happened on each day, and the share of calls that was blocked from the first block on."""
    rows = Loop((caller,), phones=3000, others=20, days=days, blocked_count=blocked_count).run()
    course = "".join("B" if row["blocked"] else "W" if row["warned"] else "-" for row in rows)
    return course, fates(rows, (caller,))[0]["blocked_after"]


def test_a_blocked_number_stays_blocked_while_it_calls() -> None:
    spammer = Caller("persistent", 50)
    course, share = small(spammer, 19)
    assert (course.lstrip("-W").strip("B"), share) == ("", 1.0)
    course, share = small(spammer, 19, blocked_count=False)
    assert re.search("B[W-]", course), "it leaves the list and comes back"
    assert share is not None
    assert share < 0.95


def test_whom_people_talk_to_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert small(SCHOOL, 6) == ("------", None)
    monkeypatch.setattr(candidates, "talked", lambda *_: False)
    monkeypatch.setattr(stream, "RETURNED", {True: 0.0, False: 0.0})
    assert small(SCHOOL, 6)[0].strip("-")


def test_who_calls_from_which_number_on_which_day() -> None:
    moving, resting = Caller("moving", 1, moves=3), Caller("resting", 1, works=2, rests=3, last=9)
    numbers = [moving.number_on(day) for day in range(7)]
    assert numbers[0] == numbers[2] != numbers[3] == numbers[5] != numbers[6]
    assert [day for day in range(12) if resting.number_on(day)] == [0, 1, 5, 6]
    assert [caller.name for caller in CAST if caller.persistent] == [caller.name for caller in CAST[:2]]


def test_the_study_is_drawn_and_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_loop, "QUICK_DAYS", 1)
    made = closed_loop.document(quick=True)
    assert {row["arm"] for row in made["rows"]} == {LEFT_OUT, SHIPPED}
    assert json.loads(json.dumps(made)) == made
    closed_loop.draw(made["rows"], made["title"], tmp_path / "loop.svg")
    assert "persistent, 90 a day" in (tmp_path / "loop.svg").read_text(encoding="utf-8")


@pytest.mark.slow
def test_sixty_days_as_the_page_tells_them() -> None:
    made = closed_loop.document(quick=False)
    assert [statement["agrees"] for statement in made["statements"]] == [True, False, True, True]
    loud, quiet = (row for row in made["rows"] if row["arm"] == SHIPPED and row["caller"].startswith("persistent"))
    assert loud["blocked_after"] == 1
    assert quiet["blocked_after"] >= 0.95
