"""Rounds in which phones may take part without a name: their keys, who has a token, the gateway's key."""

from alembic import op

from hushcall.server.db.schema import anonymity, gateway_keys, issued

revision = "0003"
down_revision = "0002"
TABLES = (anonymity, issued, gateway_keys)


def upgrade() -> None:
    """Make the tables; a database that was made by this release has them from the first step."""
    for table in TABLES:
        table.create(op.get_bind(), checkfirst=True)


def downgrade() -> None:
    """Drop them."""
    for table in TABLES:
        table.drop(op.get_bind(), checkfirst=True)
