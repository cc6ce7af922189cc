"""Whether this worker can do its work, and the gauges of its service.

The check writes, since a full disk still answers queries. It runs in a thread of its own, at most every other second,
so a database that hangs hangs no request.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa

from hushcall.errors import HushcallError
from hushcall.protocol.states import HELD, RoundState
from hushcall.server.db import schema
from hushcall.server.db.engine import FULL, file_of
from hushcall.server.db.rows import newest_version
from hushcall.server.db.store import PublishedFiles, Store
from hushcall.server.logs import cause_of
from hushcall.server.rounds.hints import sources_of
from hushcall.server.rounds.round_status import newest_statuses, overdue
from hushcall.server.signing import keys, signer

CACHE_SECONDS = 2.0
TIMEOUT_SECONDS = 2.0
LOCK_SECONDS = TIMEOUT_SECONDS / 2
"""How long the check waits for the database's locks: their holder can then be named in time."""
LATE_SECONDS = 300
"""A round that should have moved so long ago is late: something keeps the scheduler."""
LEAST_BYTES = 1 << 20
"""Where SQLite's disk has less, a heartbeat may still be written, and a batch of uploads is not."""
SILENT = "does not answer in time"
Gauges = dict[str, tuple[str, float]]
"""Prometheus's gauges by name, each with its description."""
_DATABASE = "hushcall_database_up", "1 if the database answers."
DOWN: Gauges = {_DATABASE[0]: (_DATABASE[1], 0.0)}
T = TypeVar("T")


@dataclass(frozen=True)
class Standing:
    """``missing`` keeps this worker from serving clients. ``late`` is a matter for the operator only."""

    missing: dict[str, str] = field(default_factory=dict)
    late: dict[str, str] = field(default_factory=dict)


class Silent(HushcallError):
    """The database did not answer in time."""


class Readiness:
    """Asks the database on behalf of probes. Used inside one event loop."""

    def __init__(self, check: Callable[[], Standing]) -> None:
        self._run_check = check
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self.readers: dict[bytes, float] = {}
        """Hashes of the tokens that have read the metrics, with the time of the last."""
        self._hanging: Future[object] | None = None
        self._cached = (float("-inf"), Standing())
        self._checking = asyncio.Lock()

    def close(self) -> None:
        """End. A question that hangs is left alone."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def ask(self, question: Callable[[], T]) -> T:
        """The answer. Raises :class:`Silent` if it takes too long, and at once while an earlier question hangs."""
        if self._hanging is not None and not self._hanging.done():
            raise Silent(SILENT)
        future: Future[T] = self._thread.submit(question)
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), TIMEOUT_SECONDS)
        except TimeoutError:
            self._hanging = future  # type: ignore[assignment]
            raise Silent(SILENT) from None

    async def standing(self) -> Standing:
        """The state of this worker. Probes that come at the same time share one check."""
        async with self._checking:
            at, standing = self._cached
            if time.monotonic() - at >= CACHE_SECONDS:
                try:
                    standing = await self.ask(self._run_check)
                except Silent:
                    standing = Standing({"database": SILENT})
                self._cached = (time.monotonic(), standing)
            return standing


def check(store: Store, key_folder: Path, worker: str, now: float) -> Standing:
    missing, late = dict[str, str](), dict[str, str]()
    try:
        with store.read(LOCK_SECONDS) as connection:
            roles = signer.status(PublishedFiles(connection), datetime.fromtimestamp(int(now), UTC))
            behind = overdue(connection, int(now))
            late |= {f"hints {source.name}": source.problem for source in sources_of(connection) if source.problem}
        missing |= {role.role: "its signature has expired" for role in roles if role.expired}
        if behind > LATE_SECONDS:
            late["rounds"] = f"should have moved {behind} s ago"
        store.heartbeat(worker, now, LOCK_SECONDS)
        if (file := file_of(store.engine.url)) and shutil.disk_usage(file.parent).free < LEAST_BYTES:
            missing["database"] = FULL
    except (sa.exc.SQLAlchemyError, OSError) as error:
        missing["database"] = cause_of(error) or "does not answer"
    except HushcallError:
        missing["lists"] = "have no signed metadata that can be read"
    if absent := [role for role in keys.ONLINE if not keys.key_files(key_folder, role)]:
        missing["keys"] = f"there is none for {', '.join(absent)}: this worker cannot publish"
    return Standing(missing, late)


def gauges(store: Store, now: int) -> Gauges:
    with store.read() as connection:
        newest = newest_version(connection)
        behind = overdue(connection, now)
        held_rounds = sa.select(sa.func.count()).select_from(schema.rounds).where(schema.rounds.c.state == HELD)
        held_count = connection.execute(held_rounds).scalar_one()
        devices = connection.execute(sa.select(sa.func.count(schema.devices.c.id))).scalar_one()
    version, entries, made_at = (newest.version, newest.entries, newest.made) if newest else (0, 0, 0)
    values: Gauges = {
        _DATABASE[0]: (_DATABASE[1], 1.0),
        "hushcall_list_version": ("Version of the published list.", version),
        "hushcall_list_entries": ("Numbers on it.", entries),
        "hushcall_list_made_seconds": ("When its newest round closed, unix time.", made_at),
        "hushcall_devices": ("Devices enrolled.", devices),
        "hushcall_overdue_seconds": ("How long ago the latest round should have moved on.", behind),
        "hushcall_rounds_held": ("Rounds that wait for a person.", held_count),
    }
    for status in newest_statuses(store, 1):
        for name in ("round", "announced", "reports", "buckets_run", "buckets_skipped", "found"):
            values[f"hushcall_round_{name}"] = (f"Of the newest round: {name.replace('_', ' ')}.", status[name])
        for state in RoundState:
            values[f"hushcall_round_is_{state}"] = (f"1 if it is {state}.", float(status["state"] == state))
    return values
