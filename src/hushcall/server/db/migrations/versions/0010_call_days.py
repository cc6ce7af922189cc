"""How many days back a reported call may be, apart from how many rounds a number stays on the list."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the column; a database that was made by this release has it from the first step."""
    if not _exists():
        op.add_column("rounds", sa.Column("call_days", sa.Integer, nullable=False, server_default="0"))


def downgrade() -> None:
    """Drop it."""
    if _exists():
        op.drop_column("rounds", "call_days")


def _exists() -> bool:
    return any(column["name"] == "call_days" for column in sa.inspect(op.get_bind()).get_columns("rounds"))
