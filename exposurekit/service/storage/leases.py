"""Work that is due, taken by one worker at a time. Knows rows, not what is done about them.

Whoever takes a row holds it for a while under a token of its own. If the worker dies, the lease runs out and the row
is taken again: what is done about a row must bear being done twice. Whoever finishes shows the token; a worker
that was away for too long finds that the row is no longer its own, and what it has to say is not kept.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, and_, bindparam, case, func, or_, select, update

from exposurekit.errors import ExposureError
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.tables import Instant


class LeaseLost(ExposureError):
    """Another worker has the row: this one took longer than its lease."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A row that is ours, for a while."""

    row_id: int
    token: str


async def acquire(work: Session, table: Table, *, limit: int, lasts: timedelta) -> list[Lease]:
    """The rows that are due longest, and nobody's; they are ours from now on."""
    now = work.clock.now()
    token = secrets.token_hex(16)
    free = _due(table, now).order_by(table.c.due_at, table.c.id).limit(limit)
    free = free.with_for_update(skip_locked=True)  # SQLite has one writer, and leaves this out
    # Two statements: PostgreSQL may run a subquery with a limit again for each row.
    rows = await work.all(free)
    ids = [int(row.id) for row in rows]
    if ids:
        held = {"lease": token, "lease_until": now + lasts}
        await work.run(update(table).where(table.c.id.in_(ids)).values(**held))
    return [Lease(row_id, token) for row_id in ids]


async def acquire_one(work: Session, table: Table, row_id: int, *, lasts: timedelta) -> Lease:
    """One row, due or not; for the transaction that has just made it."""
    token = secrets.token_hex(16)
    held = {"lease": token, "lease_until": work.clock.now() + lasts}
    await work.run(update(table).where(table.c.id == row_id).values(**held))
    return Lease(row_id, token)


async def assert_held(work: Session, table: Table, lease: Lease) -> None:
    """Make sure, until the end of the transaction, that the row is still ours.

    Raises:
        LeaseLost: It is not, or it is gone.
    """
    ours = and_(table.c.id == bindparam("row_id"), table.c.lease == bindparam("token"))
    statement = select(table.c.id).where(ours).with_for_update()
    if await work.first(statement, {"row_id": lease.row_id, "token": lease.token}) is None:
        raise LeaseLost("the work took longer than its lease, and somebody else has it now")


async def complete(
    work: Session, table: Table, lease: Lease, *, due_at: datetime | None, **changes: Any
) -> None:
    """The work is done, or for later.

    Raises:
        LeaseLost: The row is not ours any more.
    """
    await assert_held(work, table, lease)
    await clear(work, table, table.c.id == lease.row_id, due_at=due_at, **changes)


async def abandon(work: Session, table: Table, lease: Lease) -> None:
    """The work was not done: somebody else may do it at once. Nothing, where the row is not ours any more."""
    ours = and_(table.c.id == lease.row_id, table.c.lease == lease.token)
    await clear(work, table, ours)


async def clear(work: Session, table: Table, which: ColumnElement[bool], **changes: Any) -> int:
    """Rows are nobody's from now on, whoever had them; how many. When they are due stays, unless it is changed."""
    return await work.run(update(table).where(which).values(lease=None, lease_until=None, **changes))


async def any_due(work: Session, table: Table) -> bool:
    """Whether there is something to take; a look, which keeps nobody from writing."""
    return await work.first(_due(table, work.clock.now()).limit(1)) is not None


async def next_due(work: Session, tables: Sequence[Table]) -> datetime | None:
    """When something can be taken next: what is held, when its lease runs out; None: never."""
    found: list[datetime] = []
    for table in tables:
        held_longer = and_(table.c.lease_until.is_not(None), table.c.lease_until > table.c.due_at)
        free_at = case((held_longer, table.c.lease_until), else_=table.c.due_at)
        row = await work.first(select(func.min(free_at, type_=Instant)).where(table.c.due_at.is_not(None)))
        if row is not None and row[0] is not None:
            found.append(row[0])
    return min(found, default=None)


async def oldest_due(work: Session, table: Table) -> datetime | None:
    """Since when something has been due that nobody holds; None: nothing is."""
    row = await work.first(_due(table, work.clock.now()).with_only_columns(func.min(table.c.due_at)))
    return None if row is None else row[0]


async def counts(work: Session, table: Table) -> dict[str, int]:
    """How many rows are waiting for their time, due, and held by a worker."""
    now = work.clock.now()
    held = and_(table.c.lease_until.is_not(None), table.c.lease_until > now)
    asked = {
        "waiting": and_(table.c.due_at > now, ~func.coalesce(held, False)),
        "due": and_(table.c.due_at <= now, ~func.coalesce(held, False)),
        "held": held,
    }
    found = {
        name: await work.first(select(func.count()).where(condition)) for name, condition in asked.items()
    }
    return {name: int(row[0]) for name, row in found.items() if row is not None}


def _due(table: Table, now: datetime) -> Select[Any]:
    free = or_(table.c.lease_until.is_(None), table.c.lease_until <= now)
    return select(table.c.id).where(table.c.due_at <= now, free)
