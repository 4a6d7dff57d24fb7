"""Scans that a request waits for. Begins none that is not due, and never outlives the service.

not shown: how long a scan may keep the caller of Create user waiting; ours is bounded, and the answer then says
``is_scanning``. The scan itself goes on.
"""

import asyncio
import time
from collections.abc import Iterable

from sqlalchemy import bindparam, select

from exposurekit.service.storage import leases
from exposurekit.service.storage.database import Database, Session
from exposurekit.service.storage.leases import Lease
from exposurekit.service.storage.tables import users
from exposurekit.service.worker import Worker

WAIT_S = 60
_LOOK_EVERY_S = 0.25
_SCANNING = select(users.c.is_scanning).where(users.c.id == bindparam("user_id"))


class ScanWaiter:
    """The scans of one service process: its own worker makes them, or, without one, another process does.

    Args:
        database: Where the people are.
        worker: Of this process; None: it has none.
        wait_s: How long a request waits.
    """

    def __init__(self, database: Database, worker: Worker | None = None, *, wait_s: float = WAIT_S) -> None:
        self._database = database
        self._worker = worker
        self._wait_s = wait_s
        self._running: dict[asyncio.Task[None], Lease] = {}

    async def take(self, session: Session, user_id: int) -> Lease | None:
        """The scan of a person who was just registered, before any other worker can have it; if there is room."""
        if self._worker is None or len(self._running) >= self._worker.scan_concurrency:
            return None
        return await leases.acquire_one(session, users, user_id, duration=self._worker.scan_lease_duration)

    async def wait_for(self, user_id: int, lease: Lease | None) -> None:
        """Until the scan is over, or so long that the caller has waited enough."""
        if self._worker is None:
            await self._watch(user_id)
            return
        if lease is None:
            return  # too many wait already: this one is told that the scan goes on
        if len(self._running) >= self._worker.scan_concurrency:  # others came between the taking and now
            await self._let_go([lease])
            return
        task = asyncio.create_task(self._worker.scan(lease))
        self._running[task] = lease
        task.add_done_callback(self._running.pop)
        await asyncio.wait([task], timeout=self._wait_s)

    async def close(self) -> None:
        """What is not over yet is for a worker."""
        left = dict(self._running)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if left:
            await self._let_go(left.values())

    async def _let_go(self, taken: Iterable[Lease]) -> None:
        """Scans that a worker may make at once."""
        async with self._database.writing() as session:
            for lease in taken:
                await leases.abandon(session, users, lease)

    async def _watch(self, user_id: int) -> None:
        until = time.monotonic() + self._wait_s
        while time.monotonic() < until:
            async with self._database.reading() as session:
                row = await session.first(_SCANNING, {"user_id": user_id})
            if row is None or not row.is_scanning:
                return
            await asyncio.sleep(_LOOK_EVERY_S)
