"""Sessions that operators ended: a cookie that was copied is worth nothing after its owner logged out."""

from alembic import op

from hushcall.server.db.schema import ended_sessions

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the table; a database that was made by this release has it from the first step."""
    ended_sessions.create(op.get_bind(), checkfirst=True)


def downgrade() -> None:
    """Drop it."""
    ended_sessions.drop(op.get_bind(), checkfirst=True)
