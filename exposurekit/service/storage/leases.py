"""Leases: due rows, each acquired by one worker at a time.

A worker holds a row for a limited time under a random token. If the worker dies, the lease expires and another worker
acquires the row, so jobs must be idempotent. Completing a job checks the token: a worker whose lease has expired
cannot write its result.
"""

import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    Update,
    and_,
    bindparam,
    case,
    false,
    func,
    or_,
    select,
    true,
    update,
)

from exposurekit.errors import ExposureError
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.tables import Instant, integrators, users

OLDEST = 500  # due rows of users, among which integrators take turns
BEYOND_EVERY_S = 2.0  # of thousands of rows, a search beyond those takes some hundredths of a second


class LeaseLost(ExposureError):
    """The lease has expired and another worker has the row."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A row held by a worker."""

    row_id: int
    token: str
    integrator_id: int | None = None  # of a row that was acquired in turn


class Turns:
    """Whose turn it is: the waiting integrator with the fewest running rows; on a tie, the one served longest ago."""

    def __init__(self) -> None:
        self.running: Counter[int] = Counter()  # rows by integrator
        self._served: dict[int, int] = {}  # the number of each one's last turn
        self._n = 0
        self._beyond_at = 0.0

    def is_beyond_due(self) -> bool:
        """Return whether to search beyond the oldest rows now, which is at most every `BEYOND_EVERY_S`."""
        now = time.monotonic()
        if now < self._beyond_at:
            return False
        self._beyond_at = now + BEYOND_EVERY_S
        return True

    def shares(self, waiting: Sequence[int], n: int, more: Mapping[int, int]) -> Counter[int]:
        """Distribute ``n`` turns among those who wait; ``more`` counts the rows chosen already. Return the turns of each."""
        shares = Counter[int]()
        for _ in range(n):
            load = {one: self.running[one] + more.get(one, 0) + shares[one] for one in waiting}
            following = min(waiting, key=lambda one: (load[one], self._served.get(one, 0)))
            shares[following] += 1
            self._n += 1
            self._served[following] = self._n
        return shares


async def acquire(
    session: Session, table: Table, *, limit: int, duration: timedelta, turns: "Turns | None" = None
) -> list[Lease]:
    """Acquire the free rows that have been due longest.

    With ``turns``, integrators take turns; ``table`` then has an ``integrator_id`` or a ``user_id``.
    """
    now = session.clock.now()
    token = secrets.token_hex(16)
    owners: dict[int, int | None] = {}  # by row
    if turns is None:
        rows = await session.all(_oldest(table, now, limit))
        owners = {int(row.id): None for row in rows}
    else:
        in_turn = _in_turn if "integrator_id" in table.c else _oldest_in_turn
        for integrator_id, ids in (await in_turn(session, table, now, limit, turns)).items():
            owners |= dict.fromkeys(ids, integrator_id)
    if owners:
        lease = {"lease": token, "lease_until": now + duration}
        await session.run(update(table).where(table.c.id.in_(owners)).values(**lease))
    return [Lease(row_id, token, owner) for row_id, owner in owners.items()]


async def _in_turn(
    session: Session, table: Table, now: datetime, limit: int, turns: "Turns"
) -> dict[int, list[int]]:
    """Choose free rows of each integrator, as their turns come."""
    is_next = _due(table, now).where(table.c.integrator_id == integrators.c.id).exists()
    waiting = [int(row.id) for row in await session.all(select(integrators.c.id).where(is_next))]
    chosen: dict[int, list[int]] = {integrator_id: [] for integrator_id in waiting}
    while waiting and limit > 0:
        shares = turns.shares(waiting, limit, {one: len(ids) for one, ids in chosen.items()})
        for integrator_id, share in shares.items():
            free = _oldest(table, now, share).where(table.c.integrator_id == integrator_id)
            rows = await session.all(free.where(table.c.id.not_in(chosen[integrator_id])))
            chosen[integrator_id] += [int(row.id) for row in rows]
            limit -= len(rows)
            if len(rows) < share:
                waiting.remove(integrator_id)
    return chosen


async def _oldest_in_turn(
    session: Session, table: Table, now: datetime, limit: int, turns: "Turns"
) -> dict[int, list[int]]:
    """Choose free rows of each integrator's users, as their turns come, among the `OLDEST`.

    No index has them by integrator. So if one has more waiting than that, rows of the others are searched for now and then.
    """
    oldest = _due(table, now).join(users, users.c.id == table.c.user_id).add_columns(users.c.integrator_id)
    oldest = oldest.order_by(table.c.due_at, table.c.id).limit(OLDEST)
    rows = [*await session.all(oldest)]
    if len(rows) == OLDEST and turns.is_beyond_due():
        present = {row.integrator_id for row in rows}
        rows += await session.all(oldest.where(users.c.integrator_id.not_in(present)))
    waiting: dict[int, list[int]] = {}
    for row in rows:
        waiting.setdefault(row.integrator_id, []).append(row.id)
    chosen: dict[int, list[int]] = {integrator_id: [] for integrator_id in waiting}
    while waiting and limit > 0:
        shares = turns.shares([*waiting], limit, {one: len(ids) for one, ids in chosen.items()})
        following = {one: waiting[one][:share] for one, share in shares.items()}
        waiting = {one: left for one, ids in waiting.items() if (left := ids[shares[one] :])}
        free = await _lock(session, table, now, [row_id for ids in following.values() for row_id in ids])
        for integrator_id, ids in following.items():
            chosen[integrator_id] += [row_id for row_id in ids if row_id in free]
        limit -= len(free)
    return chosen


async def _lock(session: Session, table: Table, now: datetime, ids: Sequence[int]) -> set[int]:
    """Lock free rows. Return those that no other worker is acquiring."""
    free = _due(table, now).where(table.c.id.in_(ids)).with_for_update(skip_locked=True)
    return {int(row.id) for row in await session.all(free)}


def _oldest(table: Table, now: datetime, limit: int) -> Select[Any]:
    free = _due(table, now).order_by(table.c.due_at, table.c.id).limit(limit)
    return free.with_for_update(skip_locked=True)  # SQLite has one writer and ignores this


async def acquire_one(session: Session, table: Table, row_id: int, *, duration: timedelta) -> Lease:
    """Acquire one row, due or not; for the transaction that has just created it."""
    token = secrets.token_hex(16)
    lease = {"lease": token, "lease_until": session.clock.now() + duration}
    await session.run(_change(table), lease | {"row_id": row_id})
    return Lease(row_id, token)


async def is_current(session: Session, table: Table, lease: Lease) -> bool:
    """Return whether the lease is still held."""
    return bool(await session.rows(_lease_row(table), {"row_id": lease.row_id, "token": lease.token}))


async def assert_held(session: Session, table: Table, lease: Lease) -> None:
    """Lock the row of the lease until the end of the transaction; raises `LeaseLost` if it is no longer held."""
    if await session.first(_lock_lease(table), {"row_id": lease.row_id, "token": lease.token}) is None:
        raise LeaseLost("the lease expired: another worker has the row")


async def complete(
    session: Session, table: Table, lease: Lease, *, due_at: datetime | None, **changes: Any
) -> None:
    """Release the row after the job, with changes and the time of the next one (None: never)."""
    await assert_held(session, table, lease)
    released = {"lease": None, "lease_until": None, "due_at": due_at, **changes}
    await session.run(_change(table), released | {"row_id": lease.row_id})


async def abandon(session: Session, table: Table, lease: Lease) -> None:
    """Release the row without doing the job, so that another worker can acquire it at once; no-op if the lease is lost."""
    await clear(session, table, and_(table.c.id == lease.row_id, table.c.lease == lease.token))


async def clear(session: Session, table: Table, condition: ColumnElement[bool], **changes: Any) -> int:
    """Remove the leases of rows regardless of holder, and apply changes. Return the number of rows."""
    return await session.run(update(table).where(condition).values(lease=None, lease_until=None, **changes))


@dataclass(frozen=True, slots=True)
class Correction:
    """How many rows were corrected, and by how much the clock was ahead at least."""

    rows: int
    ahead: timedelta


@dataclass(frozen=True, slots=True)
class Bounds:
    """The latest plausible due time and lease of a table's rows; anything later was set by a clock that was ahead."""

    table: Table
    due_within: timedelta
    duration: timedelta
    condition: ColumnElement[bool] = field(default_factory=true)  # which of its rows

    async def are_exceeded(self, session: Session) -> bool:
        """Return whether a row exceeds them."""
        late, leased = self._conditions(session.clock.now())
        return await session.first(select(self.table.c.id).where(or_(late, leased)).limit(1)) is not None

    async def enforce(self, session: Session) -> Correction:
        """Make rows due now that are due too late, and free those that are leased for too long."""
        now = session.clock.now()
        late, leased = self._conditions(now)
        latest = select(
            func.max(self.table.c.due_at, type_=Instant).filter(late),
            func.max(self.table.c.lease_until, type_=Instant).filter(leased),
        )
        [row] = await session.all(latest.where(or_(late, leased)))
        excess = zip(tuple(row), (self.due_within, self.duration), strict=True)
        ahead = [at - now - plausible for at, plausible in excess if at is not None]
        freed = await clear(session, self.table, leased)
        postponed = await session.run(update(self.table).where(late).values(due_at=now))
        return Correction(freed + postponed, max(ahead, default=timedelta()))

    def _conditions(self, now: datetime) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
        columns = self.table.c
        late, leased = columns.due_at > now + self.due_within, columns.lease_until > now + self.duration
        return and_(self.condition, late), and_(self.condition, leased)


async def any_due(session: Session, table: Table) -> bool:
    """Return whether a row can be acquired."""
    return await session.first(_any_due(table), {"now": session.clock.now()}) is not None


async def next_due(session: Session, tables: Sequence[Table]) -> datetime | None:
    """Return when a row can be acquired next (a leased one, when its lease expires); None: never."""
    instants: list[datetime] = []
    for table in tables:
        row = await session.first(_next_due(table))
        if row is not None and row[0] is not None:
            instants.append(row[0])
    return min(instants, default=None)


async def oldest_due(session: Session, table: Table) -> datetime | None:
    """Return since when the longest-waiting free row has been due; None: no row is due."""
    row = await session.first(_due(table, session.clock.now()).with_only_columns(func.min(table.c.due_at)))
    return None if row is None else row[0]


async def counts(session: Session, table: Table) -> dict[str, int]:
    """Count rows that are due later, due now, and leased by a worker.

    Only the index of due times is read, and the rows that are due; a leased row is one of those.
    """
    now = session.clock.now()
    later = select(func.count()).where(table.c.due_at > now)
    is_leased = func.coalesce(table.c.lease_until > now, false())
    counted = (func.count().filter(~is_leased).label("due"), func.count().filter(is_leased).label("leased"))
    [waiting] = await session.all(later)
    [row] = await session.all(select(*counted).where(table.c.due_at <= now))
    return {"waiting": waiting[0], "due": row.due, "leased": row.leased}


@cache  # asked before every request to a site
def _lease_row(table: Table) -> Select[int]:
    return select(table.c.id).where(table.c.id == bindparam("row_id"), table.c.lease == bindparam("token"))


@cache
def _lock_lease(table: Table) -> Select[int]:
    return _lease_row(table).with_for_update()


@cache
def _change(table: Table) -> Update:
    return update(table).where(table.c.id == bindparam("row_id"))


@cache  # asked after every job
def _any_due(table: Table) -> Select[Any]:
    return _due(table, bindparam("now", type_=Instant)).limit(1)


@cache
def _next_due(table: Table) -> Select[Any]:
    leased_longer = and_(table.c.lease_until.is_not(None), table.c.lease_until > table.c.due_at)
    free_at = case((leased_longer, table.c.lease_until), else_=table.c.due_at)
    return select(func.min(free_at, type_=Instant)).where(table.c.due_at.is_not(None))


def _due(table: Table, now: datetime | ColumnElement[datetime]) -> Select[Any]:
    free = or_(table.c.lease_until.is_(None), table.c.lease_until <= now)
    return select(table.c.id).where(table.c.due_at <= now, free)
