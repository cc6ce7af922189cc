"""Rows of the tables as typed values: a query's row comes in, a small frozen dataclass leaves.

The fields are the columns of ``schema``, in its order; what a column means stands there. Only what other code reads
again and again has a type of its own here; a query for two columns unpacks them where it stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.errors import InvalidParameter
from hushcall.numbers import NumberingPlan, plan_named
from hushcall.profiles import Profile
from hushcall.protocol.states import ANNOUNCING, COLLECTING, HELD, PUBLISHED, RoundState
from hushcall.server.db import schema

T = TypeVar("T")


class _Mapped(Protocol):
    @property
    def _mapping(self) -> Any: ...


@lru_cache(maxsize=64)
def _profile(text: str) -> Profile:
    """What a round is run with; every batch of uploads reads its round."""
    return Profile.from_plain(json.loads(text))


@dataclass(frozen=True, slots=True)
class RoundRow:
    """A round. ``profile`` is what it is run with, whatever the settings say by now."""

    id: int
    state: RoundState
    held_from: RoundState | None
    reason: str
    profile: Profile
    plan_name: str
    window: int
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
        """A row of the table."""
        values = dict(row._mapping)
        values["state"] = RoundState(values["state"])
        values["held_from"] = RoundState(values["held_from"]) if values["held_from"] else None
        values["profile"] = _profile(values["profile"])
        values["plan_name"] = values.pop("plan")
        values["seed"], values["secret"] = bytes(values["seed"]), bytes(values["secret"])
        return cls(**values)

    @property
    def plan(self) -> NumberingPlan:
        """Whose numbers it is about."""
        return plan_named(self.plan_name)

    @property
    def phase(self) -> RoundState:
        """Its state, or for a held round the state that it goes back to."""
        return self.held_from if self.state == HELD and self.held_from else self.state

    @property
    def deadline(self) -> int | None:
        """When its phase ends by the clock; None where it ends when the work is done.

        What comes after ``published`` is the next round.
        """
        return {ANNOUNCING: self.collects, COLLECTING: self.closes, PUBLISHED: self.next}.get(self.phase)


@dataclass(frozen=True, slots=True)
class BucketRow:
    """A bucket of a round, once it is decided. ``parameters`` is JSON, None where the bucket is skipped."""

    round: int
    bucket: int
    users: int
    runs: bool
    parameters: str | None

    @property
    def plain(self) -> dict[str, Any]:
        """The mechanism's parameters as plain values; empty where the bucket is skipped."""
        found: dict[str, Any] = json.loads(self.parameters) if self.parameters else {}
        return found


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device. ``revoked`` is when, or None."""

    id: int
    token_hash: bytes
    enrolled: int
    revoked: int | None


@dataclass(frozen=True, slots=True)
class AdminRow:
    """An operator's token. ``scopes`` are joined by commas."""

    id: int
    token_hash: bytes
    scopes: str
    note: str
    made: int
    revoked: int | None


@dataclass(frozen=True, slots=True)
class HitterRow:
    """A number that a round found, over the last ``length`` rounds. ``implausible``: a sign of forged reports."""

    round: int
    number: str
    bucket: int
    estimate: float
    low: float
    high: float
    p_value: float
    length: int
    implausible: bool


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A published version of the list, without its bytes."""

    version: int
    round: int
    made: int
    entries: int
    sha256: str


@dataclass(frozen=True, slots=True)
class AppealRow:
    """An entry of the log of appeals; open while ``closed`` is None."""

    id: int
    number: str
    why: str
    who: str
    at: int
    closed: int | None
    closed_why: str | None


@dataclass(frozen=True, slots=True)
class AllowedRow:
    """A number of the allowlist."""

    number: str
    why: str
    who: str
    at: int


@dataclass(frozen=True, slots=True)
class AuditRow:
    """Something that an operator did. ``operator`` 0: on the command line."""

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
"""The row of one round, made once: every batch of uploads asks for it."""


def round_rows(connection: Connection, query: sa.Select[Any], given: Mapping[str, Any] | None = None) -> list[RoundRow]:
    """What a query over whole rows of the table of rounds gives."""
    return [RoundRow.of(row) for row in connection.execute(query, given)]


def round_of(connection: Connection, round_id: int) -> RoundRow | None:
    """One round, or None where there is none of that id."""
    return next(iter(round_rows(connection, ROUND, {"id": round_id})), None)


def existing_round(connection: Connection, round_id: int) -> RoundRow:
    """One round that must be there."""
    found = round_of(connection, round_id)
    if found is None:
        raise InvalidParameter("round", "be one of this server", round_id)
    return found


def newest_round(connection: Connection, *where: sa.ColumnElement[bool]) -> RoundRow | None:
    """The newest round, or the newest of those that fulfil some conditions."""
    query = sa.select(schema.rounds).where(*where).order_by(schema.rounds.c.id.desc()).limit(1)
    return next(iter(round_rows(connection, query)), None)


def buckets_of(connection: Connection, round_id: int) -> list[BucketRow]:
    """Every bucket of a round that is decided, skipped ones too, by area code."""
    table = schema.buckets
    query = sa.select(table).where(table.c.round == round_id).order_by(table.c.bucket)
    return typed(BucketRow, connection.execute(query))


def newest_version(connection: Connection) -> VersionRow | None:
    """The version of the list that is in force; None before the first."""
    table = schema.versions.c
    columns = sa.select(table.version, table.round, table.made, table.entries, table.sha256)
    found = connection.execute(columns.order_by(table.version.desc()).limit(1)).all()
    return typed(VersionRow, found)[0] if found else None
