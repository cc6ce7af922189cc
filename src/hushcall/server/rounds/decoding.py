"""The server, after a round closed: stored reports come in, sealed tallies and then heavy hitters leave.

Both halves can be killed anywhere and run again. Sealing a bucket is one transaction: the tally appears and the raw
reports go. Decoding is pure and happens in processes of its own; storing what a part of a bucket gave is one
transaction too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.mechanisms import parameters
from hushcall.numbers import NANP
from hushcall.profiles import Profile
from hushcall.protocol.seeds import report_seed
from hushcall.server.db import schema
from hushcall.server.db.store import Store

if TYPE_CHECKING:
    from hushcall.learn.learner import Learner, Reported

# The decoders bring numba and scipy, which take a second or two to import: that happens when a round is decided or
# decoded, so that a server that starts answers at once.

CHUNK = 20_000
"""Reports in memory at a time while a bucket is tallied."""


@dataclass(frozen=True)
class Opened:
    """A bucket that runs, as its round opened it."""

    round: int
    bucket: int
    users: int
    buckets: int  # how many are decided together
    profile: Profile
    mechanism: dict[str, Any]

    @property
    def learner(self) -> Learner[Any]:
        """The server's half of what the phones were given."""
        from hushcall.learn.bucket_setup import learner_of

        return learner_of(self.profile, NANP, parameters.from_plain(self.mechanism), self.buckets)


def opened_buckets(store: Store, number: int) -> list[Opened]:
    """The buckets of a round that run."""
    row = store.rows(sa.select(schema.rounds.c.profile).where(schema.rounds.c.id == number))[0]
    profile = Profile.from_plain(json.loads(row.profile))
    rows = store.rows(
        sa.select(schema.buckets).where(schema.buckets.c.round == number).order_by(schema.buckets.c.bucket)
    )
    return [Opened(number, r.bucket, r.users, len(rows), profile, json.loads(r.parameters)) for r in rows if r.runs]


def seal(store: Store, number: int, keep_reports: bool, beat: Callable[[], None] = lambda: None) -> None:
    """Turn every bucket's reports into a tally, one transaction a bucket. Sealed buckets are left alone."""
    done = {
        row.bucket for row in store.rows(sa.select(schema.tallies.c.bucket).where(schema.tallies.c.round == number))
    }
    seed = bytes(store.rows(sa.select(schema.rounds.c.seed).where(schema.rounds.c.id == number))[0].seed)
    for opened in opened_buckets(store, number):
        if opened.bucket in done:
            continue
        beat()
        count, checksum, data = tally_of(opened, _reports(store, opened, seed))
        with store.write(f"seal bucket {opened.bucket}") as connection:
            if not _under_way(store, connection, number):
                return
            row = {"round": number, "bucket": opened.bucket, "count": count, "checksum": checksum, "data": data}
            store.insert_new(connection, schema.tallies, [row], key=("bucket",))
            if not keep_reports:
                table = schema.reports.c
                connection.execute(
                    sa.delete(schema.reports).where(table.round == number, table.bucket == opened.bucket)
                )


def _under_way(store: Store, connection: Connection, number: int) -> bool:
    """Whether a round still takes results: one that was discarded meanwhile must stay as empty as it was made."""
    row = store.lock_round(connection, number)
    return row is not None and row.state in ("closed", "held")


def _reports(store: Store, opened: Opened, seed: bytes) -> Iterator[tuple[bytes, Reported]]:
    """(digest, (public seed, report)) of a bucket, a chunk at a time."""
    table, last = schema.reports.c, b""
    query = sa.select(table.ticket, table.body).where(table.round == opened.round, table.bucket == opened.bucket)
    while rows := store.rows(query.where(table.ticket > last).order_by(table.ticket).limit(CHUNK)):
        for row in rows:
            ticket, body = bytes(row.ticket), bytes(row.body)
            yield hashlib.sha256(ticket + body).digest(), (report_seed(seed, ticket), body)
        last = bytes(rows[-1].ticket)


def tally_of(opened: Opened, reports: Iterable[tuple[bytes, Reported]]) -> tuple[int, bytes, bytes]:
    """(count, checksum, bytes) of a bucket's tally. The same reports in any order give the same three."""
    learner, total, stream = opened.learner, 0, iter(reports)

    def parts() -> Iterator[Any]:
        nonlocal total
        while chunk := list(islice(stream, CHUNK)):
            total = (total + sum(int.from_bytes(digest, "big") for digest, _ in chunk)) % (1 << 256)
            yield learner.compact(learner.tally(reported for _, reported in chunk), opened.users)

    tally = _merged(parts(), learner)
    return tally.count, total.to_bytes(32, "big"), tally.to_bytes()


def _merged(parts: Iterator[Any], learner: Learner[Any]) -> Any:
    first = next(parts, None)
    return learner.tally([]) if first is None else reduce(lambda a, b: a.merge(b), parts, first)


@dataclass(frozen=True)
class Job:
    """One part of one bucket, with everything that decoding it takes: it travels to another process."""

    opened: Opened
    part: int
    data: bytes


@dataclass(frozen=True)
class Found:
    """What a part gave: rows for the table of heavy hitters."""

    bucket: int
    part: int
    rows: list[dict[str, Any]]


def decode(job: Job) -> Found:
    """Find the heavy hitters of one part. Pure."""
    learner, profile, rows = job.opened.learner, job.opened.profile, []
    for hitter in learner.find_part(learner.from_bytes(job.data), profile.tau, job.part, profile.scheme.parts):
        if number := profile.scheme.items.number(hitter.item, job.opened.bucket, NANP):
            row = {"round": job.opened.round, "number": str(number), "bucket": number.area}
            values = {"estimate": hitter.clamped, "low": hitter.low, "high": hitter.high, "p_value": hitter.p_value}
            rows.append({**row, **{key: float(value) for key, value in values.items()}})
    return Found(job.opened.bucket, job.part, rows)


def decode_round(
    store: Store, number: int, pool: Executor | None, width: int, beat: Callable[[], None] = lambda: None
) -> None:
    """Decode whatever of a sealed round is not decoded yet, ``width`` parts at a time."""
    table = schema.decodings.c
    done = {
        (row.bucket, row.part) for row in store.rows(sa.select(table.bucket, table.part).where(table.round == number))
    }
    jobs = _jobs(store, number, done)
    if pool is None:
        for job in jobs:
            beat()
            _store(store, number, decode(job))
        return
    running: list[Future[Found]] = [pool.submit(decode, job) for job in islice(jobs, width)]
    while running:
        beat()
        found = running.pop(0).result()
        running += [pool.submit(decode, job) for job in islice(jobs, 1)]
        _store(store, number, found)


def _jobs(store: Store, number: int, done: set[tuple[int, int]]) -> Iterator[Job]:
    table = schema.tallies.c
    for opened in opened_buckets(store, number):
        left = [part for part in range(opened.profile.scheme.parts) if (opened.bucket, part) not in done]
        if left:
            rows = store.rows(sa.select(table.data).where(table.round == number, table.bucket == opened.bucket))
            if not rows or not rows[0].data:
                return  # another server has decoded the round meanwhile, or an operator discarded it
            for part in left:
                yield Job(opened, part, bytes(rows[0].data))


def _store(store: Store, number: int, found: Found) -> None:
    with store.write(f"decode bucket {found.bucket} part {found.part}") as connection:
        if not _under_way(store, connection, number):
            return
        store.insert_new(connection, schema.hitters, found.rows, key=("number",))
        row = {"round": number, "bucket": found.bucket, "part": found.part}
        store.insert_new(connection, schema.decodings, [row], key=("bucket", "part"))
