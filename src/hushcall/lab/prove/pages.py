"""Uploads while many look: 32 clients ask for one public page again and again, and uploads hardly notice.

A server as ``hushcall serve`` starts it by default has a long list in force. Uploads come as fast as it takes them, in
turns alone and beside those clients, page by page: whatever else the machine does hits both alike. The server is on one
core, all clients on another. A page is asked for once before: it is worked out once a version of the list.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from hushcall.errors import InvalidParameter
from hushcall.formats.blocklists import WRITERS
from hushcall.lab.live.rig import HOST, SERVER, Progress, Runs, cores, drive, filled, on, prepared, process
from hushcall.numbers import NANP
from hushcall.protocol.states import DECODED
from hushcall.server.db import schema
from hushcall.server.service import Service
from hushcall.server.settings import load_settings

CLIENTS, CONNECTIONS = 32, 64
"""Who look at once, and phones that speak at once."""
BLOCKS = 3
"""Turns alone, and as many beside those who look, for each page."""
LEAST_SHARE, MOST_P99_MS = 0.7, 250.0
LEAST_PHONES = 2000
"""With fewer, their area codes would not be collected."""
PATIENCE = 120.0
PAGES = (
    *("/", "/docs", "/readyz", "/api/blocklist", "/v1/lists/current/blocklist.jsonl"),
    *(f"/v1/lists/current/{writer.filename}" for writer in WRITERS.values()),
)
"""Every page that anybody may ask for, and that could be worth anything to whoever wants to do harm."""


@dataclass(frozen=True)
class Looked:
    """What uploads were like while clients looked at one page, beside what they were like alone, in the same run."""

    page: str
    size: int
    alone_per_second: float
    alone_p99_ms: float
    per_second: float
    p99_ms: float
    pages_per_second: float
    refused: int
    failed: int

    @property
    def share(self) -> float:
        """Of the undisturbed rate."""
        return self.per_second / self.alone_per_second

    @property
    def ok(self) -> bool:
        """Uploads are as quick as promised, and each was taken."""
        return self.share >= LEAST_SHARE and self.p99_ms <= MOST_P99_MS and not self.failed


def bear_looks(entries: int, uploads: int, url: str, progress: Progress, pages: Sequence[str] = PAGES) -> list[Looked]:
    """For each page so many uploads, half of them alone, over a list with so many numbers."""
    server_core, load_core = cores()
    size = max(uploads // (2 * BLOCKS), 1)
    with on(server_core), filled(url) as service:
        progress("a list", 0, 1)
        listed(service, entries)
        requests = iter(prepared(service, max(2 * BLOCKS * size * len(pages), LEAST_PHONES), progress))
        settings = load_settings(data=service.settings.data, database=url)
        with process(SERVER, settings.model_dump_json()) as port:
            found = []
            for place, page in enumerate(pages):
                length = _first(port, page)
                alone, beside, looks = Runs(), Runs(), list[dict[str, Any]]()
                for block in range(BLOCKS):
                    progress(page, place * BLOCKS + block, BLOCKS * len(pages))
                    some, others = ([next(requests) for _ in range(size)] for _ in range(2))
                    alone.add(drive(port, some, CONNECTIONS, 0.0, load_core))
                    with _looking(port, page, some[0], load_core, looks):
                        beside.add(drive(port, others, CONNECTIONS, 0.0, load_core))
                found.append(_looked(page, length, alone, beside, looks))
    return found


def _looked(page: str, length: int, alone: Runs, beside: Runs, looks: list[dict[str, Any]]) -> Looked:
    seconds = sum(one["seconds"] for one in looks)
    fine, refused = (sum(one["statuses"].get(status, 0) for one in looks) for status in ("200", "503"))
    failed = sum(n for runs in (alone, beside) for status, n in runs.statuses.items() if status != "201")
    return Looked(
        *(page, length, alone.per_second, alone.quantile(0.99), beside.per_second, beside.quantile(0.99)),
        *(fine / seconds, refused, failed),
    )


def listed(service: Service, entries: int) -> None:
    """Publish a list with so many numbers, each of which is blocked."""
    number = service.rounds.open(service.now)
    columns = {"round": number, "estimate": 40.0, "low": 20.0, "high": 60.0, "p_value": 1e-9, "length": 2}
    areas = NANP.area_codes
    rows = []
    for place in range(entries):
        suffix, area = divmod(place, len(areas))
        text = str(NANP.number(areas[area], 2_000_000 + 37 * suffix))
        rows.append({**columns, "number": text, "bucket": areas[area]})
    with service.store.write("a long list") as connection:
        connection.execute(sa.insert(schema.hitters), rows)
        connection.execute(sa.update(schema.rounds).values(state=DECODED))
    service.publisher.publish(number, service.now)


def _first(port: int, page: str) -> int:
    """Ask for a page until it is there; its bytes."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{port}{page}", timeout=PATIENCE) as answer:
                return len(answer.read())
        except urllib.error.HTTPError as refusal:
            if refusal.code != 503 or time.monotonic() > until:
                raise InvalidParameter("page", "be there", f"{page}, {refusal.code}") from None
            time.sleep(1.0)


@contextmanager
def _looking(port: int, page: str, upload: bytes, core: int | None, seen: list[dict[str, Any]]) -> Iterator[None]:
    """So many clients ask for the page, for as long as this lasts; what they saw is added.

    ``upload`` was acknowledged: it is sent again now and then, so that what is measured is not how uploads begin.
    """
    request = f"GET {page} HTTP/1.1\r\nhost: {HOST}\r\n\r\n".encode()
    plan = {"host": HOST, "port": port, "clients": CLIENTS, "request": request.hex(), "upload": upload.hex()}
    with on(core):
        words = [sys.executable, "-m", "hushcall.lab.live.looking"]
        looking = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert looking.stdin
    try:
        looking.stdin.write(json.dumps(plan) + "\n")
        looking.stdin.flush()
        time.sleep(1.0)  # until they are all there
        yield
        seen.append(json.loads(looking.communicate(timeout=PATIENCE)[0]))
    finally:
        looking.kill()
        looking.wait()
