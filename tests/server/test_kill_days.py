"""Days over HTTP with the default windows, and a server killed at every boundary of every round: the same rows.

``test_kill.py`` has the short version: one round with another behind it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.postgres import Postgres
from tests.server.killed_days import SPAMMERS

ROOT = Path(__file__).parents[2]


def _play(folder: Path, url: str, rounds: int, part: str, hours: int = 24) -> dict[str, Any]:
    program = str(Path(__file__).with_name("killed_days.py"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    done = subprocess.run(
        [sys.executable, program, str(folder), url, str(rounds), part, str(hours)],
        capture_output=True, text=True, timeout=6 * 3600, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout or "{}")
    return found


def both(
    kind: str, rounds: int, hours: int, folder: Path, request: pytest.FixtureRequest
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The ends of the undisturbed rounds, and of those with a server that is killed."""
    server: Postgres | None = request.getfixturevalue("postgres") if kind == "postgresql" else None
    start, template = folder / "start", server.fresh() if server else ""
    start.mkdir()
    _play(start, template, rounds, "prepare")
    ends = {}
    for part in ("whole", "killed"):
        shutil.copytree(start, folder / part)
        url = server.fresh(template) if server else ""
        ends[part] = _play(folder / part, url, rounds, part, hours)
        if server:
            server.drop(url)
    return ends["whole"], ends["killed"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.night)])
@pytest.mark.parametrize("days", [3, pytest.param(9, marks=pytest.mark.night)])
def test_days_with_a_server_that_dies_everywhere_end_like_days_without(
    kind: str, days: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    whole, killed = both(kind, days, 24, tmp_path, request)
    assert whole["deaths"] == 0
    assert killed["deaths"] == len(killed["where"]) >= 20 * days
    for name in ("decode bucket 202 part 0", "closed to decoded", "decoded to published"):
        for moment in ("before", "after"):
            assert f"{days} {name}: {moment} commit" in killed["where"]
    assert killed["digests"] == whole["digests"]
    assert killed["found"] == whole["found"]
    assert killed["sizes"]["rounds"] == days
    loud, slow = (str(one.number) for one in SPAMMERS)
    lengths = {number: [length for _, found, length in whole["found"] if found == number] for number in (loud, slow)}
    assert lengths[loud], "nothing was found"
    if days == 9:  # what no day shows, several together do
        assert lengths[slow]
        assert min(lengths[slow]) > 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("rounds", [3, pytest.param(168, marks=pytest.mark.night)])
def test_hours_with_a_server_that_dies_everywhere_end_like_hours_without(
    kind: str, rounds: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    whole, killed = both(kind, rounds, 1, tmp_path, request)
    assert whole["deaths"] == 0
    assert killed["deaths"] == len(killed["where"]) >= 20 * rounds
    assert killed["digests"] == whole["digests"]
    assert killed["found"] == whole["found"]
    assert killed["sizes"]["rounds"] == rounds
    assert killed["joined"] == whole["joined"]
    if rounds == 168:
        assert [reports for reports, _ in whole["joined"]] == [1], "one report a phone and day"
        assert {str(one.number) for one in SPAMMERS} & {number for _, number, _ in whole["found"]}
