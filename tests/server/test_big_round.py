"""The paper's busiest day on this server, from the close to the signed list; and a small one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_MB = 2048


@pytest.mark.parametrize(
    ("reports", "buckets"),
    [pytest.param(900, 12, marks=pytest.mark.slow), pytest.param(23_188, 400, marks=pytest.mark.slow)],
    ids=["small", "busiest"],
)
def test_a_busy_day_is_decoded_and_published_in_little_memory(tmp_path: Path, reports: int, buckets: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    program = Path(__file__).with_name("big_round.py")
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "data"), str(reports), str(buckets)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    found = json.loads(done.stdout)
    print(f"{found['seconds']:.0f} s from the close to the signed list")
    status = found["status"]
    assert (status["state"], status["buckets_run"]) == ("published", buckets)
    assert (status["announced"], status["reports"]) == (reports, reports)
    assert status["found"] >= 10
    assert found["peak_mb"] < MAX_MB
