"""Check of a database: every encrypted value is decrypted, and SQLite's own check of the file."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, literal, select, text
from sqlalchemy.exc import DBAPIError

from exposurekit.service.storage import tables
from exposurekit.service.storage.database import DAMAGED, Session
from exposurekit.service.storage.encrypted_columns import encrypted_columns

_ROWS = 500  # at a time
_MESSAGES_MAX = 20  # of SQLite's check
_UNREADABLE = "cannot be read"


@dataclass(frozen=True, slots=True)
class Damage:
    """A row that is damaged; `row` and `user_id` are None if that is not known."""

    table: str
    row: int | None
    user_id: int | None
    problem: str


async def check(session: Session) -> tuple[int, list[Damage]]:
    """Return the number of encrypted values that were read, and what is damaged."""
    checked, damage = 0, await _check_file(session)
    for table, column, owner, purpose in encrypted_columns():
        last = -1
        purposes = literal(purpose) if isinstance(purpose, str) else purpose
        rows: Select[Any] = (
            select(table.c.id, owner, purposes, column).where(column.is_not(None)).order_by(table.c.id)
        )
        while True:
            try:
                page = await session.all(rows.where(table.c.id > last).limit(_ROWS))
            except DBAPIError:
                problem = f"{_UNREADABLE} after row {last}" if last >= 0 else _UNREADABLE
                damage.append(Damage(table.name, None, None, problem))
                break
            values = session.decrypt_readable([(row[2], row[1], row[3]) for row in map(tuple, page)])
            for row, value in zip(map(tuple, page), values, strict=True):
                if value is DAMAGED:
                    user_id = None if table is tables.integrators else row[1] or None  # 0: nobody's message
                    damage.append(Damage(table.name, row[0], user_id, f"{column.name} {_UNREADABLE}"))
            checked += len(page)
            if len(page) < _ROWS:
                break
            last = page[-1][0]
    return checked, damage


async def _check_file(session: Session) -> list[Damage]:
    """SQLite's own check; PostgreSQL has none that an ordinary user may run."""
    if await session.connection.run_sync(lambda connection: connection.dialect.name) != "sqlite":
        return []
    try:
        messages = [row[0] for row in await session.all(text(f"PRAGMA integrity_check({_MESSAGES_MAX})"))]
    except DBAPIError:
        messages = [_UNREADABLE]
    return [Damage("the file", None, None, message) for message in messages if message != "ok"]
