"""What operators did, and when."""

from alembic import op

from hushcall.server.db.schema import audit

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the table; a database that was made by this release has it from the first step."""
    audit.create(op.get_bind(), checkfirst=True)


def downgrade() -> None:
    """Drop it."""
    audit.drop(op.get_bind(), checkfirst=True)
