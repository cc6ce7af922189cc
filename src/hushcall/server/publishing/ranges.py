"""The ranges beside a list: hundreds that rounds found, without those that operators keep off it.

Numbers that operators keep off the list pass in a listed range, by name.
"""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.protocol.blocklist import Blocklist, Sighting, listed
from hushcall.protocol.numbers import NumberingPlan
from hushcall.protocol.ranges import NO_RANGES, RANGES_TARGET, RangeEntry, RangeList
from hushcall.server.db import schema
from hushcall.server.db.store import PublishedFiles
from hushcall.server.publishing.exclusions import kept_off_by_operators, never_listed
from hushcall.server.rounds.round_data import ListSpan
from hushcall.server.settings import ListSettings
from hushcall.server.signing import signer


def published(connection: Connection) -> RangeList:
    """Those of the newest version. Empty where it has none."""
    files = PublishedFiles(connection)
    metadata = signer.read_online(files)["targets"]
    info = metadata.signed.targets.get(RANGES_TARGET) if metadata else None
    return NO_RANGES if info is None else RangeList.from_bytes(files[signer.place_of(info)])


def next_ranges(
    connection: Connection,
    settings: ListSettings,
    plan: NumberingPlan,
    after: Blocklist,
    span: ListSpan,
    included: sa.ColumnElement[bool],
    *,
    corrected: bool,
) -> RangeList:
    """Those beside version ``after``. A correction between rounds runs no lookup, and lists no number anew."""
    columns = schema.ranges.c
    recent = sa.select(columns.number).join(schema.rounds).distinct()
    recent = recent.where(included, columns.round > after.round - span.window)
    numbers = sorted(set(connection.scalars(recent)) - kept_off_by_operators(connection))
    query = sa.select(schema.ranges, schema.rounds.c.opens).join(schema.rounds)
    sightings = (
        Sighting(r.number, r.round, r.opens, r.estimate, r.low, r.high, r.p_value, r.length, r.strict)
        for r in connection.execute(query.where(included, columns.number.in_(numbers)))
    )
    block_rounds = span.block if settings.block_ranges else None
    sighted = listed(sightings, after.round, span.window, (), block_rounds, span.rounds_per_day, RangeEntry)
    entries = [entry for entry in sighted if isinstance(entry, RangeEntry)]
    before = {
        number for entry in published(connection).entries for number in entry.numbers if number not in entry.passing
    }
    inside = [number for entry in entries for number in entry.numbers]
    off = never_listed(connection, settings, plan, inside, before if corrected else None)
    passing = [
        replace(each, block=bool(each.block), passing=tuple(n for n in each.numbers if n in off)) for each in entries
    ]
    some_left = tuple(entry for entry in passing if len(entry.passing) < len(entry.numbers))
    return RangeList(after.round, after.made, some_left)
