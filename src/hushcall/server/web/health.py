"""The state of the service for its pages: signatures, problems, storage, versions and settings."""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa
from pydantic import BaseModel
from sqlalchemy.engine import Connection

from hushcall.protocol.states import HELD
from hushcall.server.db import schema
from hushcall.server.db.engine import file_of, parse_url
from hushcall.server.db.rows import VersionRow, newest_version
from hushcall.server.db.store import PublishedFiles, Store
from hushcall.server.rounds.hints import sources_of
from hushcall.server.settings import Settings
from hushcall.server.signing import signer
from hushcall.server.signing.signer import LIFETIMES, RoleStatus
from hushcall.version import __version__

SOON = 0.25
"""The share of a signature's lifetime below which it should have been renewed."""
FORGED_DAYS = 7
"""Days for which an implausible finding is a worry."""


@dataclass(frozen=True)
class Health:
    """``public_worries`` are those that everybody may read."""

    roles: tuple[RoleStatus, ...]
    published: VersionRow | None
    good_until: int
    worries: tuple[str, ...]
    public_worries: tuple[str, ...]


def health(store: Store, settings: Settings, now_seconds: int) -> Health:
    now = datetime.fromtimestamp(now_seconds, UTC)
    with store.read() as connection:
        roles = tuple(signer.status(PublishedFiles(connection), now))
        published = newest_version(connection)
        forged = _implausible(connection, published.round, settings.round.rounds_per_day) if published else []
        hintless = [source for source in sources_of(connection) if source.problem]
        held = connection.execute(sa.select(schema.rounds.c.id).where(schema.rounds.c.state == HELD)).scalars().all()
    worries = [f"the signature of {role.role} has expired" for role in roles if role.expired]
    if published and now_seconds - published.made > 2 * settings.round.period_seconds + 3600:
        worries.append("no round has been published for more than two periods")
    public = tuple(worries)
    soon = [role.role for role in roles if not role.expired and (role.expires - now) / LIFETIMES[role.role] < SOON]
    worries += [f"the signature of {role} runs out soon" for role in soon]
    worries += [f"round {round_id} is held" for round_id in held]
    worries += [f"no hints from {source.name}: {source.problem}" for source in hintless]
    worries += [
        f"round {round_id} found numbers ({count}) with more reports than it has phones: a sign of forgery"
        for round_id, count in forged
    ]
    good_until = min(int(role.expires.timestamp()) for role in roles if role.role != "root")
    return Health(roles, published, good_until, tuple(worries), public)


def _implausible(connection: Connection, newest: int, rounds_per_day: int) -> list[tuple[int, int]]:
    """Recent rounds with findings that honest phones almost never cause, and their count."""
    counts = Counter[int]()
    for table in (schema.hitters.c, schema.ranges.c):
        recent = (table.round > newest - FORGED_DAYS * rounds_per_day) & table.implausible.is_(True)
        counts.update(connection.scalars(sa.select(table.round).where(recent)))
    return sorted(counts.items())


def machine(store: Store) -> dict[str, object]:
    """Versions, and how much is stored, for the page."""
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
    return {"version": __version__, "schema": revision, "database": database, "bytes": size or 0, "rows": rows}


def settings_by_section(settings: Settings) -> list[tuple[str, list[tuple[str, str, bool]]]]:
    """Every setting by section: its name, its value in words, and whether it differs from the default. No password."""
    general = [
        ("data", str(settings.data), settings.data != Settings.model_fields["data"].default),
        ("database", parse_url(settings.url).render_as_string(hide_password=True), bool(settings.database)),
    ]
    sections = [("general", general)]
    for name, section in settings:
        if isinstance(section, BaseModel):
            defaults = type(section)()
            rows = [(inner, _words(value), value != getattr(defaults, inner)) for inner, value in section]
            sections.append((name, rows))
    return sections


def _words(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value) or "none"


def _sqlite_bytes(connection: Connection) -> int:
    path = file_of(connection.engine.url)
    files = (Path(f"{path}{ending}") for ending in ("", "-wal", "-shm") if path)
    return sum(file.stat().st_size for file in files if file.exists())
