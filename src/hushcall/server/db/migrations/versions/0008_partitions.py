"""On PostgreSQL announcements and reports have a partition for each round, so that forgetting one is a drop."""

import sqlalchemy as sa
from alembic import op

from hushcall.server.db import partitions

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Move the rows; nothing on SQLite, nor on a new database beyond its empty tables."""
    if op.get_bind().dialect.name == "postgresql":
        for table in partitions.TABLES:
            partitions.partition(op.get_bind(), table)


def downgrade() -> None:
    """One table for all rounds again."""
    bind = op.get_bind()
    if bind.dialect.name != "postgresql":
        return
    for table in partitions.TABLES:
        op.rename_table(table.name, f"{table.name}_parts")
        for indices in (partitions.UNIQUE, partitions.PLAIN):
            for index in indices.get(table.name, {}):
                bind.exec_driver_sql(f"DROP INDEX {index}")
        table.create(bind)
        columns = [column.name for column in table.columns]
        parts = sa.table(f"{table.name}_parts", *(sa.column(name) for name in columns))
        bind.execute(sa.insert(table).from_select(columns, sa.select(*parts.columns)))
        op.drop_table(parts.name)
