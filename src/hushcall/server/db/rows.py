"""Rows of the tables as frozen dataclasses, and the queries that several modules share.

The fields are the columns of ``schema``, where their meaning is. A query for a few columns unpacks them itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.errors import NotFound
from hushcall.mechanisms.profiles import Profile
from hushcall.protocol.numbers import NumberingPlan, plan_named
from hushcall.protocol.states import ANNOUNCING, COLLECTING, HELD, PUBLISHED, RoundState
from hushcall.server.db import schema

DAY_SECONDS = 86_400
T = TypeVar("T")


class _Mapped(Protocol):
    @property
    def _mapping(self) -> Any: ...


@lru_cache(maxsize=64)
def _profile(text: str) -> Profile:
    return Profile.from_plain(json.loads(text))


@dataclass(frozen=True, slots=True)
class RoundRow:
    """A round. ``profile`` is its own, whatever the settings are by now."""

    id: int
    state: RoundState
    held_from: RoundState | None
    reason: str
    profile: Profile
    plan_name: str
    window: int
    call_days: int
    seed: bytes
    secret: bytes
    opens: int
    collects: int
    closes: int
    next: int
    announced: int
    rejected: int

    @classmethod
    def of(cls, row: _Mapped) -> RoundRow:
        values = dict(row._mapping)
        values["state"] = RoundState(values["state"])
        values["held_from"] = RoundState(values["held_from"]) if values["held_from"] else None
        values["profile"] = _profile(values["profile"])
        values["plan_name"] = values.pop("plan")
        values["seed"], values["secret"] = bytes(values["seed"]), bytes(values["secret"])
        return cls(**values)

    @property
    def plan(self) -> NumberingPlan:
        return plan_named(self.plan_name)

    @property
    def window_days(self) -> int:
        """For how long a number stays on the list, and how old a reported call may be."""
        return self.call_days or self.window

    @property
    def day(self) -> int:
        """The day (UTC) on which it opens, counted from 1970."""
        return self.opens // DAY_SECONDS

    @property
    def phase(self) -> RoundState:
        """Its state, or for a held round the state that it goes back to."""
        return self.held_from if self.state == HELD and self.held_from else self.state

    @property
    def deadline(self) -> int | None:
        """When its phase ends by the clock, None where it ends with its work. The next round ends ``published``."""
        return {ANNOUNCING: self.collects, COLLECTING: self.closes, PUBLISHED: self.next}.get(self.phase)


@dataclass(frozen=True, slots=True)
class BucketRow:
    """A bucket of a round. ``parameters`` is JSON, None where the bucket is skipped.

    ``anonymous``: how many of the users have a blind token. None where the round takes none, or was not counted so.
    """

    round: int
    bucket: int
    users: int
    anonymous: int | None
    runs: bool
    parameters: str | None

    @property
    def plain(self) -> dict[str, Any]:
        """The mechanism's parameters as plain values; empty where the bucket is skipped."""
        parameters: dict[str, Any] = json.loads(self.parameters) if self.parameters else {}
        return parameters


@dataclass(frozen=True, slots=True)
class DeviceRow:
    id: int
    token_hash: bytes
    enrolled: int
    revoked: int | None
    day: int

    def took_part(self, row: RoundRow) -> bool:
        """Whether it took part in a round of the same day, where a day has several."""
        return row.profile.rounds_per_day > 1 and self.day == row.day


@dataclass(frozen=True, slots=True)
class AdminRow:
    """An operator's token. Commas separate its ``scopes``."""

    id: int
    token_hash: bytes
    scopes: str
    note: str
    made: int
    revoked: int | None


@dataclass(frozen=True, slots=True)
class HitterRow:
    """A number that a round found over the last ``length`` rounds. ``implausible`` is a sign of forged reports.

    The last ``strict`` rounds pass the rule of blocking. 0: none do. ``hinted`` is 2 if only a hint made it a finding.
    """

    round: int
    number: str
    bucket: int
    estimate: float
    low: float
    high: float
    p_value: float
    length: int
    implausible: bool
    strict: int
    hinted: int


@dataclass(frozen=True, slots=True)
class VersionRow:
    version: int
    round: int
    made: int
    entries: int
    sha256: str


@dataclass(frozen=True, slots=True)
class AppealRow:
    """An entry of the log of appeals. It is open while ``closed`` is None."""

    id: int
    number: str
    why: str
    who: str
    at: int
    closed: int | None
    closed_why: str | None


@dataclass(frozen=True, slots=True)
class AllowedRow:
    number: str
    why: str
    who: str
    at: int


@dataclass(frozen=True, slots=True)
class AuditRow:
    """An operator's action. ``operator`` 0 is the command line."""

    id: int
    at: int
    operator: int
    name: str
    what: str
    about: str
    why: str
    outcome: str


def typed(kind: type[T], rows: Iterable[_Mapped]) -> list[T]:
    """Rows with exactly the columns of ``kind``, as values of it."""
    return [kind(**row._mapping) for row in rows]


ROUND = sa.select(schema.rounds).where(schema.rounds.c.id == sa.bindparam("id"))
"""Built once, because every batch of uploads reads its round."""
_LOCKED, _SHARED = ROUND.with_for_update(), ROUND.with_for_update(read=True)


def round_rows(connection: Connection, query: sa.Select[Any], bound: Mapping[str, Any] | None = None) -> list[RoundRow]:
    return [RoundRow.of(row) for row in connection.execute(query, bound)]


def round_of(connection: Connection, round_id: int) -> RoundRow | None:
    return next(iter(round_rows(connection, ROUND, {"id": round_id})), None)


def lock_round(connection: Connection, round_id: int, *, share: bool = False) -> RoundRow | None:
    """A round, locked until the transaction ends. SQLite ignores it: a write transaction is alone there."""
    return next(iter(round_rows(connection, _SHARED if share else _LOCKED, {"id": round_id})), None)


def existing_round(connection: Connection, round_id: int, *, locked: bool = False) -> RoundRow:
    row = lock_round(connection, round_id) if locked else round_of(connection, round_id)
    if row is None:
        raise no_round(connection, round_id)
    return row


def no_round(connection: Connection, round_id: int | None) -> NotFound:
    newest = newest_round(connection)
    fact = "There is no round yet." if newest is None else f"There is no round {round_id}; the newest is {newest.id}."
    return NotFound("round", "be one of this server", round_id, fact)


def newest_round(connection: Connection, *where: sa.ColumnElement[bool]) -> RoundRow | None:
    query = sa.select(schema.rounds).where(*where).order_by(schema.rounds.c.id.desc()).limit(1)
    return next(iter(round_rows(connection, query)), None)


def buckets_of(connection: Connection, round_id: int) -> list[BucketRow]:
    """Every decided bucket of a round, by area code. Skipped ones are included."""
    table = schema.buckets
    query = sa.select(table).where(table.c.round == round_id).order_by(table.c.bucket)
    return typed(BucketRow, connection.execute(query))


def newest_version(connection: Connection) -> VersionRow | None:
    """The current version of the list. None before the first."""
    table = schema.versions.c
    columns = sa.select(table.version, table.round, table.made, table.entries, table.sha256)
    rows = connection.execute(columns.order_by(table.version.desc()).limit(1)).all()
    return typed(VersionRow, rows)[0] if rows else None
