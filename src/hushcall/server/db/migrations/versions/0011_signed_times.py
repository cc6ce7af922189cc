"""The times of an anonymous round are signed as they were planned, whatever the clock makes of them."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
COLUMNS = ("opens", "collects", "closes")


def upgrade() -> None:
    """Add the columns; a database that was made by this release has them from the third step."""
    present = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("anonymity")}
    for name in COLUMNS:
        if name not in present:
            op.add_column("anonymity", sa.Column(name, sa.BigInteger))


def downgrade() -> None:
    """Times that nobody signs."""
    with op.batch_alter_table("anonymity") as batch:
        for name in COLUMNS:
            batch.drop_column(name)
