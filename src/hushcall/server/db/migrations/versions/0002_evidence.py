"""Findings say over how many rounds they were made, and whether they are plausible."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
_NEW = {
    "hitters": (
        sa.Column("length", sa.Integer, nullable=False, server_default="1"),
        sa.Column("implausible", sa.Boolean, nullable=False, server_default=sa.false()),
    ),
}


def upgrade() -> None:
    """Add what is not there: step 1 makes the tables of today."""
    for table, columns in _NEW.items():
        known = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
        for column in columns:
            if column.name not in known:
                op.add_column(table, column)


def downgrade() -> None:
    """Findings over several rounds become findings of a day."""
    for table, columns in _NEW.items():
        with op.batch_alter_table(table) as batch:
            for column in columns:
                batch.drop_column(column.name)
