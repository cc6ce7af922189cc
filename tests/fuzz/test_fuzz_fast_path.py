"""The fast path and the framework answer generated requests alike. Long: ``fuzz_fast_path.py --runs 1000000``."""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz.fuzz_fast_path import DAY, SLOTS, Day, Disagreement, days
from tests.fuzz.odd_requests import Asked, Phone, asked

from hushcall.server.http import fast_path

HARNESS = Path(__file__).parent / "fuzz_fast_path.py"


def test_both_ways_answer_the_same(tmp_path: Path) -> None:
    day = Day(7, tmp_path)
    assert asyncio.run(day.play(6 * SLOTS)) == 6 * SLOTS
    assert {0, 201, 400, 401, 404} <= set(day.statuses)


@pytest.mark.slow
def test_both_ways_answer_the_same_for_a_whole_day() -> None:
    ((count, statuses),) = days(8, DAY)
    assert count == DAY
    assert {0, 200, 201, 400, 401, 403, 404, 405, 409, 413, 422, 429} <= set(statuses)


def test_a_request_follows_from_its_dice() -> None:
    def some() -> list[Asked]:
        dice, phones = random.Random("a day"), (Phone("one"), Phone("two"))
        return [asked(dice, 1, phones, 0.5) for _ in range(50)]

    assert some() == some()
    assert len(set(some())) > 40


def test_a_path_that_takes_more_than_it_should_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loose = fast_path.PATH.pattern.replace("[1-9][0-9]{0,8}", "[0-9]+")  # the framework refuses round 0 as no round
    assert loose != fast_path.PATH.pattern
    monkeypatch.setattr(fast_path, "PATH", re.compile(loose))
    with pytest.raises(Disagreement, match="day 7"):
        asyncio.run(Day(7, tmp_path).play(10 * SLOTS))


@pytest.mark.slow
def test_the_command_says_what_it_did() -> None:
    command = [sys.executable, str(HARNESS), "--runs", str(SLOTS), "--day", "3"]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert (said["requests"], said["first_day"]) == (SLOTS, 3)
