"""The state of rounds: figures for operators and pages, and the document for clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.mechanisms import parameters
from hushcall.mechanisms.mechanism import report_bytes
from hushcall.protocol.blocklist import iso
from hushcall.protocol.round_document import RoundInfo, bucket_parameters, upload_bytes
from hushcall.protocol.states import ANNOUNCING, CLOSED, COLLECTING, HELD, PUBLISHED, TAKES_UPLOADS, RoundState
from hushcall.server.anonymity import anonymity_set_of, parameters_of
from hushcall.server.db import schema
from hushcall.server.db.rows import RoundRow, buckets_of, existing_round, newest_round, no_round, round_of, round_rows
from hushcall.server.db.store import Store


@dataclass(frozen=True)
class Progress:
    row: RoundRow
    announced: int
    expected: int  # clients in the buckets that run: as many reports can come
    reports: int
    runs: int
    skipped: int
    decoded: int
    findings: int

    @property
    def id(self) -> int:
        return self.row.id

    @property
    def parts(self) -> int:
        return self.runs * self.row.profile.spec.parts * (2 if self.row.profile.hundreds else 1)

    @property
    def phase(self) -> RoundState:
        return self.row.phase

    @property
    def held(self) -> bool:
        return self.row.state == HELD

    @property
    def over(self) -> bool:
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
    rounds, buckets, reports, tallies = schema.rounds.c, schema.buckets.c, schema.reports.c, schema.tallies.c
    runs, many = buckets.runs.is_(True), sa.func.count()
    announcing = (rounds.state == ANNOUNCING) | (rounds.held_from == ANNOUNCING)
    # Buckets are sealed one by one. Where reports are kept, those of a sealed bucket are beside its tally. Cover that
    # came from buckets that do not run has no tally.
    unsealed = (
        sa.exists().where(buckets.round == reports.round, buckets.bucket == sa.func.abs(reports.bucket), runs),
        ~sa.exists().where(tallies.round == reports.round, tallies.bucket == reports.bucket),
    )
    query = sa.select(
        rounds.id,
        sa.case((announcing, _total(schema.announcements, many)), else_=rounds.announced),
        _total(schema.buckets, sa.func.sum(buckets.users), runs),
        _total(schema.tallies, sa.func.sum(tallies.count)) + _total(schema.reports, many, *unsealed),
        _total(schema.buckets, many, runs),
        _total(schema.buckets, many, ~runs),
        _total(schema.decodings, many),
        _total(schema.hitters, many) + _total(schema.ranges, many),
    ).where(rounds.id.in_([row.id for row in rows]))
    counts = {round_id: map(int, others) for round_id, *others in connection.execute(query)}
    return [Progress(row, *counts[row.id]) for row in rows]


def _total(table: sa.Table, value: sa.ColumnElement[Any], *where: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    of_round = sa.select(sa.func.coalesce(value, 0)).select_from(table).where(table.c.round == schema.rounds.c.id)
    return of_round.where(*where).scalar_subquery()


def overdue(connection: Connection, now: int) -> int:
    """Seconds by which the latest round should have moved on."""
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
    rows = connection.execute(query.group_by(table.round, table.name))
    return [(round_id, problem, int(count)) for round_id, problem, count in rows]


def one_round(store: Store, round_id: int) -> Progress | None:
    with store.read() as connection:
        row = round_of(connection, round_id)
        return progress(connection, [row])[0] if row else None


def status(store: Store, round_id: int | None = None) -> dict[str, Any]:
    """A round (the newest by default) for operators, as plain values."""
    with store.read() as connection:
        rows = _newest_rows(connection, 1) if round_id is None else [existing_round(connection, round_id)]
        if not rows:
            raise no_round(connection, round_id)
        return _plain(connection, rows)[0]


def newest_statuses(store: Store, most: int) -> list[dict[str, Any]]:
    with store.read() as connection:
        return _plain(connection, _newest_rows(connection, most))


def _newest_rows(connection: Connection, most: int) -> list[RoundRow]:
    return round_rows(connection, sa.select(schema.rounds).order_by(schema.rounds.c.id.desc()).limit(most))


def _plain(connection: Connection, rows: Sequence[RoundRow]) -> list[dict[str, Any]]:
    problems: dict[int, dict[str, int]] = {row.id: {} for row in rows}
    for round_id, problem, count in sorted(refused(connection, list(problems))):
        problems[round_id][problem] = count
    return [
        {
            "round": entry.id,
            "state": entry.row.state.value,
            "reason": entry.row.reason,
            **{name: iso(getattr(entry.row, name)) for name in ("opens", "collects", "closes", "next")},
            "profile": entry.row.profile.name,
            "mechanism": entry.row.profile.mechanism,
            "epsilon": entry.row.profile.epsilon,
            "announced": entry.announced,
            "reports": entry.reports,
            "buckets_run": entry.runs,
            "buckets_skipped": entry.skipped,
            "parts_decoded": entry.decoded,
            "parts": entry.parts,
            "found": entry.findings,
            "refused": problems[entry.id],
        }
        for entry in progress(connection, rows)
    ]


def round_info(store: Store, row: RoundRow, now: int) -> RoundInfo:
    """The document of a round for clients. It names only the buckets that run, which enough clients are in.

    The area code of a single client may be among the other buckets.
    """
    with store.read() as connection:
        return info_of(connection, row, now)


def info_of(connection: Connection, row: RoundRow, now: int) -> RoundInfo:
    """The same, inside a transaction. Of a round that is over, what clients read while it collected."""
    anonymous = row.profile.anonymous
    buckets: dict[str, Any] | None = None
    if row.state != ANNOUNCING:
        running = [bucket for bucket in buckets_of(connection, row.id) if bucket.runs]
        hundreds = row.profile.hundreds
        buckets = {str(each.bucket): _bucket_parameters(each.plain, each.anonymous, hundreds) for each in running}
    return RoundInfo(
        round=row.id,
        state=row.state,
        opens=row.opens,
        collects=row.collects,
        closes=row.closes,
        server_time=now,
        seed=row.seed,
        plan=row.plan_name,
        window=row.window_days,
        mechanism=row.profile.mechanism,
        epsilon=row.profile.epsilon,
        buckets=buckets,
        profile=row.profile.name,
        tau=row.profile.tau,
        level=row.profile.level,
        anonymity=parameters_of(connection, row.id) if anonymous else None,
        crowd=anonymity_set_of(connection, row.id) if anonymous else None,
        upload_bytes=None if buckets is None else upload_bytes(plain["report_bytes"] for plain in buckets.values()),
        next=max(row.next, row.closes),
    )


def _bucket_parameters(plain: dict[str, Any], crowd: int | None, hundreds: int) -> dict[str, Any]:
    return bucket_parameters(report_bytes(parameters.from_plain(plain)), plain, crowd, hundreds)
