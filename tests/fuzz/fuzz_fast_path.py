"""Fuzz the fast path against the framework: every request is answered by both, and they must say the same.

``python tests/fuzz/fuzz_fast_path.py --runs 1000000`` makes days of requests: rounds open, collect and close, and
phones (right, wrong and odd ones) announce and report in all sorts of ways. Each request goes to two applications over
two equal services, in this process, as ASGI messages: one with :class:`hushcall.server.http.fast_path.FastPath` before
it, one without. Status, headers, body and the route's name in the metrics must be equal. A day follows from its number:
``--day N`` plays it again. A request costs less than a millisecond for both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from tests.fuzz.odd_requests import AREAS, MAX_BODY, Asked, Phone, asked  # noqa: E402
from tests.server.new_folder import open_new  # noqa: E402
from tests.server.serving import Clock, newest, settings_for  # noqa: E402
from tests.server.test_fast_path import Detour  # noqa: E402

from hushcall.mechanisms import parameters  # noqa: E402
from hushcall.protocol.randomness import seeded  # noqa: E402
from hushcall.protocol.seeds import report_seed  # noqa: E402
from hushcall.server.http import app as http_app  # noqa: E402
from hushcall.server.http import limits  # noqa: E402
from hushcall.server.http.fast_path import FastPath  # noqa: E402
from hushcall.server.http.middleware import _route  # noqa: E402
from hushcall.server.ingest.ingest import ticket_for  # noqa: E402
from hushcall.server.rounds import holding  # noqa: E402
from hushcall.server.rounds.round_status import round_info  # noqa: E402
from hushcall.server.service import Service  # noqa: E402

SLOTS = 64
"""Requests that are under way at once. Each has two phones of its own, so that their order says nothing."""
PHASES = {"nothing": 3, "announcing": 42, "collecting": 60, "held": 4, "closed": 6, "next": 5}
"""A day: how many times all slots ask in each phase."""
DAY = SLOTS * sum(PHASES.values())
PER_MINUTE, REFUSALS, TURNS = 15, 20, 20
"""Requests of a phone in a minute, refusals of it in a round: few enough to be met. So many turns make a minute."""
SUFFIX = 5_550_143


@dataclass(frozen=True)
class Told:
    """What was answered; nothing (status 0) where the client hung up."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: Any
    route: str


class Disagreement(AssertionError):
    """The two ways said different things."""


@dataclass
class Way:
    """One application over a service of its own; the fast way or the plain one."""

    service: Service
    clock: Clock
    app: Any

    async def tell(self, request: Asked) -> Told:
        """What it answers."""
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": request.path,
            "raw_path": request.path.encode(),
            "root_path": "",
            "query_string": request.query,
            "headers": list(request.headers),
            "client": ("127.0.0.1", 5),
            "server": ("127.0.0.1", 80),
            "state": {},
        }
        left, sent = list(request.pieces), list[dict[str, Any]]()

        async def receive() -> dict[str, Any]:
            piece = left.pop(0) if left else None
            if piece is None:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": piece, "more_body": bool(left)}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        return told(sent, scope)


def told(sent: list[dict[str, Any]], scope: dict[str, Any]) -> Told:
    """An answer's messages as a value; how JSON is spaced is nobody's business."""
    if not sent:
        return Told(0, (), None, _route(scope))
    start, body = sent[0], b"".join(one["body"] for one in sent[1:])
    headers = dict(start["headers"])
    assert len(headers) == len(start["headers"]), "a header is there twice"
    length = headers.pop(b"content-length", None)
    assert scope["method"] == "HEAD" or length is None or int(length) == len(body), "the length is not that of the body"
    media = headers.get(b"content-type", b"")
    told_body = json.loads(body) if body and b"json" in media else body
    return Told(start["status"], tuple(sorted(headers.items())), told_body, _route(scope))


@dataclass
class Day:
    """Two equal services, the phones in front of them, and what was counted."""

    number: int
    folder: Path
    statuses: Counter[int] = field(default_factory=Counter)

    async def play(self, most: int, say: Callable[[Asked, Told], None] = lambda *_: None) -> int:
        """Ask at most so many times; how often it was."""
        dice, count = random.Random(f"a day {self.number}"), 0
        with ExitStack() as stack:
            passing = SimpleNamespace(monotonic=lambda: 60.0 * (1 + count // (TURNS * SLOTS)))
            stack.enter_context(patch.object(limits, "time", passing))
            stack.enter_context(patch.object(limits, "RECENT_SECONDS", -1.0))  # without pauses
            ways = [self._way(name) for name in ("fast", "plain")]
            contexts = [way.app.router.lifespan_context(way.app) for way in ways]
            for context in contexts:
                await context.__aenter__()
            try:
                phones = self._phones(ways)
                for phase, times in PHASES.items():
                    self._enter(phase, ways, phones)
                    row = ways[0].service.rounds.newest()
                    share_of_reports = 0.3 if phase in ("nothing", "announcing", "next") else 0.85
                    for _ in range(times):
                        together = [asked(dice, row.id if row else 0, pair, share_of_reports) for pair in phones]
                        quick, slow = [await asyncio.gather(*map(way.tell, together)) for way in ways]
                        for request, one, other in zip(together, quick, slow, strict=True):
                            self.statuses[one.status] += 1
                            say(request, one)
                            if one != other:
                                raise Disagreement(f"day {self.number}: {request}\nfast:  {one}\nplain: {other}")
                        count += len(together)
                        if count >= most:
                            return count
            finally:
                for context in contexts:
                    await context.__aexit__(None, None, None)
        return count

    def _way(self, name: str) -> Way:
        clock = Clock()
        settings = settings_for(
            self.folder / name,
            intake={"max_body": MAX_BODY, "per_device": PER_MINUTE},
            guard={"per_device": REFUSALS},
        )
        service = open_new(settings, seeded(b"both ways"), clock)
        with patch.object(http_app, "FastPath", FastPath if name == "fast" else Detour):
            return Way(service, clock, http_app.make_app(service, scheduler=False))

    def _phones(self, ways: list[Way]) -> list[tuple[Phone, Phone]]:
        made = [way.service.devices.enrol_many(2 * SLOTS, way.service.now) for way in ways]
        assert made[0] == made[1], "the two services are not equal"
        for way in ways:
            for device, _ in made[0][: 2 * SLOTS : 16]:
                way.service.devices.revoke(device, way.service.now)
        self.devices = {token: device for device, token in made[0]}
        found = [Phone(token) for _, token in made[0]]
        return list(zip(found[:SLOTS], found[SLOTS:], strict=True))

    def _enter(self, phase: str, ways: list[Way], phones: list[tuple[Phone, Phone]]) -> None:
        """Both services move on; the phones learn what they may know."""
        for way in ways:
            rounds, row = way.service.rounds, way.service.rounds.newest()
            if phase in ("announcing", "next"):
                way.clock.now = row.next if row else way.clock.now
                rounds.open(way.service.now)
            elif phase == "collecting":
                way.clock.now = newest(way.service).collects
                rounds.start_collecting(newest(way.service).id, way.service.now)
            elif phase == "held":
                holding.hold(way.service.store, newest(way.service).id, "a look")
            elif phase == "closed":
                holding.release(way.service.store, newest(way.service).id)
                rounds.close(newest(way.service).id)
        if phase in ("announcing", "next", "collecting"):
            row, service = newest(ways[0].service), ways[0].service
            shown = round_info(service.store, row, service.now).to_plain()
            for phone in (one for pair in phones for one in pair):
                ticket = ticket_for(row.secret, self.devices[phone.token])
                if phase == "collecting":
                    terms = shown["buckets"][str(AREAS[0])]["parameters"]
                    public = report_seed(row.seed, ticket)
                    phone.reports.append(parameters.from_plain(terms).privatise(SUFFIX, public, seeded(public)))
                else:
                    phone.tickets.append(ticket.hex())


def days(first: int, runs: int) -> Iterator[tuple[int, Counter[int]]]:
    """Play days until so many requests were asked; how many each had, and the statuses of their answers."""
    number = first
    while runs > 0:
        folder = Path(tempfile.mkdtemp(prefix="hushcall-fuzz-"))
        try:
            day = Day(number, folder)
            count = asyncio.run(day.play(runs))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        yield count, day.statuses
        runs, number = runs - count, number + 1


def main() -> None:
    """So many requests; what they were answered, and what both ways together took of the processor."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=10 * DAY, help=f"requests; a day has {DAY:,}")
    options.add_argument("--day", type=int, default=1, help="the number of the first day")
    chosen = options.parse_args()
    statuses, count, began = Counter[int](), 0, time.process_time()
    for played, seen in days(chosen.day, chosen.runs):
        statuses, count = statuses + seen, count + played
        if sys.stderr.isatty():
            print(f"\r{count:,} requests", end="", file=sys.stderr)
    spent = time.process_time() - began
    words = {"requests": count, "first_day": chosen.day, "statuses": dict(sorted(statuses.items()))}
    print(json.dumps({**words, "core_seconds": round(spent, 1), "core_ms_each": round(1000 * spent / count, 3)}))


if __name__ == "__main__":
    main()
