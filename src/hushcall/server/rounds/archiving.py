"""Writes the server's rounds to an archive, and imports archived rounds.

An import can be killed anywhere and run again: the round is held until its last report is there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from hushcall.decoding.archive.files import finish_round, read_file, start_round, write_bucket
from hushcall.decoding.archive.manifest import Address, ArchivedBucket, ArchivedRound
from hushcall.decoding.hints import RoundHints
from hushcall.errors import InvalidParameter
from hushcall.protocol.states import CLOSED, HELD, TAKES_UPLOADS
from hushcall.server.db import partitions, schema
from hushcall.server.db.rows import buckets_of, existing_round, round_of
from hushcall.server.db.store import Store
from hushcall.server.rounds import hints
from hushcall.server.rounds.round_data import bucket_specs, set_round, stored_reports

Progress = Callable[[int, int], None]
IMPORTING = "being imported from an archive"
_TIMES = ("opens", "collects", "closes", "next", "window", "call_days", "announced", "rejected")


def export_round(store: Store, number: int, address: Address, progress: Progress) -> ArchivedRound:
    """Write a round that takes no more reports. Its checksums must be those of the sealed tallies, where there are."""
    tallies = schema.tallies.c
    with store.read() as connection:
        row, rows = existing_round(connection, number), buckets_of(connection, number)
        query = sa.select(tallies.bucket, tallies.checksum).where(tallies.round == number, tallies.count > 0)
        sealed = {bucket: bytes(checksum).hex() for bucket, checksum in connection.execute(query)}
        recorded = hints.recorded(connection, number) or RoundHints()
    if row.phase in TAKES_UPLOADS:
        raise InvalidParameter("round", "be closed: it still takes reports", f"{number}, {row.state}")
    folder, buckets, written = start_round(address, number), bucket_specs(store, number), list[ArchivedBucket]()
    for done, spec in enumerate(buckets, 1):
        chunks = stored_reports(store, spec)
        bucket = write_bucket(address, folder, spec.bucket, spec.users, dict(spec.parameters), chunks)
        if sealed.get(spec.bucket, bucket.checksum) != bucket.checksum:
            rule = "still have its raw reports: export before it is decoded, or set round.keep_reports"
            raise InvalidParameter("round", rule, f"{number}, bucket {spec.bucket}")
        written.append(bucket)
        progress(done, len(buckets))
    skipped = {bucket.bucket: bucket.users for bucket in rows if not bucket.runs}
    times = {name: getattr(row, name) for name in _TIMES}
    opened = (row.seed, row.plan_name, row.profile.to_plain())
    return finish_round(address, number, *opened, written, skipped, times, recorded.to_plain())


def import_round(store: Store, address: Address, archived: ArchivedRound, progress: Progress) -> None:
    """Take a round in as closed, with its number: ``round advance`` decodes it. A round that is there already stays."""
    with store.read() as connection:
        row = round_of(connection, archived.round)
    if row is not None and row.reason != IMPORTING:
        raise InvalidParameter("round", "be one that this server does not have", archived.round)
    with store.write("import round") as connection:
        store.insert_new(connection, schema.rounds, [_round_row(archived)], key=("id",))
        store.insert_new(connection, schema.buckets, _bucket_rows(archived), key=("bucket",))
        partitions.make(connection, archived.round)
        if archived.hints:
            hints.record(store, connection, archived.round, RoundHints.from_plain(archived.hints), [])
    for done, bucket in enumerate(archived.buckets, 1):
        _import_bucket(store, address, archived, bucket)
        progress(done, len(archived.buckets))
    with store.write("imported") as connection:
        set_round(connection, archived.round, state=CLOSED, held_from=None, reason="")


def _import_bucket(store: Store, address: Address, archived: ArchivedRound, bucket: ArchivedBucket) -> None:
    for file in bucket.files:
        for chunk in read_file(address, archived.folder, file, 10_000):
            pairs = zip(chunk.tickets, chunk.bodies, strict=True)
            place = {"round": archived.round, "bucket": bucket.bucket}
            rows = [{**place, "ticket": ticket.tobytes(), "body": body.tobytes()} for ticket, body in pairs]
            with store.write(f"import bucket {bucket.bucket}") as connection:
                store.insert_new(connection, schema.reports, rows, key=("ticket",))


def _round_row(archived: ArchivedRound) -> dict[str, Any]:
    times = {name: archived.times.get(name, 0) for name in _TIMES}
    profile = json.dumps(archived.profile, sort_keys=True)
    state = {"state": HELD, "held_from": CLOSED, "reason": IMPORTING}
    seeds = {"seed": bytes.fromhex(archived.seed), "secret": b""}  # no ticket is made any more
    return {"id": archived.round, "profile": profile, "plan": archived.plan, **state, **seeds, **times}


def _bucket_rows(archived: ArchivedRound) -> list[dict[str, Any]]:
    decided: list[tuple[int, int, str | None]] = [
        (bucket.bucket, bucket.users, json.dumps(bucket.parameters))
        for bucket in archived.buckets
        if bucket.bucket >= 0
    ]
    decided += [(int(bucket), users, None) for bucket, users in archived.skipped.items()]
    return [
        {"round": archived.round, "bucket": bucket, "users": users, "runs": plain is not None, "parameters": plain}
        for bucket, users, plain in decided
    ]
