"""The server, after a round closed: stored reports come in, sealed tallies and then heavy hitters leave.

A decision looks back over the tallies of the last rounds too (``learn.window``), as far as the profile's windows reach:
for so long they are kept. Nothing is written here: which process does what, and when its result is stored, is in
``rounds.jobs``. Decoding is pure and happens in processes of its own.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.mechanisms import parameters
from hushcall.numbers import NumberingPlan
from hushcall.profiles import Profile
from hushcall.server.db import schema
from hushcall.server.db.rows import buckets_of, existing_round
from hushcall.server.db.store import Store

if TYPE_CHECKING:
    from hushcall.learn.feed.report_arrays import ReportArrays
    from hushcall.learn.learner import Learner

# The decoders bring numba and scipy, which take a second or two to import: that happens when a round is decided or
# decoded, so that a server that starts answers at once.

CHUNK = 20_000
"""Reports in memory at a time while a bucket is tallied."""
_REPORTS = schema.reports.c


@dataclass(frozen=True)
class Opened:
    """A bucket that runs, as its round opened it."""

    round: int
    bucket: int
    users: int
    buckets: int  # how many are decided together
    profile: Profile
    plan: NumberingPlan  # whose numbers: whole, since a decoder's process knows the shipped ones only
    mechanism: dict[str, Any]

    @property
    def learner(self) -> Learner[Any]:
        """The server's half of what the phones were given."""
        from hushcall.learn.bucket_setup import learner_of

        return learner_of(self.profile, self.plan, parameters.from_plain(self.mechanism), self.buckets)


def opened_buckets(store: Store, round_id: int) -> list[Opened]:
    """The buckets of a round that run."""
    with store.read() as connection:
        row, rows = existing_round(connection, round_id), buckets_of(connection, round_id)
    return [
        Opened(round_id, one.bucket, one.users, len(rows), row.profile, row.plan, one.plain) for one in rows if one.runs
    ]


def stored_reports(store: Store, opened: Opened) -> Iterator[ReportArrays]:
    """A bucket's reports in the order of their tickets, a chunk at a time; when each one came shows nowhere."""
    from hushcall.learn.feed.report_arrays import ReportArrays

    for rows in _by_ticket(store, opened) if store.postgres else _sorted(store, opened):
        yield ReportArrays.of([(bytes(row.ticket), bytes(row.body)) for row in rows])


def _by_ticket(store: Store, opened: Opened) -> Iterator[Sequence[Any]]:
    """PostgreSQL has an index in this order."""
    query, last = _of(opened, _REPORTS.ticket, _REPORTS.body).order_by(_REPORTS.ticket).limit(CHUNK), b""
    while rows := store.rows(query.where(_REPORTS.ticket > last)):
        yield rows
        last = bytes(rows[-1].ticket)


def _sorted(store: Store, opened: Opened) -> Iterator[Sequence[Any]]:
    """SQLite has none, which it would pay for at every upload: it sorts once, and the rows' places are remembered."""
    place = sa.literal_column("rowid", sa.Integer)
    with store.read() as connection:
        places = array("q", connection.execute(_of(opened, place).order_by(_REPORTS.ticket)).scalars())
    for at in range(0, len(places), CHUNK):
        some = sa.func.json_each(json.dumps(places[at : at + CHUNK].tolist())).table_valued("value")
        rows = store.rows(_of(opened, _REPORTS.ticket, _REPORTS.body).where(place.in_(sa.select(some.c.value))))
        yield sorted(rows, key=lambda row: bytes(row.ticket))


def _of(opened: Opened, *columns: Any) -> sa.Select[Any]:
    return sa.select(*columns).where(_REPORTS.round == opened.round, _REPORTS.bucket == opened.bucket)


def tally_of(opened: Opened, seed: bytes, chunks: Iterable[ReportArrays]) -> tuple[int, bytes, bytes]:
    """(count, checksum, bytes) of a bucket's tally. The same reports in any order give the same three."""
    learner, total = opened.learner, 0

    def parts() -> Iterator[Any]:
        nonlocal total
        for chunk in chunks:
            total = (total + chunk.checksum()) % (1 << 256)
            yield learner.compact(learner.tally_arrays(seed, chunk), opened.users)

    tally = _merged(parts(), learner)
    return tally.count, total.to_bytes(32, "big"), tally.to_bytes()


def _merged(parts: Iterator[Any], learner: Learner[Any]) -> Any:
    first = next(parts, None)
    return learner.tally([]) if first is None else reduce(lambda a, b: a.merge(b), parts, first)


@dataclass(frozen=True)
class Kept:
    """One round of a bucket that is kept for the window: what its phones were given, and the tally's bytes."""

    round: int
    mechanism: dict[str, Any]
    data: bytes


@dataclass(frozen=True)
class Job:
    """One part of one bucket, with everything that decoding it takes: it travels to another process."""

    opened: Opened
    part: int
    tallies: tuple[Kept, ...]


@dataclass(frozen=True)
class Decoded:
    """What a part gave: rows for the table of heavy hitters."""

    bucket: int
    part: int
    rows: list[dict[str, Any]]


def decode(job: Job) -> Decoded:
    """Find the heavy hitters of one part. Pure."""
    from hushcall.learn.window import Sealed, scan

    opened, profile, rows = job.opened, job.opened.profile, []
    sealed = [Sealed(kept.round, parameters.from_plain(kept.mechanism), kept.data) for kept in job.tallies]
    parts = profile.scheme.parts
    for hitter in scan(profile, opened.plan, sealed, opened.round, opened.buckets, job.part, parts):
        if number := profile.scheme.items.number(hitter.item, opened.bucket, opened.plan):
            row = {"round": opened.round, "number": str(number), "bucket": number.area}
            how = {"length": int(hitter.length), "implausible": bool(hitter.implausible)}
            values = {"estimate": hitter.clamped, "low": hitter.low, "high": hitter.high, "p_value": hitter.p_value}
            rows.append({**row, **how, **{key: float(value) for key, value in values.items()}})
    return Decoded(opened.bucket, job.part, rows)


def kept_tallies(connection: Connection, window: list[int], bucket: int) -> Iterator[Kept]:
    """A bucket's tallies in these rounds, oldest first; a round in which it was skipped has none."""
    tallies, buckets = schema.tallies.c, schema.buckets.c
    query = (
        sa.select(tallies.round, buckets.parameters, tallies.data)
        .join(schema.buckets, (buckets.round == tallies.round) & (buckets.bucket == tallies.bucket))
        .where(tallies.round.in_(window), tallies.bucket == bucket)
        .order_by(tallies.round)
    )
    for row in connection.execute(query):
        if row.data:  # emptied where a shorter window was in force meanwhile
            yield Kept(row.round, json.loads(row.parameters), bytes(row.data))
