"""Many rows in one statement of PostgreSQL: a column becomes an array, and ``unnest`` makes rows of them again.

However many rows there are, the statement is the same: it is parsed and planned once, and a batch is one message. A row
at a time (``executemany``) costs both sides as much again (``python -m benchmarks.writes``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

_TYPES: tuple[tuple[type[Any], str], ...] = (
    (sa.LargeBinary, "bytea"),
    (sa.BigInteger, "bigint"),
    (sa.Integer, "integer"),
    (sa.Boolean, "boolean"),
    (sa.Float, "double precision"),
    (sa.String, "text"),  # a text that is too long for its column is refused, where a cast to its length would cut it
)


def fits(table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether rows can go as one batch: there are several, and they leave no column to a default."""
    names = {column.name for column in table.columns}
    return len(rows) > 1 and all(row.keys() == names for row in rows)


def insert(connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert those rows, in this order, whose key is not there yet."""
    columns = tuple([row[column.name] for row in rows] for column in table.columns)
    connection.exec_driver_sql(_statement(table), columns)


@cache
def _statement(table: sa.Table) -> str:
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    arrays = ", ".join(f"%b::{_type(column)}[]" for column in table.columns)  # %b: bytes travel as they are, not as hex
    return f'INSERT INTO "{table.name}" ({names}) SELECT * FROM unnest({arrays}) ON CONFLICT DO NOTHING'


def _type(column: sa.Column[Any]) -> str:
    return next(name for kind, name in _TYPES if isinstance(column.type, kind))
