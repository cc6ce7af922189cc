"""Announcements and reports on PostgreSQL: a partition for each round, which is dropped when the round is forgotten.

A drop reads no row, leaves no dead ones, and frees the space at once. A partition is attached rather than created in
place, which waits for no other user of the table, such as a backup. SQLite has one table for all rounds, and deletes.
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
"""Indices, not constraints, so that pg_restore works over a database that has other partitions.

The round comes last. It must be part of the index, because it is the partition key, but has one value within each
partition. With it first, PostgreSQL may choose an index that it has to read from end to end.
"""
PLAIN = {"reports": {"reports_by_bucket": "bucket, ticket"}}
LOCK_MILLISECONDS = 500
"""How long a drop waits for other users of the table, while more of them wait behind it. Then rows are deleted."""


def make(connection: Connection, round_id: int) -> None:
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
    """Adds ``by`` to the round of every row. For a restore, when the database has no other user."""
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
    """Deletes a round's rows, by dropping its partition where there is one.

    Where the table is locked for long, as by a backup, the rows are deleted instead. The empty partition then goes
    with the next one.
    """
    if connection.dialect.name == "postgresql" and _dropped(connection, table, round_id):
        return
    connection.execute(sa.delete(table).where(table.c.round == round_id))


def _dropped(connection: Connection, table: sa.Table, round_id: int) -> bool:
    partitioned, rounds = rounds_of(connection, table), schema.rounds.c
    if round_id not in partitioned:
        return True  # it was dropped before
    query = sa.select(rounds.id).where(rounds.id.in_(partitioned), rounds.id != round_id, rounds.state == PUBLISHED)
    earlier = connection.execute(query.order_by(rounds.id)).scalars()
    empty = [earlier_id for earlier_id in earlier if _empty(connection, table, earlier_id)]
    timeout = connection.exec_driver_sql("SHOW lock_timeout").scalar_one()
    try:
        with connection.begin_nested():
            connection.exec_driver_sql(f"SET LOCAL lock_timeout={LOCK_MILLISECONDS}")
            for dropped_id in (*empty, round_id):
                connection.exec_driver_sql(f"DROP TABLE {_name(table, dropped_id)}")
            connection.exec_driver_sql(f"SET LOCAL lock_timeout='{timeout}'")
    except sa.exc.OperationalError:  # the savepoint's rollback resets the timeout
        return False
    return True


def _empty(connection: Connection, table: sa.Table, round_id: int) -> bool:
    return connection.exec_driver_sql(f"SELECT 1 FROM {_name(table, round_id)} LIMIT 1").first() is None


def rounds_of(connection: Connection, table: sa.Table) -> list[int]:
    query = sa.text(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
        "WHERE i.inhparent = CAST(:name AS regclass)"
    )
    names = connection.execute(query, {"name": table.name}).scalars()
    return sorted(int(name.rpartition("_")[2]) for name in names)


def _name(table: sa.Table, round_id: int) -> str:
    return f"{table.name}_{int(round_id)}"


def partition(connection: Connection, table: sa.Table) -> None:
    """Turns a plain table of PostgreSQL into a partitioned one with the same rows."""
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
