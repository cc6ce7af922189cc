"""Whether this worker can do its work: the service comes in, what is missing leaves, within two seconds.

What is looked at is written, not only read: a disk that is full answers every query. It is looked at in a thread of its
own, at most every other second, however many ask; a database that hangs is a finding, and hangs nobody who asks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

import sqlalchemy as sa

from hushcall.errors import HushcallError
from hushcall.server.db.store import PublishedFiles
from hushcall.server.logs import cause_of
from hushcall.server.rounds.round_status import overdue
from hushcall.server.service import Service
from hushcall.server.signing import keys, signer

KEEP_SECONDS = 2.0
DEADLINE = 2.0
PATIENCE = DEADLINE / 2
"""Seconds for which a look waits for the database's locks: what keeps it can then be named in time."""
LATE_SECONDS = 300
"""A round that should have moved so long ago is late: something keeps the scheduler."""
SILENT = "does not answer in time"
T = TypeVar("T")


@dataclass(frozen=True)
class Standing:
    """``missing`` keeps this worker from serving phones; ``late`` is a matter for the operator only."""

    missing: dict[str, str] = field(default_factory=dict)
    late: dict[str, str] = field(default_factory=dict)


class Silent(HushcallError):
    """The database did not answer in time."""


class Watch:
    """Asks the database on behalf of probes. Used inside one event loop."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="watch")
        self._hanging: Future[object] | None = None
        self._kept = (float("-inf"), Standing())
        self._looking: asyncio.Task[Standing] | None = None

    def close(self) -> None:
        """End; a question that hangs is left alone."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def ask(self, question: Callable[[], T]) -> T:
        """Its answer; raises :class:`Silent` when it takes too long, and at once while an earlier one still hangs."""
        if self._hanging is not None and not self._hanging.done():
            raise Silent(SILENT)
        asked: Future[T] = self._thread.submit(question)
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(asked)), DEADLINE)
        except TimeoutError:
            self._hanging = asked  # type: ignore[assignment]
            raise Silent(SILENT) from None

    async def standing(self) -> Standing:
        """How it stands; those who ask at the same time share one look."""
        at, kept = self._kept
        if time.monotonic() - at < KEEP_SECONDS:
            return kept
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look())
        return await asyncio.shield(self._looking)

    async def _look(self) -> Standing:
        try:
            found = await self.ask(self._checks)
        except Silent:
            found = Standing({"database": SILENT})
        finally:
            self._looking = None
        self._kept = (time.monotonic(), found)
        return found

    def _checks(self) -> Standing:
        return looked_at(self.service)


def looked_at(service: Service) -> Standing:
    """How a worker stands, by a look at all that it needs."""
    missing, late = dict[str, str](), dict[str, str]()
    try:
        with service.store.read(PATIENCE) as connection:
            roles = signer.status(PublishedFiles(connection), datetime.fromtimestamp(service.now, UTC))
            behind = overdue(connection, service.now)
        missing |= {role.role: "its signature has expired" for role in roles if role.expired}
        if behind > LATE_SECONDS:
            late["rounds"] = f"should have moved {behind} s ago"
        service.store.beat(service.worker, service.clock(), PATIENCE)
    except (sa.exc.SQLAlchemyError, OSError) as error:
        missing["database"] = cause_of(error) or "does not answer"
    except HushcallError:
        missing["lists"] = "have no signed metadata that can be read"
    if gone := [role for role in keys.ONLINE if not keys.key_files(service.settings.keys, role)]:
        missing["keys"] = f"there is none for {', '.join(gone)}: this worker cannot publish"
    return Standing(missing, late)
