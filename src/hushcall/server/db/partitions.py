"""Announcements and reports by round: on PostgreSQL each round has a partition of both, and forgetting it is a drop.

A drop looks at no row, leaves no dead ones behind, and gives the space back at once. A partition is attached, not made
in place: that waits for nobody and holds up nobody, a backup included. SQLite has one table for all rounds, and
deletes.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hushcall.protocol.states import PUBLISHED
from hushcall.server.db import schema

TABLES = (schema.announcements, schema.reports)
UNIQUE = {
    "announcements": {"announcements_one": "device, round", "announcements_by_ticket": "ticket, round"},
    "reports": {"reports_one": "ticket, round"},
}
"""Indices, not constraints: PostgreSQL's own programs restore over a database that has other partitions.

The round comes last: within a partition it says nothing, and must be there only because it is what is partitioned by.
With it first, PostgreSQL may take an index for one that it only has to read from end to end.
"""
PLAIN = {"reports": {"reports_by_bucket": "bucket, ticket"}}
LOCK_MILLISECONDS = 500
"""How long a drop waits for those who use the table, and everybody else behind it. Then rows are deleted instead."""


def make(connection: Connection, round_id: int) -> None:
    """Let a round take announcements and reports; nothing where it does already."""
    if connection.dialect.name == "postgresql":
        for table in TABLES:
            if round_id not in rounds_of(connection, table):
                name = _name(table, round_id)
                connection.exec_driver_sql(f"CREATE TABLE {name} (LIKE {table.name} INCLUDING DEFAULTS)")
                _attach(connection, table, round_id)


def _attach(connection: Connection, table: sa.Table, round_id: int) -> None:
    name = _name(table, round_id)
    connection.exec_driver_sql(f"ALTER TABLE {table.name} ATTACH PARTITION {name} FOR VALUES IN ({int(round_id)})")


def move_up(connection: Connection, by: int) -> None:
    """Give every round's rows the number that is so much larger: after a restore, which nobody works beside."""
    for table in TABLES:
        if connection.dialect.name != "postgresql":
            connection.execute(sa.update(table).values(round=table.c.round + by))
            continue
        for round_id in rounds_of(connection, table):
            old, new = _name(table, round_id), _name(table, round_id + by)
            connection.exec_driver_sql(f"ALTER TABLE {table.name} DETACH PARTITION {old}")
            connection.exec_driver_sql(f"ALTER TABLE {old} RENAME TO {new}")
            connection.exec_driver_sql(f"UPDATE {new} SET round = {int(round_id + by)}")
            _attach(connection, table, round_id + by)


def forget(connection: Connection, table: sa.Table, round_id: int) -> None:
    """Forget a round's rows, by dropping its partition where there is one.

    Where somebody holds on to the table for long (a backup does), the rows are deleted instead: forgetting waits for
    nobody. The empty partition then goes with the next one.
    """
    if connection.dialect.name == "postgresql" and _dropped(connection, table, round_id):
        return
    connection.execute(sa.delete(table).where(table.c.round == round_id))


def _dropped(connection: Connection, table: sa.Table, round_id: int) -> bool:
    known, rounds = rounds_of(connection, table), schema.rounds.c
    if round_id not in known:
        return True  # it was dropped before
    others = sa.select(rounds.id).where(rounds.id.in_(known), rounds.id != round_id, rounds.state == PUBLISHED)
    left = [one for one in connection.execute(others.order_by(rounds.id)).scalars() if _empty(connection, table, one)]
    before = connection.exec_driver_sql("SHOW lock_timeout").scalar_one()
    try:
        with connection.begin_nested():
            connection.exec_driver_sql(f"SET LOCAL lock_timeout={LOCK_MILLISECONDS}")
            for one in (*left, round_id):
                connection.exec_driver_sql(f"DROP TABLE {_name(table, one)}")
            connection.exec_driver_sql(f"SET LOCAL lock_timeout='{before}'")
    except sa.exc.OperationalError:  # a rolled back savepoint takes its setting along
        return False
    return True


def _empty(connection: Connection, table: sa.Table, round_id: int) -> bool:
    """Whether a partition has no rows any more: somebody was in the way of its drop."""
    return connection.exec_driver_sql(f"SELECT 1 FROM {_name(table, round_id)} LIMIT 1").first() is None


def rounds_of(connection: Connection, table: sa.Table) -> list[int]:
    """The rounds that have a partition of a table, in order."""
    query = sa.text(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
        "WHERE i.inhparent = CAST(:name AS regclass)"
    )
    names = connection.execute(query, {"name": table.name}).scalars()
    return sorted(int(name.rpartition("_")[2]) for name in names)


def _name(table: sa.Table, round_id: int) -> str:
    return f"{table.name}_{int(round_id)}"


def partition(connection: Connection, table: sa.Table) -> None:
    """Make a plain table of PostgreSQL a partitioned one, all its rows in it; a part for each round that needs one."""
    name, old = table.name, f"{table.name}_before"
    columns = ", ".join(column.name for column in table.columns)
    connection.exec_driver_sql(f"ALTER TABLE {name} RENAME TO {old}")
    connection.exec_driver_sql(f"CREATE TABLE {name} (LIKE {old} INCLUDING DEFAULTS) PARTITION BY LIST (round)")
    rows = connection.exec_driver_sql(
        f"SELECT id FROM rounds WHERE state <> 'published' UNION SELECT DISTINCT round FROM {old}"
    )
    for (round_id,) in sorted(rows):
        part = _name(table, round_id)
        connection.exec_driver_sql(f"CREATE TABLE {part} PARTITION OF {name} FOR VALUES IN ({round_id})")
    connection.exec_driver_sql(f"INSERT INTO {name} ({columns}) SELECT {columns} FROM {old}")
    connection.exec_driver_sql(f"DROP TABLE {old}")  # its indices go with it, and their names are free
    for kind, indices in (("UNIQUE ", UNIQUE), ("", PLAIN)):
        for index, on in indices.get(name, {}).items():
            connection.exec_driver_sql(f"CREATE {kind}INDEX {index} ON {name} ({on})")
