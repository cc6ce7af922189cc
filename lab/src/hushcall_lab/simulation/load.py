"""A load generator, which runs as a process of its own: ``python -m hushcall_lab.simulation.load``.

It reads one line of JSON from stdin and prints :class:`Runs`. With ``rate`` 0 a connection sends its next request after
the last answer, else at fixed times, from which latency counts. A plan with an ``upload`` goes on until stdin ends.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import re
import resource
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
RECONNECT_SECONDS, UPLOADS_PER_SECOND = 0.05, 10.0


@dataclass
class Runs:
    """Figures of one run or several: latencies in seconds, in order of completion, and answers by status.

    ``acknowledged``: the places of one run's requests with a 2xx. ``retry_after``: refusals with that header.
    ``seconds`` last until the last answer, ``success_seconds`` until the last 2xx: refusals are delayed on purpose.
    """

    latencies: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    acknowledged: list[int] = field(default_factory=list)
    retry_after: int = 0
    seconds: float = 0.0
    success_seconds: float = 0.0

    def add(self, other: Runs) -> None:
        self.latencies += other.latencies
        self.statuses.update(other.statuses)
        self.retry_after += other.retry_after
        self.seconds += other.seconds
        self.success_seconds += other.success_seconds

    @property
    def per_second(self) -> float:
        return len(self.latencies) / self.seconds

    def quantile_ms(self, share: float) -> float:
        return 1000 * statistics.quantiles(self.latencies, n=1000)[round(share * 1000) - 1]


class Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.head, self.body_bytes = b"", -1  # of the body, what is still to come; −1: the head is not complete
        self.done: asyncio.Future[bytes] | None = None
        self.transport: Any = None
        self.retry_after = False  # whether the last answer had that header

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.body_bytes < 0:
            self.head, end, body = (self.head + data).partition(b"\r\n\r\n")
            if not end:
                return
            match = _LENGTH.search(self.head)
            self.body_bytes, data = int(match[1]) if match else 0, body
        self.body_bytes -= min(len(data), self.body_bytes)
        if self.body_bytes == 0:
            head, self.head, self.body_bytes = self.head, b"", -1
            if self.done and not self.done.done():
                self.retry_after = b"retry-after:" in head.lower()
                self.done.set_result(head[9:12])

    def connection_lost(self, _: Exception | None) -> None:
        if self.done and not self.done.done():
            self.done.set_result(b"000")

    async def ask(self, request: bytes) -> str:
        if self.transport.is_closing():
            return "000"
        self.done = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return (await self.done).decode()


async def drive(
    host: str, port: int, requests: list[bytes], connections: int, rate: float, *, endless: bool = False
) -> Runs:
    """Sends each request once. ``endless``: again and again until the task is cancelled."""
    loop, outcome = asyncio.get_running_loop(), Runs()
    pool: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(connections):
        pool.put_nowait((await loop.create_connection(Connection, host, port))[1])
    started = time.perf_counter()
    running: set[asyncio.Task[None]] = set()

    async def send(place: int, due: float, connection: Connection) -> None:
        status = await connection.ask(requests[place % len(requests)])
        outcome.latencies.append(time.perf_counter() - due)
        outcome.statuses[status] += 1
        if status.startswith("2"):
            outcome.acknowledged.append(place)
            outcome.success_seconds = time.perf_counter() - started
        elif status != "000":
            outcome.retry_after += connection.retry_after
        if connection.transport.is_closing():
            await asyncio.sleep(RECONNECT_SECONDS)
            connection = (await loop.create_connection(Connection, host, port))[1]
        pool.put_nowait(connection)

    try:
        for place in itertools.count() if endless else range(len(requests)):
            due = started + place / rate if rate else 0.0
            if rate and (wait := due - time.perf_counter()) > 0.001:
                await asyncio.sleep(wait)
            connection = await pool.get()
            task = loop.create_task(send(place, due or time.perf_counter(), connection))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.gather(*running)
    except asyncio.CancelledError:
        for task in running:
            task.cancel()
    outcome.seconds = time.perf_counter() - started
    return outcome


async def _run(plan: dict[str, Any]) -> Runs:
    requests, address = [bytes.fromhex(text) for text in plan["requests"]], (plan["host"], plan["port"])
    if "upload" not in plan:
        return await drive(*address, requests, plan["connections"], plan["rate"])
    upload, loop = bytes.fromhex(plan["upload"]), asyncio.get_running_loop()
    tasks = [
        loop.create_task(drive(*address, requests, plan["connections"], plan["rate"], endless=True)),
        loop.create_task(drive(*address, [upload], 1, UPLOADS_PER_SECOND, endless=True)),
    ]
    await loop.run_in_executor(None, sys.stdin.read)
    for task in tasks:
        task.cancel()
    return (await asyncio.gather(*tasks))[0]


def main() -> None:
    plan = json.loads(sys.stdin.readline())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # often 1,024: fewer than the connections of a large run
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, plan["connections"] + 64)), hard))
    gc.disable()  # a pause of the generator would look like one of the server
    try:
        import uvloop  # a faster loop leaves more of the machine to the server

        run: Any = uvloop.run
    except ImportError:
        run = asyncio.run
    json.dump(vars(run(_run(plan))), sys.stdout)


if __name__ == "__main__":
    main()
