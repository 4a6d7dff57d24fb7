"""Create user waits here for its scan.

spec does not say: how long Create user may wait for the scan. Here the wait is bounded; after it the response says
``is_scanning`` and the scan goes on.
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
_POLL_EVERY_S = 0.25
_SCANNING = select(users.c.is_scanning).where(users.c.id == bindparam("user_id"))


class ScanWaiter:
    """Waits for scans, which run in this process's worker or, without one, in another process."""

    def __init__(self, database: Database, worker: Worker | None = None, *, wait_s: float = WAIT_S) -> None:
        self._database = database
        self._worker = worker
        self._wait_s = wait_s
        self._running: dict[asyncio.Task[None], Lease] = {}

    async def acquire(self, session: Session, user_id: int) -> Lease | None:
        """Acquire the scan of a new user before another worker can; None: no free slot, or no worker."""
        if self._worker is None or len(self._running) >= self._worker.scan_concurrency:
            return None
        return await leases.acquire_one(session, users, user_id, duration=self._worker.scan_lease_duration)

    async def wait_for(self, user_id: int, lease: Lease | None) -> None:
        """Wait until the scan ends, for at most the maximum time."""
        if self._worker is None:
            await self._poll(user_id)
            return
        if lease is None:
            return  # no free slot: the response says that the scan goes on
        if len(self._running) >= self._worker.scan_concurrency:  # others took the slots in between
            await self._abandon([lease])
            return
        task = asyncio.create_task(self._worker.scan(lease))
        self._running[task] = lease
        task.add_done_callback(self._running.pop)
        await asyncio.wait([task], timeout=self._wait_s)

    async def close(self) -> None:
        """Cancel the running scans and release them for a worker."""
        running = dict(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        if running:
            await self._abandon(running.values())

    async def _abandon(self, acquired: Iterable[Lease]) -> None:
        """Release scans, so that a worker can run them at once."""
        async with self._database.writing() as session:
            for lease in acquired:
                await leases.abandon(session, users, lease)

    async def _poll(self, user_id: int) -> None:
        until = time.monotonic() + self._wait_s
        while time.monotonic() < until:
            async with self._database.reading() as session:
                row = await session.first(_SCANNING, {"user_id": user_id})
            if row is None or not row.is_scanning:
                return
            await asyncio.sleep(_POLL_EVERY_S)
