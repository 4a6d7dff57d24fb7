"""Create user waits here for its scan.

spec does not say: how long Create user may wait for the scan. Here the wait is bounded. If the scan could not begin in
that time, nobody is registered and the response is 503; if it began, the response says ``is_scanning`` and the scan goes
on.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from sqlalchemy import bindparam, select

from exposurekit.service.accounts import consent
from exposurekit.service.api.fair_slots import FairSlots, TooManyWait
from exposurekit.service.errors import ApiError
from exposurekit.service.storage import leases
from exposurekit.service.storage.database import DATABASE_ERRORS, Database, Session
from exposurekit.service.storage.leases import Lease
from exposurekit.service.storage.tables import users
from exposurekit.service.worker import Worker

WAIT_S = 60
RETRY_AFTER_S = 30
BUSY = (
    "no scan could start, so nobody was registered: try again later, or pass async=true; if this lasts, ask the operator "
    "whether a worker is running"
)
_POLL_EVERY_S = 0.25
WAITING_MAX = 100  # registrations of one integrator that wait for a slot
_SCAN = select(users.c.is_scanning, users.c.lease, users.c.due_at).where(users.c.id == bindparam("user_id"))


class ScanWaiter:
    """Waits for scans, which run in this process's worker or, without one, in another process."""

    def __init__(self, database: Database, worker: Worker | None = None, *, wait_s: float = WAIT_S) -> None:
        self.database = database
        self.worker = worker
        self._wait_s = wait_s
        slots = worker.scan_concurrency if worker else 0
        self._slots = FairSlots(slots, most=max(1, slots - 1), waiting_max=WAITING_MAX)
        self._running: dict[asyncio.Task[None], Lease] = {}
        # Registrations that wait for a worker in another process, by integrator.
        self._polling: Counter[int] = Counter()

    @asynccontextmanager
    async def turn(self, integrator_id: int) -> AsyncIterator["Turn"]:
        """Wait for a scan slot; without a worker in this process there is nothing to wait for.

        Raises `ApiError` 503 if no slot is free in time, or if `WAITING_MAX` registrations of the integrator wait already.
        """
        turn = Turn(self, time.monotonic() + self._wait_s)
        if self.worker is None:
            if self._polling[integrator_id] >= WAITING_MAX:
                raise busy()
            self._polling[integrator_id] += 1
            try:
                yield turn
            finally:
                self._polling[integrator_id] -= 1
            return
        try:
            async with asyncio.timeout(self._wait_s):
                await self._slots.acquire(integrator_id)
        except (TimeoutError, TooManyWait):
            raise busy() from None
        try:
            yield turn
        finally:
            if turn.scan is None or turn.scan.done():
                self._slots.release(integrator_id)
            else:  # the slot stays taken until the scan ends
                turn.scan.add_done_callback(lambda _: self._slots.release(integrator_id))

    def begin(self, worker: Worker, lease: Lease) -> asyncio.Task[None]:
        """Begin the scan of an acquired lease."""
        task = asyncio.create_task(worker.scan(lease))
        self._running[task] = lease
        task.add_done_callback(self._running.pop)
        return task

    async def close(self) -> None:
        """Cancel the running scans and release them for a worker."""
        running = dict(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        if running:
            async with self.database.writing() as session:
                for lease in running.values():
                    await leases.abandon(session, users, lease)


def busy() -> ApiError:
    """The error of a registration whose scan cannot begin."""
    return ApiError(503, BUSY, retry_after_s=RETRY_AFTER_S)


class Turn:
    """A registration's turn to scan."""

    def __init__(self, scans: ScanWaiter, until: float) -> None:
        self._scans = scans
        self._until = until  # by `time.monotonic`
        self.scan: asyncio.Task[None] | None = None

    async def acquire(self, session: Session, user_id: int) -> Lease | None:
        """Acquire the scan of a new user before another worker can; None: the worker is in another process."""
        worker = self._scans.worker
        if worker is None:
            return None
        return await leases.acquire_one(session, users, user_id, duration=worker.scan_lease_duration)

    async def wait_for(self, user_id: int, lease: Lease | None) -> None:
        """Wait until the scan ends, for what is left of the maximum time.

        Raises `ApiError` 503 if no worker of another process has started it; the user is erased first.
        """
        if lease is None or self._scans.worker is None:
            await self._poll(user_id)
            return
        self.scan = self._scans.begin(self._scans.worker, lease)
        await asyncio.wait([self.scan], timeout=max(0, self._until - time.monotonic()))

    async def _poll(self, user_id: int) -> None:
        database, due_at, is_started, is_over = self._scans.database, None, False, False
        while not is_over:
            is_over = time.monotonic() > self._until  # checked at least once
            with suppress(*DATABASE_ERRORS):
                async with database.reading() as session:
                    row = await session.first(_SCAN, {"user_id": user_id})
                if row is None or not row.is_scanning:
                    return
                due_at = due_at or row.due_at
                is_started |= row.lease is not None or row.due_at != due_at
            await asyncio.sleep(0 if is_over else _POLL_EVERY_S)
        if is_started or due_at is None:
            return
        async with database.writing() as session:
            row = await session.first(_SCAN.with_for_update(), {"user_id": user_id})
            if row is None or not row.is_scanning or row.lease is not None or row.due_at != due_at:
                return
            await consent.purge(session, user_id)
        raise busy()
