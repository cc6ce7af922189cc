"""Where rounds stand: their rows come in; figures for operators and pages, and the document for phones, leave.

A handful of queries, however many rounds and buckets there are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.errors import InvalidParameter
from hushcall.mechanisms import parameters
from hushcall.profiles import Profile
from hushcall.protocol.blocklist import iso
from hushcall.report.mechanism import report_bytes
from hushcall.server.db import schema
from hushcall.server.db.store import Store


@dataclass(frozen=True)
class Progress:
    """Where one round stands. ``phase`` is its state, or for a held round the state it goes back to."""

    id: int
    phase: str
    held: bool
    reason: str
    opens: int
    collects: int
    closes: int
    next: int
    profile: Profile
    announced: int
    expected: int  # phones in the buckets that run: as many reports can come
    reports: int
    runs: int
    skipped: int
    parts: int
    decoded: int
    found: int

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        return self.phase == "published"

    @property
    def deadline(self) -> int | None:
        """When this phase ends by the clock; None where it ends when the work is done."""
        return {"announcing": self.collects, "collecting": self.closes, "published": self.next}.get(self.phase)

    def share(self, now: int) -> float:
        """How far this phase is, from 0 to 1."""
        done = {
            "announcing": (now - self.opens, self.collects - self.opens),
            "collecting": (self.reports, self.expected),
            "closed": (self.decoded, self.parts),
        }.get(self.phase, (1, 1))
        return min(max(done[0] / done[1], 0.0), 1.0) if done[1] > 0 else 1.0


def progress(connection: Connection, rows: Iterable[Any]) -> list[Progress]:
    """Rows of the table of rounds, with what the other tables say about them."""
    rows = list(rows)
    ids = [row.id for row in rows]
    table = schema.buckets.c
    runs = sa.case((table.runs.is_(True), 1), else_=0)
    buckets = {
        row.round: row
        for row in connection.execute(
            sa.select(
                table.round,
                sa.func.sum(runs).label("runs"),
                sa.func.count().label("all"),
                sa.func.sum(runs * table.users).label("users"),
            )
            .where(table.round.in_(ids))
            .group_by(table.round)
        )
    }
    announcing = [row.id for row in rows if _phase(row) == "announcing"]
    announced = _counts(connection, schema.announcements, announcing)
    reports = _counts(connection, schema.reports, ids)
    tallied = _counts(connection, schema.tallies, ids, sa.func.sum(schema.tallies.c.count))
    decoded, found = _counts(connection, schema.decodings, ids), _counts(connection, schema.hitters, ids)
    made = []
    for row in rows:
        profile, mine = Profile.from_plain(json.loads(row.profile)), buckets.get(row.id)
        running, users = (int(mine.runs), int(mine.users)) if mine else (0, 0)
        # While buckets are sealed one by one a report is in one of the two tables; reports that are kept are in both.
        sealed, waiting = tallied.get(row.id, 0), reports.get(row.id, 0)
        made.append(
            Progress(
                id=row.id,
                phase=_phase(row),
                held=row.state == "held",
                reason=row.reason,
                opens=row.opens,
                collects=row.collects,
                closes=row.closes,
                next=row.next,
                profile=profile,
                announced=announced.get(row.id, 0) if _phase(row) == "announcing" else row.announced,
                expected=users,
                reports=max(sealed, min(sealed + waiting, users)),
                runs=running,
                skipped=int(mine.all) - running if mine else 0,
                parts=running * profile.scheme.parts,
                decoded=decoded.get(row.id, 0),
                found=found.get(row.id, 0),
            )
        )
    return made


def _phase(row: Any) -> str:
    return str(row.held_from if row.state == "held" and row.held_from else row.state)


def _counts(
    connection: Connection, table: sa.Table, ids: list[int], what: sa.ColumnElement[Any] | None = None
) -> dict[int, int]:
    if not ids:
        return {}
    query = sa.select(table.c.round, sa.func.count() if what is None else what)
    return {
        row[0]: int(row[1]) for row in connection.execute(query.where(table.c.round.in_(ids)).group_by(table.c.round))
    }


def refused(connection: Connection, ids: list[int]) -> list[tuple[int, str, int]]:
    """(round, problem, how often) of the uploads of enrolled devices."""
    table = schema.counters.c
    query = sa.select(table.round, table.name, sa.func.sum(table.value)).where(table.round.in_(ids))
    return [(r[0], r[1], int(r[2])) for r in connection.execute(query.group_by(table.round, table.name))]


def one_round(store: Store, number: int) -> Progress | None:
    """One round of any age."""
    with store.read() as connection:
        rows = connection.execute(sa.select(schema.rounds).where(schema.rounds.c.id == number)).all()
        return next(iter(progress(connection, rows)), None) if rows else None


def status(store: Store, number: int | None = None) -> dict[str, Any]:
    """What an operator is told about a round (the newest by default), as plain values."""
    query = sa.select(schema.rounds).order_by(schema.rounds.c.id.desc()).limit(1)
    found = _told(store, query if number is None else query.where(schema.rounds.c.id == number))
    if not found:
        raise InvalidParameter("round", "be one of this server", number)
    return found[0]


def newest_statuses(store: Store, most: int) -> list[dict[str, Any]]:
    """The same of the last rounds, newest first."""
    return _told(store, sa.select(schema.rounds).order_by(schema.rounds.c.id.desc()).limit(most))


def _told(store: Store, query: sa.Select[Any]) -> list[dict[str, Any]]:
    with store.read() as connection:
        rounds = progress(connection, connection.execute(query).all())
        counts = refused(connection, [one.id for one in rounds])
    return [_plain(one, {name: value for at, name, value in sorted(counts) if at == one.id}) for one in rounds]


def _plain(one: Progress, counts: dict[str, int]) -> dict[str, Any]:
    return {
        "round": one.id,
        "state": "held" if one.held else one.phase,
        "reason": one.reason,
        "opens": iso(one.opens),
        "collects": iso(one.collects),
        "closes": iso(one.closes),
        "next": iso(one.next),
        "profile": one.profile.name,
        "mechanism": one.profile.mechanism,
        "epsilon": one.profile.epsilon,
        "announced": one.announced,
        "reports": one.reports,
        "buckets_run": one.runs,
        "buckets_skipped": one.skipped,
        "parts_decoded": one.decoded,
        "parts": one.parts,
        "found": one.found,
        "refused": counts,
    }


def document(store: Store, row: Any) -> dict[str, Any]:
    """What phones are told about a round: of the buckets, those that run, which means that enough phones are in them.

    A bucket that is not there is skipped.
    """
    profile = json.loads(row.profile)
    decided: dict[str, Any] | None = None
    if row.state != "announcing":
        decided = {}
        for bucket in store.rows(sa.select(schema.buckets).where(schema.buckets.c.round == row.id)):
            if bucket.runs:  # of the others not even the name: a single phone's area code may be among them
                plain = json.loads(bucket.parameters)
                size = report_bytes(parameters.from_plain(plain))
                decided[str(bucket.bucket)] = {"runs": True, "report_bytes": size, "parameters": plain}
    return {
        "round": row.id,
        "state": row.state,
        "opens": iso(row.opens),
        "collects": iso(row.collects),
        "closes": iso(row.closes),
        "seed": bytes(row.seed).hex(),
        "plan": row.plan,
        "window": row.window,
        "profile": {key: profile[key] for key in ("name", "mechanism", "epsilon", "tau", "level")},
        "buckets": decided,
    }
