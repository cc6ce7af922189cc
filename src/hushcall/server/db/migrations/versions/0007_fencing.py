"""A lease has a token that rises with each that takes it over: a worker that was held up cannot write any more."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the column; a database that was made by this release has it from the first step."""
    if "token" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("leases")}:
        op.add_column("leases", sa.Column("token", sa.BigInteger, nullable=False, server_default="0"))


def downgrade() -> None:
    """Leases without a fence."""
    with op.batch_alter_table("leases") as batch:
        batch.drop_column("token")
