"""How a database made by an earlier version becomes one of this version: steps that are never changed again.

Alembic's operations make them, in order, in one transaction. A new step is a file in ``versions/`` with the next
number; tests/test_migrations.py says whether the steps lead to what ``tables.py`` declares. Nothing here goes through
what Alembic keeps for the whole process (``alembic.op``): two databases may be opened at once.
"""

from pathlib import Path

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from exposurekit.errors import ConfigurationError

REVISIONS = FIRST, *_, NEWEST = "0001", "0002", "0003"
_ONE_AT_A_TIME = text("SELECT pg_advisory_xact_lock(7249130582)")  # any number that nobody else takes


def is_newest(connection: Connection) -> bool:
    """Whether there is nothing to bring up to date; a look, which keeps nobody from writing.

    Raises:
        ConfigurationError: A later version of exposurekit made the database.
    """
    return _version(MigrationContext.configure(connection)) == NEWEST


def migrate(connection: Connection) -> None:
    """Bring the tables to the newest version; nothing, where they are.

    Two processes may try at once: SQLite has one writer, and on PostgreSQL the second waits for the first.

    Raises:
        ConfigurationError: A later version of exposurekit made the database.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(_ONE_AT_A_TIME)
    context = MigrationContext.configure(connection)
    version = _version(context)
    if version == NEWEST:
        return
    if version is None and inspect(connection).has_table("marks"):
        version = FIRST  # made before there were steps
    steps = ScriptDirectory(str(Path(__file__).parent))
    for step in reversed(list(steps.iterate_revisions(NEWEST, version or "base"))):
        step.module.upgrade(Operations(context))
    context.stamp(steps, NEWEST)


def _version(context: MigrationContext) -> str | None:
    heads = context.get_current_heads()
    if len(heads) > 1 or any(head not in REVISIONS and head < NEWEST for head in heads):
        raise ConfigurationError(
            "this database says of itself versions that never were: restore it from a copy"
        )
    version = heads[0] if heads else None
    if version is not None and version > NEWEST:
        raise ConfigurationError(
            "this database was made by a later version of exposurekit: upgrade to that one"
        )
    return version
