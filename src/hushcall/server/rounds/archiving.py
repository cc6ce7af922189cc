"""The server's rounds to an archive and back: a closed round's reports leave as Parquet, or come in to be decoded.

Importing can be killed anywhere and run again: the round is held until its last report is there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from hushcall.archive.manifest import Address, ArchivedBucket, ArchivedRound
from hushcall.archive.reader import read_file
from hushcall.archive.writer import finish_round, start_round, write_bucket
from hushcall.errors import InvalidParameter
from hushcall.protocol.states import CLOSED, HELD, TAKES_UPLOADS
from hushcall.server.db import partitions, schema
from hushcall.server.db.rows import buckets_of, existing_round, round_of
from hushcall.server.db.store import Store
from hushcall.server.rounds.decoding import opened_buckets, stored_reports

Progress = Callable[[int, int], None]
IMPORTING = "being imported from an archive"
_TIMES = ("opens", "collects", "closes", "next", "window", "announced", "rejected")


def export_round(store: Store, number: int, address: Address, progress: Progress) -> ArchivedRound:
    """Write a round that takes no more reports. Its checksums must be those of the sealed tallies, where there are."""
    with store.read() as connection:
        row, rows = existing_round(connection, number), buckets_of(connection, number)
    if row.phase in TAKES_UPLOADS:
        raise InvalidParameter("round", "be closed: it still takes reports", f"{number}, {row.state}")
    sealed = {one.bucket: bytes(one.checksum).hex() for one in store.rows(_tallies(number)) if one.count}
    folder, opened, written = start_round(address, number), opened_buckets(store, number), list[ArchivedBucket]()
    for done, one in enumerate(opened, 1):
        bucket = write_bucket(address, folder, one.bucket, one.users, one.mechanism, stored_reports(store, one))
        if sealed.get(one.bucket, bucket.checksum) != bucket.checksum:
            rule = "still have its raw reports: export before it is decoded, or set round.keep_reports"
            raise InvalidParameter("round", rule, f"{number}, bucket {one.bucket}")
        written.append(bucket)
        progress(done, len(opened))
    skipped = {one.bucket: one.users for one in rows if not one.runs}
    times = {name: getattr(row, name) for name in _TIMES}
    return finish_round(address, number, row.seed, row.plan_name, row.profile.to_plain(), written, skipped, times)


def import_round(store: Store, address: Address, found: ArchivedRound, progress: Progress) -> None:
    """Take a round in as closed, with its number: ``round advance`` decodes it. A round that is there already stays."""
    with store.read() as connection:
        there = round_of(connection, found.round)
    if there is not None and there.reason != IMPORTING:
        raise InvalidParameter("round", "be one that this server does not have", found.round)
    with store.write("import round") as connection:
        store.insert_new(connection, schema.rounds, [_round_row(found)], key=("id",))
        store.insert_new(connection, schema.buckets, _bucket_rows(found), key=("bucket",))
        partitions.make(connection, found.round)
    for done, bucket in enumerate(found.buckets, 1):
        _import_bucket(store, address, found, bucket)
        progress(done, len(found.buckets))
    with store.write("imported") as connection:
        ready = {"state": CLOSED, "held_from": None, "reason": ""}
        connection.execute(sa.update(schema.rounds).where(schema.rounds.c.id == found.round).values(**ready))


def _import_bucket(store: Store, address: Address, found: ArchivedRound, bucket: ArchivedBucket) -> None:
    for file in bucket.files:
        for some in read_file(address, found, file, 10_000):
            pairs = zip(some.tickets, some.bodies, strict=True)
            place = {"round": found.round, "bucket": bucket.bucket}
            rows = [{**place, "ticket": ticket.tobytes(), "body": body.tobytes()} for ticket, body in pairs]
            with store.write(f"import bucket {bucket.bucket}") as connection:
                store.insert_new(connection, schema.reports, rows, key=("ticket",))


def _round_row(found: ArchivedRound) -> dict[str, Any]:
    times = {name: found.times.get(name, 0) for name in _TIMES}
    profile = json.dumps(found.profile, sort_keys=True)
    held = {"state": HELD, "held_from": CLOSED, "reason": IMPORTING}
    seeds = {"seed": bytes.fromhex(found.seed), "secret": b""}  # no ticket is made any more
    return {"id": found.round, "profile": profile, "plan": found.plan, **held, **seeds, **times}


def _bucket_rows(found: ArchivedRound) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"bucket": one.bucket, "users": one.users, "runs": True, "parameters": json.dumps(one.parameters)}
        for one in found.buckets
    ]
    rows += [
        {"bucket": int(bucket), "users": users, "runs": False, "parameters": None}
        for bucket, users in found.skipped.items()
    ]
    return [{"round": found.round, **row} for row in rows]


def _tallies(number: int) -> Any:
    table = schema.tallies.c
    return sa.select(table.bucket, table.checksum, table.count).where(table.round == number)
