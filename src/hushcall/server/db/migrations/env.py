"""Alembic's entry: the store hands over an open connection, so that a migration is part of starting up."""

from alembic import context

from hushcall.server.db.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
