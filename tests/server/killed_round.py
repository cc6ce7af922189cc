"""A program that plays one round and is killed at a boundary of a transaction, for ``test_kill.py``.

``python killed_round.py FOLDER URL…`` reads which boundary to die at from stdin, a line at a time, and answers with one
line of JSON a case. It forks for every case, after everything is imported: sixty restarts in a few seconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from pathlib import Path

from tests.server.serving import PERIOD, SPAM, START, Clock, Village, everything, newest, settings_for

from hushcall.protocol.randomness import seeded
from hushcall.server.db import schema
from hushcall.server.publishing import exclusions
from hushcall.server.service import Service, open_service

PHONES, BATCH = 90, 30
CALLERS = [SPAM] * (PHONES // 2) + ["+13035550100", "+14045550100", "+12025550199"] * (PHONES // 6)
RAND = b"a server that dies"
"""Seeded: a server that starts again draws the same round, so that ends can be compared."""


def prepared(folder: Path, url: str) -> None:
    """A server with its phones, and a round behind it that the next one's window reaches."""
    service = _open(folder, url, lambda _: None)
    clock = Clock()
    service.clock = clock
    village = Village(service, clock, seeded(b"the day before"))
    village.to("published", CALLERS)
    (folder / "tokens.json").write_text(json.dumps(village.tokens), encoding="utf-8")
    service.close()


def played(folder: Path, url: str, die_at: int | None) -> tuple[list[str], str]:
    """Play what is left of the round; (the boundaries passed, a digest of every row in the end)."""
    passed: list[str] = []

    def fault(name: str) -> None:
        if len(passed) == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        passed.append(name)

    service = _open(folder, url, fault)
    clock = Clock()
    service.clock = clock
    village = Village(service, clock, seeded(b"phones"), json.loads((folder / "tokens.json").read_text("utf-8")))
    rounds = service.rounds
    number = rounds.open(START + PERIOD) if newest(service).id == 1 else newest(service).id
    row = newest(service)
    if row.state == "announcing":
        _batches(village, CALLERS, "announce")
        clock.now = row.collects
        rounds.start_collecting(number, service.now)
    if newest(service).state == "collecting":
        _batches(village, CALLERS, "report")
    clock.now = row.closes
    rounds.advance(service.now)
    if not exclusions.appeals(service.store):
        exclusions.appeal(service.store, SPAM, "wrong", "somebody", service.now)
    service.publisher.republish(service.now)  # what a scheduler does first
    rows = everything(service)
    rows["appeals"] = [row[1:] for row in rows["appeals"]]  # a sequence of PostgreSQL's never goes back
    digest = hashlib.sha256(repr(rows).encode()).hexdigest()
    service.close()
    return passed, digest


def _batches(village: Village, callers: list[str], what: str) -> None:
    """Several commits: each phone speaks in its batch, with the same bytes whenever it is asked again."""
    for start in range(0, PHONES, BATCH):
        part = Village(
            village.service, village.clock, seeded(b"batch %d" % start), village.tokens[start : start + BATCH]
        )
        answers = getattr(part, what)(callers[start : start + BATCH])
        assert all(getattr(answer, "status", 0) in (200, 201) for answer in answers), answers


def _open(folder: Path, url: str, fault: object) -> Service:
    settings = settings_for(folder, url, round={"profile": "balanced", "windows": [1, 2]}, list={"exports": ["plain"]})
    return open_service(settings, seeded(RAND), Clock(), fault)  # type: ignore[arg-type]


def main() -> None:
    """One case a line: {"folder": …, "url": …, "die_at": …, "prepare": …}."""
    assert schema.metadata.tables
    for line in sys.stdin:
        case = json.loads(line)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            folder = Path(case["folder"])
            if case.get("prepare"):
                prepared(folder, case["url"])
                found: object = {}
            else:
                passed, digest = played(folder, case["url"], case.get("die_at"))
                found = {"passed": passed, "digest": digest}
            os.write(write, json.dumps(found).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            text = pipe.read()
        _, status = os.waitpid(child, 0)
        ended = {"killed": os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, "status": status}
        print(json.dumps({**(json.loads(text) if text else {}), **ended}), flush=True)


if __name__ == "__main__":
    main()
