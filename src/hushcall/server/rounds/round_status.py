"""Where rounds stand: their rows come in; figures for operators and pages, and the document for phones, leave.

A handful of queries, however many rounds and buckets there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.errors import InvalidParameter
from hushcall.mechanisms import parameters
from hushcall.protocol.blocklist import iso
from hushcall.protocol.round_document import RoundInfo, bucket_terms, upload_bytes
from hushcall.protocol.states import ANNOUNCING, CLOSED, COLLECTING, HELD, PUBLISHED, TAKES_UPLOADS, RoundState
from hushcall.report.mechanism import report_bytes
from hushcall.server.anonymity import round_keys
from hushcall.server.db import schema
from hushcall.server.db.rows import RoundRow, buckets_of, newest_round, round_of, round_rows
from hushcall.server.db.store import Store


@dataclass(frozen=True)
class Progress:
    """Where one round stands: its row, and what the other tables say about it."""

    row: RoundRow
    announced: int
    expected: int  # phones in the buckets that run: as many reports can come
    reports: int
    runs: int
    skipped: int
    parts: int
    decoded: int
    findings: int

    @property
    def id(self) -> int:
        """Which round it is, by the id that phones know."""
        return self.row.id

    @property
    def phase(self) -> RoundState:
        """Its state, or for a held round the state that it goes back to."""
        return self.row.phase

    @property
    def held(self) -> bool:
        """Whether it waits for somebody to look at it."""
        return self.row.state == HELD

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        return self.phase == PUBLISHED

    def share(self, now: int) -> float:
        """How far this phase is, from 0 to 1."""
        done = {
            ANNOUNCING: (now - self.row.opens, self.row.collects - self.row.opens),
            COLLECTING: (self.reports, self.expected),
            CLOSED: (self.decoded, self.parts),
        }.get(self.phase, (1, 1))
        return min(max(done[0] / done[1], 0.0), 1.0) if done[1] > 0 else 1.0


def progress(connection: Connection, rows: Sequence[RoundRow]) -> list[Progress]:
    """Rounds, with what the other tables say about them."""
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
    announcing = [row.id for row in rows if row.phase == ANNOUNCING]
    announced = _counts(connection, schema.announcements, announcing)
    waiting = _not_sealed(connection, ids)
    tallied = _counts(connection, schema.tallies, ids, sa.func.sum(schema.tallies.c.count))
    decoded, findings = _counts(connection, schema.decodings, ids), _counts(connection, schema.hitters, ids)
    made = []
    for row in rows:
        mine = buckets.get(row.id)
        running, users = (int(mine.runs), int(mine.users)) if mine else (0, 0)
        made.append(
            Progress(
                row=row,
                announced=announced.get(row.id, 0) if row.phase == ANNOUNCING else row.announced,
                expected=users,
                reports=tallied.get(row.id, 0) + waiting.get(row.id, 0),
                runs=running,
                skipped=int(mine.all) - running if mine else 0,
                parts=running * row.profile.scheme.parts,
                decoded=decoded.get(row.id, 0),
                findings=findings.get(row.id, 0),
            )
        )
    return made


def _counts(
    connection: Connection, table: sa.Table, ids: list[int], what: sa.ColumnElement[Any] | None = None
) -> dict[int, int]:
    if not ids:
        return {}
    query = sa.select(table.c.round, sa.func.count() if what is None else what)
    return {
        row[0]: int(row[1]) for row in connection.execute(query.where(table.c.round.in_(ids)).group_by(table.c.round))
    }


def _not_sealed(connection: Connection, ids: list[int]) -> dict[int, int]:
    """Reports of buckets that run and have no tally yet.

    Buckets are sealed one by one; where reports are kept, those of a sealed bucket stand beside its tally, and cover
    that came from buckets that do not run stands beside none.
    """
    if not ids:
        return {}
    reports, buckets, tallies = schema.reports.c, schema.buckets.c, schema.tallies.c
    sealed = sa.select(tallies.round).where(tallies.round == buckets.round, tallies.bucket == buckets.bucket).exists()
    query = (
        sa.select(reports.round, sa.func.count())
        .join(schema.buckets, sa.and_(buckets.round == reports.round, buckets.bucket == reports.bucket))
        .where(reports.round.in_(ids), buckets.runs.is_(True), ~sealed)
        .group_by(reports.round)
    )
    return {row[0]: int(row[1]) for row in connection.execute(query)}


def overdue(connection: Connection, now: int) -> int:
    """By how many seconds the round that is latest should have moved on; 0 where none is late.

    A round that is closed has until the next one is due. A held one waits for a person, not for the clock.
    """
    rows = round_rows(connection, sa.select(schema.rounds).where(schema.rounds.c.state.not_in([PUBLISHED, HELD])))
    due = [row.next if row.deadline is None else row.deadline for row in rows]
    newest = newest_round(connection)
    if newest is not None and newest.phase not in TAKES_UPLOADS:
        due.append(newest.next)
    return max([0, *(now - moment for moment in due)])


def refused(connection: Connection, ids: list[int]) -> list[tuple[int, str, int]]:
    """(round, problem, how often) of the uploads of enrolled devices."""
    table = schema.counters.c
    query = sa.select(table.round, table.name, sa.func.sum(table.value)).where(table.round.in_(ids))
    return [(r[0], r[1], int(r[2])) for r in connection.execute(query.group_by(table.round, table.name))]


def one_round(store: Store, round_id: int) -> Progress | None:
    """One round of any age."""
    with store.read() as connection:
        row = round_of(connection, round_id)
        return progress(connection, [row])[0] if row else None


def status(store: Store, round_id: int | None = None) -> dict[str, Any]:
    """What an operator is told about a round (the newest by default), as plain values."""
    query = sa.select(schema.rounds).order_by(schema.rounds.c.id.desc()).limit(1)
    told = _told(store, query if round_id is None else query.where(schema.rounds.c.id == round_id))
    if not told:
        raise InvalidParameter("round", "be one of this server", round_id)
    return told[0]


def newest_statuses(store: Store, most: int) -> list[dict[str, Any]]:
    """The same of the last rounds, newest first."""
    return _told(store, sa.select(schema.rounds).order_by(schema.rounds.c.id.desc()).limit(most))


def _told(store: Store, query: sa.Select[Any]) -> list[dict[str, Any]]:
    with store.read() as connection:
        rounds = progress(connection, round_rows(connection, query))
        counts = refused(connection, [one.id for one in rounds])
    return [_plain(one, {name: value for at, name, value in sorted(counts) if at == one.id}) for one in rounds]


def _plain(one: Progress, counts: dict[str, int]) -> dict[str, Any]:
    return {
        "round": one.id,
        "state": one.row.state.value,
        "reason": one.row.reason,
        "opens": iso(one.row.opens),
        "collects": iso(one.row.collects),
        "closes": iso(one.row.closes),
        "next": iso(one.row.next),
        "profile": one.row.profile.name,
        "mechanism": one.row.profile.mechanism,
        "epsilon": one.row.profile.epsilon,
        "announced": one.announced,
        "reports": one.reports,
        "buckets_run": one.runs,
        "buckets_skipped": one.skipped,
        "parts_decoded": one.decoded,
        "parts": one.parts,
        "found": one.findings,
        "refused": counts,
    }


def round_info(store: Store, row: RoundRow, now: int) -> RoundInfo:
    """What phones are told about a round: of the buckets, those that run, which means that enough phones are in them.

    Of the others not even the name: a single phone's area code may be among them.
    """
    with store.read() as connection:
        return info_of(connection, row, now)


def info_of(connection: Connection, row: RoundRow, now: int) -> RoundInfo:
    """The same, inside a transaction; of a round that is over, what phones were told while it collected."""
    buckets: dict[str, Any] | None = None
    anonymity = round_keys.terms_of(connection, row.id) if row.profile.anonymous else None
    crowd = round_keys.crowd_of(connection, row.id) if row.profile.anonymous else None
    if row.state != ANNOUNCING:
        decided = [one for one in buckets_of(connection, row.id) if one.runs]
        buckets = {str(one.bucket): _terms(one.plain) for one in decided}
    return RoundInfo(
        round=row.id,
        state=row.state,
        opens=row.opens,
        collects=row.collects,
        closes=row.closes,
        server_time=now,
        seed=row.seed,
        plan=row.plan_name,
        window=row.window,
        mechanism=row.profile.mechanism,
        epsilon=row.profile.epsilon,
        buckets=buckets,
        profile=row.profile.name,
        tau=row.profile.tau,
        level=row.profile.level,
        anonymity=anonymity,
        crowd=crowd,
        upload_bytes=None if buckets is None else upload_bytes(one["report_bytes"] for one in buckets.values()),
    )


def _terms(plain: dict[str, Any]) -> dict[str, Any]:
    return bucket_terms(report_bytes(parameters.from_plain(plain)), plain)
