"""Reads and forgets what the database holds of a round: buckets, reports, sealed tallies."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.decoding.hints import NO_HINTS, Hints
from hushcall.decoding.task import BucketSpec, DecodeTask
from hushcall.mechanisms.profiles import window_of
from hushcall.protocol.states import HAS_FINDINGS
from hushcall.server import anonymity
from hushcall.server.db import partitions, schema
from hushcall.server.db.rows import RoundRow, buckets_of, existing_round, round_rows
from hushcall.server.db.store import Store
from hushcall.server.settings import ListSettings

if TYPE_CHECKING:
    from hushcall.mechanisms.report_arrays import ReportArrays

# Nothing here imports numpy, scipy or numba at the top: they take seconds, and a server should answer at once.

CHUNK = 20_000
"""Reports in memory at a time while a bucket is tallied."""
_REPORTS = schema.reports.c


def bucket_specs(store: Store, round_id: int) -> list[BucketSpec]:
    with store.read() as connection:
        row, rows = existing_round(connection, round_id), buckets_of(connection, round_id)
    decided = (len(rows), row.profile, row.plan)
    specs = [BucketSpec(round_id, each.bucket, each.users, *decided, each.plain) for each in rows if each.runs]
    return specs + [spec.hundreds for spec in specs if row.profile.hundreds]


def stored_reports(store: Store, bucket: BucketSpec) -> Iterator[ReportArrays]:
    """A bucket's reports in the order of their tickets, a chunk at a time, so that nothing shows when each one came."""
    from hushcall.mechanisms.report_arrays import ReportArrays

    for rows in _by_ticket(store, bucket) if store.postgres else _sorted(store, bucket):
        yield ReportArrays.of([(bytes(row.ticket), bytes(row.body)) for row in rows])


def _by_ticket(store: Store, bucket: BucketSpec) -> Iterator[Sequence[Any]]:
    """PostgreSQL has an index in this order."""
    query, last = _of(bucket, _REPORTS.ticket, _REPORTS.body).order_by(_REPORTS.ticket).limit(CHUNK), b""
    while rows := store.rows(query.where(_REPORTS.ticket > last)):
        yield rows
        last = bytes(rows[-1].ticket)


def _sorted(store: Store, bucket: BucketSpec) -> Iterator[Sequence[Any]]:
    """SQLite has no such index, as every upload would pay for it. It sorts once, and remembers the rows' places."""
    place = sa.literal_column("rowid", sa.Integer)
    with store.read() as connection:
        places = array("q", connection.execute(_of(bucket, place).order_by(_REPORTS.ticket)).scalars())
    for start in range(0, len(places), CHUNK):
        chunk = sa.func.json_each(json.dumps(places[start : start + CHUNK].tolist())).table_valued("value")
        rows = store.rows(_of(bucket, _REPORTS.ticket, _REPORTS.body).where(place.in_(sa.select(chunk.c.value))))
        yield sorted(rows, key=lambda row: bytes(row.ticket))


def _of(bucket: BucketSpec, *columns: Any) -> sa.Select[Any]:
    return sa.select(*columns).where(_REPORTS.round == bucket.round, _REPORTS.bucket == bucket.bucket)


def sealed_tally(bucket: BucketSpec, round_seed: bytes, chunks: Iterable[ReportArrays]) -> tuple[int, bytes, bytes]:
    """(count, checksum, bytes) of a bucket's tally. The same reports in any order give the same three."""
    total = 0

    def summed() -> Iterator[ReportArrays]:
        nonlocal total
        for chunk in chunks:
            total = (total + chunk.checksum()) % (1 << 256)
            yield chunk

    tally = bucket.tally(round_seed, summed())
    return tally.count, total.to_bytes(32, "big"), tally.to_bytes()


def rounds_in_window(connection: Connection, row: RoundRow) -> list[int]:
    """The rounds whose reports are put together with this one's, oldest first, itself last.

    A round that is held or was discarded is in no window. One released late is in those of rounds decoded after it.
    """
    table = schema.rounds.c
    near = sa.select(schema.rounds).where(table.id > row.id - row.profile.reach, table.id < row.id)
    earlier = round_rows(connection, near.where(table.state.in_(sorted(HAS_FINDINGS))).order_by(table.id))
    return window_of([(each.id, each.plan_name, each.profile) for each in [*earlier, row]])


def rounds_within(connection: Connection, newest: RoundRow, days: int) -> int:
    """How many ids back, the newest round's included, fill so many days. Rounds of before may have been longer."""
    return _rounds_within(_latest(connection, newest, days), newest, days)


def _latest(connection: Connection, newest: RoundRow, days: int) -> list[RoundRow]:
    table, rounds = schema.rounds.c, days * newest.profile.rounds_per_day
    query = sa.select(schema.rounds).where(table.id <= newest.id, table.id > newest.id - rounds)
    return list(round_rows(connection, query.order_by(table.id.desc())))


def _rounds_within(latest: Iterable[RoundRow], newest: RoundRow, days: int) -> int:
    part, after = Fraction(0), newest.id + 1
    for row in latest:
        part += Fraction(after - row.id, row.profile.rounds_per_day)
        if part >= days:
            return newest.id - row.id + 1
        after = row.id
    return days * newest.profile.rounds_per_day


@dataclass(frozen=True)
class ListSpan:
    """A list's days in rounds: how many it looks back over, and by which rule a number blocks.

    ``other_lengths``: the rounds of it that were longer or shorter, with how many of them a day has.
    """

    window: int
    block: int
    rounds_per_day: int
    other_lengths: Mapping[int, int] = field(default_factory=dict)


def list_span(connection: Connection, newest: RoundRow, settings: ListSettings) -> ListSpan:
    rounds_per_day = newest.profile.rounds_per_day
    block = (settings.block_days - 1) * rounds_per_day + 1
    latest = _latest(connection, newest, newest.window_days)
    lengths = {row.id: row.profile.rounds_per_day for row in latest if row.profile.rounds_per_day != rounds_per_day}
    return ListSpan(_rounds_within(latest, newest, newest.window_days), block, rounds_per_day, lengths)


def decode_tasks(
    connection: Connection, window: Sequence[int], bucket: BucketSpec, hints: Hints = NO_HINTS
) -> list[DecodeTask]:
    """One task for each part of a bucket. None where its own round's tally is gone."""
    tallies, buckets, area = schema.tallies.c, schema.buckets.c, abs(bucket.bucket)
    query = (
        sa.select(tallies.round, tallies.bucket, buckets.parameters, tallies.data)
        .join(schema.buckets, (buckets.round == tallies.round) & (buckets.bucket == area))
        .where(tallies.round.in_(window), tallies.bucket.in_({area, bucket.bucket}))
        .where(sa.func.length(tallies.data) > 0)
    )
    sealed: dict[int, list[tuple[int, dict[str, Any], bytes]]] = {area: [], bucket.bucket: []}
    about_numbers = bucket
    for row in connection.execute(query):
        about_numbers = replace(bucket, bucket=area, parameters=json.loads(row.parameters))
        spec = about_numbers.hundreds if row.bucket < 0 else about_numbers
        sealed[row.bucket].append((row.round, dict(spec.parameters), bytes(row.data)))
    parts = bucket.profile.spec.parts
    if any(bucket.round not in [number for number, *_ in rounds] for rounds in sealed.values()):
        return []
    numbers = DecodeTask.of_sealed(about_numbers, sealed[area]) if bucket.bucket < 0 else None
    tasks = [DecodeTask.of_sealed(bucket, sealed[bucket.bucket], part, parts, hints) for part in range(parts)]
    return [replace(task, numbers=numbers) for task in tasks]


def forget_callers(connection: Connection, round_id: int) -> None:
    """Drop who announced what, whose uploads were refused, and the keys of anonymous uploads."""
    partitions.forget(connection, schema.announcements, round_id)
    connection.execute(sa.delete(schema.refusals).where(schema.refusals.c.round == round_id))
    anonymity.forget(connection, round_id)


def forget_uploads(connection: Connection, round_id: int) -> None:
    forget_callers(connection, round_id)
    partitions.forget(connection, schema.reports, round_id)


def forget_passed(connection: Connection, row: RoundRow) -> None:
    """Empty the tallies that no later decision looks at, once this round is decided. Rounds that wait keep theirs.

    A small tally holds each report by itself, and a ticket, from a proxy's log for example, tells which one is its own.
    A round released late may be older than the newest decoded one: then its own tallies go at once.
    """
    table, tallies = schema.rounds.c, schema.tallies
    decoded = table.state.in_(sorted(HAS_FINDINGS)) | (table.id == row.id)
    newest = connection.execute(sa.select(sa.func.max(table.id)).where(decoded)).scalar_one()
    last = newest - row.profile.reach + 1  # the next window starts after it
    passed = sa.select(table.id).where(decoded, table.id <= last)
    full = tallies.c.round.in_(passed) & (sa.func.length(tallies.c.data) > 0)
    connection.execute(sa.update(tallies).where(full).values(data=b""))
    old = schema.hints.c.round.in_(passed) & (sa.func.length(schema.hints.c.data) > 0)
    connection.execute(sa.update(schema.hints).where(old).values(data=b""))


def set_round(connection: Connection, round_id: int, **values: object) -> None:
    connection.execute(sa.update(schema.rounds).where(schema.rounds.c.id == round_id).values(**values))
