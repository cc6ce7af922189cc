"""The paper's busiest day on this server: 23 188 reports over 400 buckets, from the close to the signed list."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_CHILD = """
import json, random, resource, sys, time
from pathlib import Path
from tests.server.serving import Clock, Village, newest, settings_for
from hushcall.numbers import NANP
from hushcall.privacy.coins import seeded
from hushcall.server.service import open_service

if __name__ == "__main__":
    folder, reports, buckets = Path(sys.argv[1]), 23_188, 400
    world, clock = random.Random(5), Clock()
    settings = settings_for(folder, round={"profile": "balanced", "decoders": 2}, list={"exports": ["all"]})
    service = open_service(settings, seeded(b"big"), clock)
    areas, planted = NANP.area_codes[:buckets], [NANP.number(a, 5_550_100) for a in NANP.area_codes[:10]]
    callers = [str(number) for number in planted for _ in range(60)]
    while len(callers) < reports:
        callers.append(str(NANP.number(areas[len(callers) % buckets], world.randrange(2_000_000, 9_999_999))))
    world.shuffle(callers)
    village = Village(service, clock, seeded(b"phones"))
    number = village.to("collecting", callers)
    stored = newest(service).announced
    clock.now = newest(service).closes
    started = time.monotonic()
    service.rounds.advance(service.now)
    seconds = time.monotonic() - started
    from hushcall.server.rounds.round_status import status
    found = status(service.store, number)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    service.close()
    peak += 2 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # the largest of two decoders
    print(json.dumps({"status": found, "announced": stored, "seconds": seconds, "peak_mb": peak / 1024}))
"""


@pytest.mark.slow
def test_the_busiest_day_closes_decodes_and_publishes_in_three_minutes_under_two_gigabytes(tmp_path: Path) -> None:
    script = tmp_path / "big.py"
    script.write_text(_CHILD, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "data")],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    found = json.loads(done.stdout)
    assert found["announced"] == 23_188
    assert found["status"]["state"] == "published"
    assert found["status"]["buckets_run"] == 400
    assert found["status"]["reports"] == 23_188
    assert found["status"]["found"] >= 10
    assert found["seconds"] < 180
    assert found["peak_mb"] < 2048
