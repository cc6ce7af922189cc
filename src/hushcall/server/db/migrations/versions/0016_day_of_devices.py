"""On which day a device last took part, where a day has several rounds."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add the column; a database that was made by this release has it from the first step."""
    if not _exists():
        op.add_column("devices", sa.Column("day", sa.Integer, nullable=False, server_default="0"))


def downgrade() -> None:
    """Drop it."""
    if _exists():
        op.drop_column("devices", "day")


def _exists() -> bool:
    return any(column["name"] == "day" for column in sa.inspect(op.get_bind()).get_columns("devices"))
