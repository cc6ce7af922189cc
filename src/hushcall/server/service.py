"""Builds the service from its settings."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import sqlalchemy as sa

from hushcall.decoding.task import Backend
from hushcall.errors import InvalidParameter
from hushcall.protocol.numbers import NumberingPlan
from hushcall.protocol.randomness import ByteSource, os_entropy
from hushcall.server import effective_settings
from hushcall.server.anonymity import Issuer
from hushcall.server.auth import operators
from hushcall.server.auth.devices import Devices, Enrolments
from hushcall.server.auth.operators import Audit
from hushcall.server.db import schema
from hushcall.server.db.leases import Leases, Term
from hushcall.server.db.store import Store, no_fault, open_store, put_files
from hushcall.server.logs import log
from hushcall.server.publishing.imports import Importer
from hushcall.server.publishing.publisher import Corrections, Publisher
from hushcall.server.rounds.state_machine import Rounds
from hushcall.server.settings import RoundSettings, Settings
from hushcall.server.signing import keys, signer
from hushcall.server.signing.keys import KeyRing, RoundSigner

GPU_BLOCKS = 64
"""Buckets on a card at a time. Each holds its tallies in memory on the way."""
RESTORING = "restore.part"
"""The part of a data folder where a restore is under way. While it exists, the folder is not opened."""


@dataclass
class Service:
    settings: Settings
    store: Store
    rand: ByteSource = os_entropy
    clock: Callable[[], float] = time.time
    worker: str = field(default_factory=lambda: f"{os.getpid()}-{secrets.token_hex(4)}")
    _backend: Backend | None = None

    def __post_init__(self) -> None:
        settings, store = self.settings, self.store
        self.term = Term(Leases(store, self.worker))
        self.audit = Audit(store, lambda: self.now)
        self.devices = Devices(store, self.rand, self.rand)
        self.issuer = Issuer(store)
        self.enrolments = Enrolments(self.devices, settings.enrol, partial(operators.secret_of, settings.keys))
        self.round_signer = RoundSigner(settings.keys)
        self.publisher = Publisher(store, settings, partial(KeyRing.load, settings.keys), self.term.fence)
        self.imports = Importer(store, settings, partial(KeyRing.load, settings.keys))
        self.corrections = Corrections(store, self.plan, self.publisher)
        self.rounds = Rounds(store, settings, self.publisher.publish, self.term, self.backend, self.rand, note=log)

    @property
    def plan(self) -> NumberingPlan:
        """The numbering plan of the next round, and of numbers that operators type."""
        return self.settings.round.chosen_plan()

    @property
    def now(self) -> int:
        return int(self.clock())

    def backend(self) -> Backend:
        if self._backend is None:
            self._backend = _make_backend(self.settings.round)
        return self._backend

    def close(self) -> None:
        if self._backend is not None:
            self._backend.close()
        self.store.close()


def _make_backend(settings: RoundSettings) -> Backend:
    from hushcall.decoding.backends import DaskBackend, follow_parent, make_backend  # brings scipy and numba

    if settings.dask:
        cluster = DaskBackend(settings.dask)
        log("decoding on a cluster", scheduler=settings.dask, dashboard=cluster.dashboard)
        return cluster
    return make_backend("gpu" if settings.gpu else "local", None, settings.decoders, follow_parent, GPU_BLOCKS)


def open_service(
    settings: Settings,
    rand: ByteSource = os_entropy,
    clock: Callable[[], float] = time.time,
    fault: Callable[[str], None] = no_fault,
) -> Service:
    """The service of a data folder, which is created where it is new."""
    store = open_data(settings, fault)
    ensure_repository(store, settings, int(clock()))
    return Service(settings, store, rand, clock)


def open_data(settings: Settings, fault: Callable[[str], None] = no_fault) -> Store:
    """Opens the database of a data folder, or creates it in a new one. A folder that lost its database is damaged."""
    if (settings.data / RESTORING).exists():
        rule = "be whole: a restore into it did not end. Run it again, with --overwrite"
        raise InvalidParameter("data", rule, str(settings.data))
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    return open_store(settings.url, fault, served=effective_settings.served(settings))


def ensure_repository(store: Store, settings: Settings, now: int) -> None:
    """Creates keys and the first metadata where they are missing. Servers that start at the same time agree on one."""
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
