"""Hundreds of numbers that rounds found are in a table of their own."""

from alembic import op

from hushcall.server.db.schema import metadata, ranges

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add what is not there: step 1 makes the tables of today."""
    metadata.create_all(op.get_bind(), tables=[ranges], checkfirst=True)


def downgrade() -> None:
    metadata.drop_all(op.get_bind(), tables=[ranges], checkfirst=True)
