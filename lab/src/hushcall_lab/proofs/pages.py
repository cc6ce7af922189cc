"""Uploads while 32 clients request one public page again and again, in turns with uploads alone."""

import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from hushcall.errors import InvalidParameter
from hushcall.formats.blocklists import WRITERS
from hushcall.protocol.numbers import NANP
from hushcall.server.service import Service
from hushcall.server.settings import load_settings
from hushcall_lab.simulation import rig
from hushcall_lab.simulation.load import Runs
from hushcall_lab.simulation.rig import HOST, Progress

VIEWERS, CONNECTIONS = 32, 64
BLOCKS = 3
"""Turns alone, and as many beside viewers, for each page."""
MIN_SHARE, MAX_P99_MS = 0.7, 250.0
MIN_CLIENTS = 2000
"""With fewer, their area codes would not be collected."""
TIMEOUT_SECONDS = 120.0
PAGES = (
    *("/", "/docs", "/readyz", "/api/blocklist", "/v1/lists/current/blocklist.jsonl"),
    *(f"/v1/lists/current/{writer.filename}" for writer in WRITERS.values()),
)
"""Every public page whose load could harm uploads."""


@dataclass(frozen=True)
class PageResult:
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
        return self.per_second / self.alone_per_second

    @property
    def ok(self) -> bool:
        return self.share >= MIN_SHARE and self.p99_ms <= MAX_P99_MS and not self.failed


def prove(
    entries: int, uploads: int, url: str, progress: Progress, pages: Sequence[str] = PAGES
) -> Iterator[PageResult]:
    server_core, load_core = rig.cores()
    size = max(uploads // (2 * BLOCKS), 1)
    with rig.on(server_core), rig.filled(url) as service:
        progress("a list", 0, 1)
        publish_list(service, entries)
        requests = iter(rig.prepared(service, max(2 * BLOCKS * size * len(pages), MIN_CLIENTS), progress))
        settings = load_settings(data=service.settings.data, database=url)
        with rig.process(rig.SERVER, settings.model_dump_json()) as port:
            for place, page in enumerate(pages):
                length = _request_until_ready(port, page)
                alone, beside, views = Runs(), Runs(), Runs()
                for block in range(BLOCKS):
                    progress(page, place * BLOCKS + block, BLOCKS * len(pages))
                    first, second = ([next(requests) for _ in range(size)] for _ in range(2))
                    alone.add(rig.drive(port, first, CONNECTIONS, 0.0, load_core))
                    with _viewers(port, page, first[0], load_core, views):
                        beside.add(rig.drive(port, second, CONNECTIONS, 0.0, load_core))
                statuses = alone.statuses + beside.statuses
                yield PageResult(
                    page=page,
                    size=length,
                    alone_per_second=alone.per_second,
                    alone_p99_ms=alone.quantile_ms(0.99),
                    per_second=beside.per_second,
                    p99_ms=beside.quantile_ms(0.99),
                    pages_per_second=views.statuses["200"] / views.seconds,
                    refused=views.statuses["503"],
                    failed=statuses.total() - statuses["201"],
                )


def publish_list(service: Service, entries: int) -> None:
    areas = NANP.area_codes
    places = (divmod(place, len(areas)) for place in range(entries))
    numbers = [NANP.number(areas[area], 2_000_000 + 37 * suffix) for suffix, area in places]
    for _ in range(2):
        round_id = service.rounds.open(service.now)
        rig.insert_hitters(service, round_id, numbers)
        service.publisher.publish(round_id, service.now)


def _request_until_ready(port: int, page: str) -> int:
    """Returns the page's size in bytes."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{port}{page}", timeout=TIMEOUT_SECONDS) as answer:
                return len(answer.read())
        except urllib.error.HTTPError as refusal:
            if refusal.code != 503 or time.monotonic() > deadline:
                raise InvalidParameter("page", "be there", f"{page}, {refusal.code}") from None
            time.sleep(1.0)


@contextmanager
def _viewers(port: int, page: str, upload: bytes, core: int | None, views: Runs) -> Iterator[None]:
    """Clients request the page meanwhile, and repeat the acknowledged ``upload``: the server is never idle before."""
    request = f"GET {page} HTTP/1.1\r\nhost: {HOST}\r\n\r\n".encode()
    with rig.generator(core, port, [request], connections=VIEWERS, rate=0.0, upload=upload.hex()) as child:
        time.sleep(1.0)  # until all are connected
        yield
        views.add(rig.outcome(child, TIMEOUT_SECONDS))
