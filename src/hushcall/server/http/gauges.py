"""Where a server stands, as figures: its database comes in, Prometheus's gauges leave, by name with what they mean."""

from __future__ import annotations

import sqlalchemy as sa

from hushcall.protocol.states import HELD, RoundState
from hushcall.server.db import schema
from hushcall.server.db.rows import newest_version
from hushcall.server.rounds import round_status
from hushcall.server.service import Service

Gauges = dict[str, tuple[str, float]]
_DATABASE = "hushcall_database_up", "1 if the database answers."
DOWN: Gauges = {_DATABASE[0]: (_DATABASE[1], 0.0)}
"""What is said while nothing can be read."""


def gauges(service: Service) -> Gauges:
    """Read just now, in a handful of queries."""
    store = service.store
    with store.read() as connection:
        newest = newest_version(connection)
        behind = round_status.overdue(connection, service.now)
        held = sa.select(sa.func.count()).select_from(schema.rounds).where(schema.rounds.c.state == HELD)
        waiting = connection.execute(held).scalar_one()
        devices = connection.execute(sa.select(sa.func.count(schema.devices.c.id))).scalar_one()
    version, entries, made = (newest.version, newest.entries, newest.made) if newest else (0, 0, 0)
    found: Gauges = {
        _DATABASE[0]: (_DATABASE[1], 1.0),
        "hushcall_list_version": ("Version of the published list.", version),
        "hushcall_list_entries": ("Numbers on it.", entries),
        "hushcall_list_made_seconds": ("When its newest round closed, unix time.", made),
        "hushcall_devices": ("Devices enrolled.", devices),
        "hushcall_overdue_seconds": ("How long ago the latest round should have moved on.", behind),
        "hushcall_rounds_held": ("Rounds that wait for a person.", waiting),
    }
    for status in round_status.newest_statuses(store, 1):
        for name in ("round", "announced", "reports", "buckets_run", "buckets_skipped", "found"):
            found[f"hushcall_round_{name}"] = (f"Of the newest round: {name.replace('_', ' ')}.", status[name])
        for state in RoundState:
            found[f"hushcall_round_is_{state}"] = (f"1 if it is {state}.", float(status["state"] == state))
    return found
