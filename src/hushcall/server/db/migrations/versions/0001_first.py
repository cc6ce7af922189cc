"""The first schema."""

from alembic import op

from hushcall.server.db.schema import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables as they are today: later steps find nothing left to do on a new database."""
    metadata.create_all(op.get_bind())


def downgrade() -> None:
    """Drop them."""
    metadata.drop_all(op.get_bind())
