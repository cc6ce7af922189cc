"""On SQLite the index of a bucket's reports is without tickets: an upload writes to one place at random, not to two."""

from alembic import op

from hushcall.server.db.schema import reports

revision = "0009"
down_revision = "0008"
INDEX = next(index for index in reports.indexes if index.name == "reports_by_bucket")


def upgrade() -> None:
    """Make the index anew; step 1 makes that of today. PostgreSQL has its own, in which the ticket stays."""
    if op.get_bind().dialect.name == "sqlite":
        INDEX.drop(op.get_bind(), checkfirst=True)
        INDEX.create(op.get_bind())


def downgrade() -> None:
    """With the ticket again."""
    if op.get_bind().dialect.name == "sqlite":
        INDEX.drop(op.get_bind(), checkfirst=True)
        op.create_index("reports_by_bucket", "reports", ["round", "bucket", "ticket"])
