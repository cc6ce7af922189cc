"""Whether all is well: signatures, storage and versions come in, worries in words leave, with the figures behind."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa
from pydantic import BaseModel
from sqlalchemy.engine import Connection

from hushcall.profiles import Profile
from hushcall.protocol.states import HELD
from hushcall.server.db import schema
from hushcall.server.db.rows import VersionRow, newest_version
from hushcall.server.db.store import PublishedFiles, parse_url
from hushcall.server.service import Service
from hushcall.server.settings import Settings
from hushcall.server.signing import signer
from hushcall.server.signing.signer import LIFETIMES, RoleStatus
from hushcall.version import __version__

SOON = 0.25
"""An online role is signed anew at half of its life: with less than this share left, something keeps the server."""


FORGED_ROUNDS = 7
"""How long a finding that looks forged is a worry."""


@dataclass(frozen=True)
class Health:
    """``worries`` is empty where all is well; ``public_worries`` are those that a phone owner may read."""

    roles: tuple[RoleStatus, ...]
    published: VersionRow | None
    good_until: int
    worries: tuple[str, ...]
    public_worries: tuple[str, ...]


@dataclass(frozen=True)
class Machine:
    """Versions and storage: for operators only."""

    version: str
    schema: str
    database: str
    bytes: int
    rows: tuple[tuple[str, int], ...]


def health(service: Service) -> Health:
    """The state of what is published."""
    now = datetime.fromtimestamp(service.now, UTC)
    with service.store.read() as connection:
        roles = tuple(signer.status(PublishedFiles(connection), now))
        published = newest_version(connection)
        forged = _implausible(connection)
        held = connection.execute(sa.select(schema.rounds.c.id).where(schema.rounds.c.state == HELD)).scalars().all()
    worries = [f"the signature of {role.role} has expired" for role in roles if role.expired]
    period = service.settings.round.period
    if published and service.now - published.made > 2 * period + 3600:
        worries.append("no round has been published for more than two periods")
    public = tuple(worries)
    worries += [f"the signature of {role.role} runs out soon" for role in roles if _soon(role, now)]
    worries += [f"round {round_id} is held" for round_id in held]
    worries += [
        f"round {round_id} found numbers ({count}) with more reports than it has phones: a sign of forgery"
        for round_id, count in forged
    ]
    good_until = min(int(role.expires.timestamp()) for role in roles if role.role != "root")
    return Health(roles, published, good_until, tuple(worries), public)


def _implausible(connection: Connection) -> list[tuple[int, int]]:
    """(round, how many) of recent findings that honest phones next to never make."""
    newest = newest_version(connection)
    if newest is None:
        return []
    table = schema.hitters.c
    recent = (table.round > newest.round - FORGED_ROUNDS) & table.implausible.is_(True)
    query = sa.select(table.round, sa.func.count()).where(recent).group_by(table.round).order_by(table.round)
    return [(int(row[0]), int(row[1])) for row in connection.execute(query)]


def _soon(role: RoleStatus, now: datetime) -> bool:
    return not role.expired and (role.expires - now) / LIFETIMES.of(role.role) < SOON


def machine(service: Service) -> Machine:
    """Versions, database, its size and rows: what a report of trouble needs."""
    store = service.store
    with store.read() as connection:
        revision = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
        if store.postgres:
            database = "PostgreSQL " + str(connection.execute(sa.text("SHOW server_version")).scalar())
            size = connection.execute(sa.text("SELECT pg_database_size(current_database())")).scalar()
        else:
            database, size = f"SQLite {sqlite3.sqlite_version}", _sqlite_bytes(connection)
        names = ("devices", "announcements", "reports", "tallies", "hitters", "versions", "files")
        counts = [sa.select(sa.func.count()).select_from(schema.metadata.tables[name]) for name in names]
        rows = tuple(
            (name, int(connection.execute(count).scalar_one())) for name, count in zip(names, counts, strict=True)
        )
    return Machine(__version__, str(revision), database, int(size or 0), rows)


def settings_in_force(settings: Settings) -> list[tuple[str, list[tuple[str, str, bool]]]]:
    """Every setting by section: its name, its value in words, and whether it is other than by default; no password."""
    general = [
        ("data", str(settings.data), settings.data != Settings.model_fields["data"].default),
        ("database", parse_url(settings.url).render_as_string(hide_password=True), bool(settings.database)),
    ]
    sections = [("general", general)]
    for name, section in settings:
        if isinstance(section, BaseModel):
            usual = type(section)()
            rows = [(inner, _said(value), value != getattr(usual, inner)) for inner, value in section]
            sections.append((name, rows))
    return sections


def _said(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(str(one) for one in value) or "none"
    return str(value) or "none"


def _sqlite_bytes(connection: Connection) -> int:
    place = connection.engine.url.database
    if not place or place == ":memory:":
        return 0
    files = (Path(place + ending) for ending in ("", "-wal", "-shm"))
    return sum(file.stat().st_size for file in files if file.exists())


@dataclass(frozen=True)
class Budget:
    """What one report may tell, in figures: ``factor`` is e^ε, ``certainty`` what a guess can become."""

    profile: Profile
    window: int
    relay: bool = False

    @property
    def hidden(self) -> bool:
        """Whether the server cannot tell whose a report is."""
        return self.profile.anonymous and self.relay

    @property
    def factor(self) -> float:
        """By how much the odds of anything about a reported number can change."""
        return math.exp(self.profile.epsilon)

    @property
    def certainty(self) -> float:
        """What an even chance can become at most: e^ε / (1 + e^ε)."""
        return 1 / (1 + math.exp(-self.profile.epsilon))

    @property
    def over_window(self) -> float:
        """ε of a phone that reports in every round of a window."""
        return self.profile.epsilon * self.window
