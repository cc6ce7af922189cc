"""A program that plays a busy day on a server, for ``test_big_round.py``: python big_round.py FOLDER REPORTS BUCKETS.

A process of its own, so that its memory can be told from that of other tests. It prints one JSON document.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from pathlib import Path
from typing import Any

from tests.server.serving import Clock, Village, newest, settings_for

from hushcall.protocol.numbers import NANP
from hushcall.protocol.randomness import seeded
from hushcall.server.rounds.round_status import status
from hushcall.server.service import open_service
from hushcall_lab.usage import peak_mb

PLANTED = 10
HOLDERS = 60


def callers_of(reports: int, buckets: int) -> list[str]:
    """Ten numbers that sixty phones each report, and as many others as there are reports."""
    world, areas = random.Random(5), NANP.area_codes[:buckets]
    found = [str(NANP.number(area, 5_550_100)) for area in areas[:PLANTED] for _ in range(HOLDERS)]
    while len(found) < reports:
        found.append(str(NANP.number(areas[len(found) % buckets], world.randrange(2_000_000, 9_999_999))))
    world.shuffle(found)
    return found


def play(folder: Path, reports: int, buckets: int) -> dict[str, Any]:
    """From the close to the signed list, with two decoders."""
    clock = Clock()
    settings = settings_for(folder, round={"profile": "balanced", "decoders": 2}, list={"exports": ["all"]})
    service = open_service(settings, seeded(b"big"), clock)
    number = Village(service, clock, seeded(b"phones")).to("collecting", callers_of(reports, buckets))
    clock.now = newest(service).closes
    started = time.monotonic()
    service.rounds.advance(service.now)
    seconds = time.monotonic() - started
    found = status(service.store, number)
    peak = peak_mb()  # not getrusage's: that counts whatever started this process, too
    service.close()
    peak += 2 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024  # the largest of two decoders
    return {"status": found, "seconds": seconds, "peak_mb": peak}


if __name__ == "__main__":
    print(json.dumps(play(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
