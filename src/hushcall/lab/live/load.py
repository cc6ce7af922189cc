"""A load generator: requests come in on stdin, latencies leave on stdout. Runs as a process of its own.

Closed loop (``rate`` 0): every connection sends its next request when the last one was answered, which finds the
highest throughput. Open loop: requests start at fixed times, and latency counts from then, also while they wait for a
free connection; a slow server cannot hide behind a generator that waits for it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import re
import resource
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


@dataclass
class Outcome:
    """What a run saw: seconds per request in order of completion, and answers by status.

    ``acknowledged``: which requests got a 2xx, by their place. ``told``: refusals that say when to come back.
    ``seconds`` until the last answer, ``taken_seconds`` until the last 2xx: whoever is refused waits to hear of it.
    """

    latencies: list[float] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)
    acknowledged: list[int] = field(default_factory=list)
    told: int = 0
    seconds: float = 0.0
    taken_seconds: float = 0.0


class Connection(asyncio.Protocol):
    """One keep-alive connection with one request under way at a time."""

    def __init__(self) -> None:
        self.head, self.left = b"", -1
        self.done: asyncio.Future[bytes] | None = None
        self.transport: Any = None
        self.told = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """A piece of an answer: its head is kept, and of its body, which may be long, how much of it is to come."""
        if self.left < 0:
            self.head, found, rest = (self.head + data).partition(b"\r\n\r\n")
            if not found:
                return
            match = _LENGTH.search(self.head)
            self.left, data = int(match[1]) if match else 0, rest
        self.left -= min(len(data), self.left)
        if self.left == 0:
            head, self.head, self.left = self.head, b"", -1
            if self.done and not self.done.done():
                self.told = b"retry-after:" in head.lower()
                self.done.set_result(head[9:12])

    def connection_lost(self, _: Exception | None) -> None:
        """The server hung up."""
        if self.done and not self.done.done():
            self.done.set_result(b"000")

    async def ask(self, request: bytes) -> str:
        """Send one request; its status, 000 where the server hung up."""
        if self.transport.is_closing():
            return "000"
        self.done = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return (await self.done).decode()


async def drive(host: str, port: int, requests: list[bytes], connections: int, rate: float) -> Outcome:
    """Send all requests, each once."""
    loop, outcome = asyncio.get_running_loop(), Outcome()
    pool: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(connections):
        pool.put_nowait((await loop.create_connection(Connection, host, port))[1])
    started = time.perf_counter()
    running: set[asyncio.Task[None]] = set()

    async def one(place: int, due: float, connection: Connection) -> None:
        status = await connection.ask(requests[place])
        outcome.latencies.append(time.perf_counter() - due)
        outcome.statuses[status] = outcome.statuses.get(status, 0) + 1
        if status.startswith("2"):
            outcome.acknowledged.append(place)
            outcome.taken_seconds = time.perf_counter() - started
        elif status != "000":
            outcome.told += connection.told
        if connection.transport.is_closing():
            connection = (await loop.create_connection(Connection, host, port))[1]
        pool.put_nowait(connection)

    for place in range(len(requests)):
        due = started + place / rate if rate else 0.0
        if rate and (wait := due - time.perf_counter()) > 0.001:
            await asyncio.sleep(wait)
        connection = await pool.get()
        task = loop.create_task(one(place, due or time.perf_counter(), connection))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    outcome.seconds = time.perf_counter() - started
    return outcome


def main() -> None:
    """Read the plan, run it, print what was seen."""
    plan = json.load(sys.stdin)
    try:
        import uvloop  # a faster loop leaves more of the machine to the server

        run: Any = uvloop.run
    except ImportError:
        run = asyncio.run
    requests = [bytes.fromhex(text) for text in plan["requests"]]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # often 1,024, which is fewer than a crowd has connections
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, plan["connections"] + 64)), hard))
    gc.disable()  # a pause of the generator's own would look like one of the server's
    outcome = run(drive(plan["host"], plan["port"], requests, plan["connections"], plan["rate"]))
    json.dump(asdict(outcome), sys.stdout)


if __name__ == "__main__":
    main()
