"""Database migrations: numbered steps that upgrade an older database to this version.

Alembic's operations run in order in one transaction. A new step is a file in ``versions/`` with the next number; a
released step never changes. A new database gets the tables of ``tables.py`` without the steps, and
tests/service/storage/test_migrations.py checks that the steps lead to the same. The process-wide ``alembic.op`` is not
used, because two databases may be opened at once.
"""

from pathlib import Path

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    insert,
    inspect,
    text,
)

from exposurekit.errors import ConfigurationError
from exposurekit.service.storage import tables

REVISIONS = FIRST, *_, NEWEST = tuple(f"{number:04}" for number in range(1, 12))
# As Alembic creates it.
_VERSION_TABLE = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
_VERSIONS = text("SELECT version_num FROM alembic_version")
_ONE_AT_A_TIME = text("SELECT pg_advisory_xact_lock(7249130582)")  # an arbitrary lock number


def is_newest(connection: Connection) -> bool:
    """Return whether the database is up to date; only reads. Raises `ConfigurationError` if a newer version made it."""
    return _version(connection) == NEWEST


def migrate(connection: Connection) -> None:
    """Upgrade the tables to the newest version, or create them.

    Two processes may try at once: SQLite has one writer, and on PostgreSQL the second waits for the first.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(_ONE_AT_A_TIME)
    version = _version(connection)
    if version == NEWEST:
        return
    if version is None and inspect(connection).has_table("marks"):
        version = FIRST  # created before migrations existed
    if version is None:
        _create(connection)
    else:
        _upgrade(connection, version)


def _create(connection: Connection) -> None:
    """Create the tables at once: a tenth of the time that the steps take."""
    _VERSION_TABLE.create(connection, checkfirst=True)
    tables.metadata.create_all(connection, checkfirst=False)
    connection.execute(insert(_VERSION_TABLE).values(version_num=NEWEST))


def _upgrade(connection: Connection, version: str) -> None:
    # Imported here: it takes a fifth of the time in which a service starts.
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    context = MigrationContext.configure(connection)
    steps = ScriptDirectory(str(Path(__file__).parent))
    for step in reversed(list(steps.iterate_revisions(NEWEST, version))):
        step.module.upgrade(Operations(context))
    context.stamp(steps, NEWEST)


def _version(connection: Connection) -> str | None:
    has_versions = inspect(connection).has_table("alembic_version")
    heads = connection.scalars(_VERSIONS).all() if has_versions else []
    if len(heads) > 1 or any(head not in REVISIONS and head < NEWEST for head in heads):
        raise ConfigurationError("the database has an unknown schema version", fix="restore it from a backup")
    version = heads[0] if heads else None
    if version is not None and version > NEWEST:
        raise ConfigurationError(
            "the database was created by a newer version of exposurekit", fix="upgrade exposurekit"
        )
    return version
