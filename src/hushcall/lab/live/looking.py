"""Clients that ask for one page again and again: a plan comes in on stdin, and until that ends they ask.

What leaves on stdout is how often each status came, and in how many seconds. Runs as a process of its own. One more
client sends an upload, which was acknowledged before, now and then: to the server, uploads come in all the while.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from typing import Any

from hushcall.lab.live.load import Connection

AGAIN, UPLOAD_EVERY = 0.05, 0.1
"""Seconds after which a client that was hung up on comes back; and between two uploads of the one that sends them."""


async def look(plan: dict[str, Any], over: asyncio.Event) -> dict[str, Any]:
    """Ask until it is over."""
    loop, statuses, request = asyncio.get_running_loop(), Counter[str](), bytes.fromhex(plan["request"])

    async def client() -> None:
        while True:
            _, connection = await loop.create_connection(Connection, plan["host"], plan["port"])
            while not connection.transport.is_closing():
                statuses[await connection.ask(request)] += 1
            await asyncio.sleep(AGAIN)

    async def uploads(upload: bytes) -> None:
        while True:
            _, connection = await loop.create_connection(Connection, plan["host"], plan["port"])
            while not connection.transport.is_closing():
                await connection.ask(upload)
                await asyncio.sleep(UPLOAD_EVERY)

    began = time.perf_counter()
    sending = loop.create_task(uploads(bytes.fromhex(plan["upload"]))) if plan.get("upload") else None
    clients = [loop.create_task(client()) for _ in range(plan["clients"])]
    await over.wait()
    seconds = time.perf_counter() - began
    for each in [*clients, *([sending] if sending else [])]:
        each.cancel()
    return {"statuses": dict(statuses), "seconds": seconds}


async def _until_stdin_ends(plan: dict[str, Any]) -> dict[str, Any]:
    over, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.run_in_executor(None, lambda: (sys.stdin.read(), loop.call_soon_threadsafe(over.set)))
    return await look(plan, over)


def main() -> None:
    """Read the plan, from one line; look; print what was seen."""
    plan = json.loads(sys.stdin.readline())
    try:
        import uvloop  # a faster loop leaves more of the machine to those who send uploads

        run: Any = uvloop.run
    except ImportError:
        run = asyncio.run
    json.dump(run(_until_stdin_ends(plan)), sys.stdout)


if __name__ == "__main__":
    main()
