"""The list is stored by entry. Deltas to the next version start from the newest one only."""

import sqlalchemy as sa
from alembic import op

from hushcall.server.db.schema import entries, files, metadata, versions

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add what is not there: step 1 makes the tables of today."""
    connection = op.get_bind()
    metadata.create_all(connection, tables=[entries], checkfirst=True)
    if "block_rounds" not in {column["name"] for column in sa.inspect(connection).get_columns("versions")}:
        op.add_column("versions", sa.Column("block_rounds", sa.Integer))
    newest = connection.exec_driver_sql("SELECT version, data FROM versions ORDER BY version DESC LIMIT 1").first()
    if newest is None or newest.data is None:
        return
    header, *lines = bytes(newest.data).splitlines(keepends=True)
    rows = [{"number": line.split(b'"', 4)[3].decode(), "since": newest.version, "line": line} for line in lines]
    if rows:
        connection.execute(sa.insert(entries), rows)
    connection.exec_driver_sql("UPDATE versions SET data = NULL")
    update = sa.text("UPDATE versions SET data = :header WHERE version = :version")
    connection.execute(update, {"header": header, "version": newest.version})


def downgrade() -> None:
    connection, table, published = op.get_bind(), versions.c, files.c
    current = sa.select(entries.c.line).where(entries.c.until.is_(None)).order_by(entries.c.number)
    newest = connection.execute(sa.select(versions).order_by(table.version.desc()).limit(1)).first()
    if newest is not None and newest.data is not None:
        data = b"".join([newest.data, *connection.execute(current).scalars()])
        connection.execute(sa.update(versions).values(data=None))
        connection.execute(sa.update(versions).where(table.version == newest.version).values(data=data))
        place = published.path == f"targets/{newest.sha256}.blocklist.jsonl"
        connection.execute(sa.update(files).where(place).values(data=data))
        connection.execute(sa.delete(files).where(published.path.like("%.delta-%")))
    metadata.drop_all(connection, tables=[entries], checkfirst=True)
    with op.batch_alter_table("versions") as batch:
        batch.drop_column("block_rounds")
