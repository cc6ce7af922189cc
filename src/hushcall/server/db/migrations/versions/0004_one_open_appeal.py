"""A number has one open appeal: of those that were opened at the same moment the first one stays open."""

import sqlalchemy as sa
from alembic import op

from hushcall.server.db.schema import appeals

revision = "0004"
down_revision = "0003"
INDEX = next(index for index in appeals.indexes if index.name == "appeals_open")


def upgrade() -> None:
    """Close the later ones, then say it to the database; step 1 makes the tables of today."""
    first = sa.select(sa.func.min(appeals.c.id)).where(appeals.c.closed.is_(None)).group_by(appeals.c.number)
    later = appeals.c.closed.is_(None) & appeals.c.id.not_in(first)
    values = {"closed": appeals.c.at, "closed_why": "the same number was appealed at the same moment"}
    op.get_bind().execute(sa.update(appeals).where(later).values(**values))
    INDEX.create(op.get_bind(), checkfirst=True)


def downgrade() -> None:
    """Let duplicates be."""
    INDEX.drop(op.get_bind(), checkfirst=True)
