"""Findings say over how many rounds they may block, and whether a hint made them; a round keeps its hints."""

import sqlalchemy as sa
from alembic import op

from hushcall.server.db.schema import hints, metadata

revision = "0012"
down_revision = "0011"
_NEW = ("strict", "hinted")


def upgrade() -> None:
    """Add what is not there: step 1 makes the tables of today. Findings of one tier passed the strict rule."""
    metadata.create_all(op.get_bind(), tables=[hints], checkfirst=True)
    known = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("hitters")}
    for name in _NEW:
        if name not in known:
            op.add_column("hitters", sa.Column(name, sa.Integer, nullable=False, server_default="0"))
    if "strict" not in known:
        op.execute("UPDATE hitters SET strict = length")


def downgrade() -> None:
    metadata.drop_all(op.get_bind(), tables=[hints], checkfirst=True)
    with op.batch_alter_table("hitters") as batch:
        for name in _NEW:
            batch.drop_column(name)
