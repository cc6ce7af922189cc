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


def _play(folder: Path, url: str, days: int, part: str) -> dict[str, Any]:
    program = str(Path(__file__).with_name("killed_days.py"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    done = subprocess.run(
        [sys.executable, program, str(folder), url, str(days), part],
        capture_output=True, text=True, timeout=3600, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout or "{}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("days", [3, pytest.param(9, marks=pytest.mark.night)])
def test_days_with_a_server_that_dies_everywhere_end_like_days_without(
    kind: str, days: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server: Postgres | None = request.getfixturevalue("postgres") if kind == "postgresql" else None
    start, template = tmp_path / "start", server.fresh() if server else ""
    start.mkdir()
    _play(start, template, days, "prepare")
    ends = {}
    for part in ("whole", "killed"):
        shutil.copytree(start, tmp_path / part)
        url = server.fresh(template) if server else ""
        ends[part] = _play(tmp_path / part, url, days, part)
        if server:
            server.drop(url)
    whole, killed = ends["whole"], ends["killed"]
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
