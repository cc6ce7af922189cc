"""The first schema."""

from alembic import op

from hushcall.server.db.schema import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables. A later step that changes one of them spells out here what it was."""
    metadata.create_all(op.get_bind())


def downgrade() -> None:
    """Drop them."""
    metadata.drop_all(op.get_bind())
