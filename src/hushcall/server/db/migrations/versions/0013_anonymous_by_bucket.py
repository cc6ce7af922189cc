"""The anonymous participants of a round are counted by bucket."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Rounds of before were not counted so."""
    if "anonymous" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("buckets")}:
        op.add_column("buckets", sa.Column("anonymous", sa.Integer))


def downgrade() -> None:
    op.drop_column("buckets", "anonymous")
