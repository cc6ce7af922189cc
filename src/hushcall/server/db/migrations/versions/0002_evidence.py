"""Findings say over how many rounds they were made; refusals, limits and proofs of work are counted by all workers."""

import sqlalchemy as sa
from alembic import op

from hushcall.server.db.schema import limits, metadata, proofs, refusals

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
    metadata.create_all(op.get_bind(), tables=[refusals, limits, proofs], checkfirst=True)
    for table, columns in _NEW.items():
        known = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
        for column in columns:
            if column.name not in known:
                op.add_column(table, column)


def downgrade() -> None:
    """Findings over several rounds become findings of a day."""
    metadata.drop_all(op.get_bind(), tables=[refusals, limits, proofs], checkfirst=True)
    for table, columns in _NEW.items():
        with op.batch_alter_table(table) as batch:
            for column in columns:
                batch.drop_column(column.name)
