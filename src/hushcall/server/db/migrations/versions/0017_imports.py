"""Imported complaints, apart from what rounds find."""

from alembic import op

from hushcall.server.db.schema import imported, imports, metadata

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add what is not there: step 1 makes the tables of today."""
    metadata.create_all(op.get_bind(), tables=[imports, imported], checkfirst=True)


def downgrade() -> None:
    metadata.drop_all(op.get_bind(), tables=[imported, imports], checkfirst=True)
