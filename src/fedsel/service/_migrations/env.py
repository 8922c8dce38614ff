"""How alembic runs the revisions: on the connection that `fedsel.service._store.migrate` opens."""

from alembic import context

context.configure(**context.config.attributes["options"])
context.run_migrations()
