"""Rounds in which phones may take part without a name: their keys, who has a token, the gateway's key."""

from importlib import import_module

from alembic import op

from hushcall.server.db.schema import anonymity, gateway_keys, issued

revision = "0003"
down_revision = "0002"
TABLES = (anonymity, issued, gateway_keys)


def upgrade() -> None:
    """Make the tables; a database that was made by this release has them from the first step.

    Step 2 once added less, or only these tables: what it adds today is added where it is missing.
    """
    import_module("hushcall.server.db.migrations.versions.0002_evidence").upgrade()
    for table in TABLES:
        table.create(op.get_bind(), checkfirst=True)


def downgrade() -> None:
    """Drop them."""
    for table in TABLES:
        table.drop(op.get_bind(), checkfirst=True)
