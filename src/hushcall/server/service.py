"""The service put together: settings come in; store, devices, rounds and publisher leave, wired to one clock."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

import sqlalchemy as sa

from hushcall.errors import InvalidParameter
from hushcall.numbers import NumberingPlan
from hushcall.privacy.coins import ByteSource, os_entropy
from hushcall.server import in_force
from hushcall.server.access import sessions
from hushcall.server.access.audit import Audit
from hushcall.server.access.devices import Devices
from hushcall.server.access.enrolment import Enrolments
from hushcall.server.anonymity.issuer import Issuer
from hushcall.server.db import schema
from hushcall.server.db.leases import Leases, Term
from hushcall.server.db.store import Store, no_fault, open_store, put_files
from hushcall.server.logs import log
from hushcall.server.publishing.corrections import Corrections
from hushcall.server.publishing.publisher import Publisher
from hushcall.server.rounds.state_machine import Rounds
from hushcall.server.settings import Settings
from hushcall.server.signing import keys, signer
from hushcall.server.signing.keys import KeyRing
from hushcall.server.signing.round_signer import RoundSigner

if TYPE_CHECKING:
    from hushcall.engines.dask_cluster import DaskEngine

RESTORING = "restore.part"
"""Where a backup is put together inside a data folder: while it is there, the folder is not a server's yet."""


@dataclass
class Service:
    """One process's view of the service."""

    settings: Settings
    store: Store
    coins: ByteSource = os_entropy
    clock: Callable[[], float] = time.time
    worker: str = field(default_factory=lambda: f"{os.getpid()}-{secrets.token_hex(4)}")
    _pool: ProcessPoolExecutor | None = None
    _cluster: DaskEngine | None = None

    def __post_init__(self) -> None:
        self.term = Term(Leases(self.store, self.worker))
        self.audit = Audit(self.store, lambda: self.now)
        self.devices = Devices(self.store, self.coins, self.coins)
        self.issuer = Issuer(self.store)
        secret = lambda: sessions.secret_of(self.settings.keys)  # noqa: E731
        self.enrolments = Enrolments(self.devices, self.settings.enrol, self.settings.server.host, secret)
        self.round_signer = RoundSigner(self.settings.keys)
        ring = lambda: KeyRing.load(self.settings.keys)  # noqa: E731
        self.publisher = Publisher(self.store, self.settings, ring, self.term.fence)
        self.corrections = Corrections(self.store, self.plan, self.publisher)
        self.rounds = Rounds(
            self.store, self.settings, self.publisher.publish, self.term, self.coins, self.pool, note=log
        )

    @property
    def plan(self) -> NumberingPlan:
        """Whose numbers the next round is about, and what operators type in."""
        return self.settings.round.chosen_plan()

    @property
    def now(self) -> int:
        """Unix seconds, by the clock that was handed in."""
        return int(self.clock())

    def pool(self) -> Executor | None:
        """The processes that decode; started when first needed, and anew if one of them died."""
        if self.settings.round.dask:
            return self._on_cluster(self.settings.round.dask)
        width = self.settings.round.decoders
        if width == 0:
            return None
        if self._pool is not None:
            try:
                self._pool.submit(int).result()
            except BrokenProcessPool:
                self._pool = None
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(width, mp_context=context, initializer=_follow_parent)
        return self._pool

    def _on_cluster(self, address: str) -> Executor:
        """Workers elsewhere: one that dies costs time, a scheduler that does not answer is asked again later."""
        if self._cluster is None:
            from hushcall.engines.dask_cluster import DaskEngine  # an extra of its own

            self._cluster = DaskEngine(address)
            log("decoding on a cluster", scheduler=address, dashboard=self._cluster.dashboard)
        return self._cluster.executor()

    def close(self) -> None:
        """Let go of processes and connections."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        if self._cluster is not None:
            self._cluster.close()
        self.store.close()


def open_service(
    settings: Settings,
    coins: ByteSource = os_entropy,
    clock: Callable[[], float] = time.time,
    fault: Callable[[str], None] = no_fault,
) -> Service:
    """Open the service over its data, which is made if it is not there: database, keys, first signed metadata."""
    store = open_data(settings, fault)
    ensure_repository(store, settings, int(clock()))
    return Service(settings, store, coins, clock)


def open_data(settings: Settings, fault: Callable[[str], None] = no_fault) -> Store:
    """Open the database of a data folder. It is made in a new folder; one that has served and lost it is damaged."""
    if (settings.data / RESTORING).exists():
        rule = "be whole: a restore into it did not end. Run it again, with --overwrite"
        raise InvalidParameter("data", rule, str(settings.data))
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)  # tokens are hashed, yet: nobody else's business
    return open_store(settings.url, fault, served=in_force.served(settings))


def ensure_repository(store: Store, settings: Settings, now: int) -> None:
    """Make keys and the first metadata where there are none yet; several servers that start at once agree on one."""
    published = store.rows(sa.select(schema.files.c.path).limit(1))
    if published and not keys.key_files(settings.keys, "timestamp"):
        rule = "hold the online keys of what is published: restore them from your backup"
        raise InvalidParameter("keys", rule, str(settings.keys))
    if published:
        return
    ring, root = keys.create(settings.keys)
    with store.write("first metadata") as connection:
        if connection.execute(sa.select(schema.files.c.path).limit(1)).first() is None:
            put_files(connection, signer.start(ring, [root], datetime.fromtimestamp(now, UTC)))


def _follow_parent() -> None:
    """A decoder ends with its server, however that ended; and Ctrl-C is for the server to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (wait([parent.sentinel]), os._exit(1)), daemon=True).start()
