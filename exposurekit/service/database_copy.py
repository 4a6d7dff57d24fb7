"""Copy of a database into an empty one, on SQLite or PostgreSQL: one snapshot, written in one transaction.

Both have the same key. Ids stay the same, and those that were deleted are not used again.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Table, and_, func, insert, select, text, true

from exposurekit.errors import ConfigurationError
from exposurekit.service import audit, workers
from exposurekit.service.audit import Action
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import DATABASE_ERRORS, Database, Session

COMMAND = "service copy"
_ROWS = 500  # at a time
_NOT_COPIED = and_(  # the key, which both have, and the workers
    tables.service_metadata.c.name != "key fingerprint",
    ~tables.service_metadata.c.name.startswith(workers.PREFIX),
)


async def copy(
    source: Database,
    target: Database,
    *,
    actor: str,
    on_progress: Callable[[float], object] = lambda _: None,
) -> int:
    """Copy every row from an open database to another, and record it in the target's audit log. Return how many.

    `on_progress` gets the fraction that is copied.

    Raises:
        ConfigurationError: A worker runs on the source, the target is not empty, or one of them cannot be used. The
            target is unchanged then.
    """
    async with source.reading() as reading:
        if (await workers.count(reading)).running:
            raise ConfigurationError(
                "a worker runs on the database: stop serve and every worker, which may take 150 seconds after a kill"
            )
        expected = {table.name: await _count(reading, table) for table in _tables()}
        total = sum(expected.values())
        try:
            async with target.writing() as writing:
                await _lock(writing)
                await _assert_empty(writing)
                copied = 0
                for table in _tables():
                    async for rows in _pages(source, reading, table):
                        await writing.run(insert(table), rows)
                        copied += len(rows)
                        on_progress(copied / total)
                    await _set_last_id(writing, table, await _last_id(reading, table))
                counts = {table.name: await _count(writing, table) for table in _tables()}
                if wrong := [name for name in expected if expected[name] != counts[name]]:
                    raise ConfigurationError(f"the copy lacks rows and was discarded: {', '.join(wrong)}")
                await audit.append(writing, Action(COMMAND, details={"rows": total}), actor=actor)
        except DATABASE_ERRORS as error:
            problem = target.explain(error)
        else:
            return total
    raise ConfigurationError(f"nothing was copied, the target cannot be used: {problem}")


def _tables() -> list[Table]:
    """Return the tables, each after those that it refers to."""
    return tables.metadata.sorted_tables


def _condition(table: Table) -> ColumnElement[bool]:
    return _NOT_COPIED if table is tables.service_metadata else true()


async def _count(session: Session, table: Table) -> int:
    [row] = await session.all(select(func.count()).select_from(table).where(_condition(table)))
    return int(row[0])


async def _pages(source: Database, reading: Session, table: Table) -> AsyncIterator[list[Mapping[str, Any]]]:
    """Yield the rows of a table in order of its key, without leases: the workers that had them have ended."""
    [key] = table.primary_key.columns
    rows = select(table).where(_condition(table)).order_by(key).limit(_ROWS)
    free = {name: None for name in ("lease", "lease_until") if name in table.c}
    statement = rows
    while True:
        try:
            page = [dict(row._mapping) for row in await reading.all(statement)]  # noqa: SLF001  SQLAlchemy's public name
        except DATABASE_ERRORS as error:
            problem = source.explain(error)
        else:
            if page:
                yield [row | free for row in page]
            if len(page) < _ROWS:
                return
            statement = rows.where(key > page[-1][key.name])
            continue
        raise ConfigurationError(f"nothing was copied, the database cannot be read: {problem}")


async def _assert_empty(writing: Session) -> None:
    for table in _tables():
        if await _count(writing, table):
            raise ConfigurationError(
                "the target contains data, and a copy needs an empty database: create another one"
            )


async def _lock(writing: Session) -> None:
    """Keep every other process out until the copy is complete; SQLite has one writer anyway."""
    if await writing.dialect() == "postgresql":
        names = ", ".join(table.name for table in _tables())
        await writing.run(text(f"LOCK TABLE {names}"))


async def _last_id(reading: Session, table: Table) -> int:
    """Return the last id that a table has issued, perhaps of a row that was deleted; 0: none, or it issues none."""
    if not _issues_ids(table):
        return 0
    if await reading.dialect() == "sqlite":
        row = await reading.first(
            text("SELECT seq FROM sqlite_sequence WHERE name = :name"), {"name": table.name}
        )
    else:
        row = await reading.first(text(f"SELECT last_value FROM {table.name}_id_seq WHERE is_called"))  # noqa: S608
    return 0 if row is None else int(row[0])


async def _set_last_id(writing: Session, table: Table, last_id: int) -> None:
    if not last_id:
        return
    values = {"name": table.name, "last": last_id}
    if await writing.dialect() == "postgresql":
        await writing.first(text("SELECT setval(pg_get_serial_sequence(:name, 'id'), :last)"), values)
        return
    changed = text("UPDATE sqlite_sequence SET seq = :last WHERE name = :name")
    if not await writing.run(changed, values):  # every row of the table was deleted
        await writing.run(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)"), values)


def _issues_ids(table: Table) -> bool:
    return "id" in table.c and table.c.id.autoincrement is True
