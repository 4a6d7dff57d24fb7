"""Create user waits here for its scan.

spec does not say: how long Create user may wait for the scan. Here the wait is bounded. If the scan could not begin in
that time, nobody is registered and the response is 503; if it began, the response says ``is_scanning`` and the scan goes
on.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from sqlalchemy import bindparam, select

from exposurekit.service.errors import ApiError
from exposurekit.service.storage import leases
from exposurekit.service.storage.database import Database, Session
from exposurekit.service.storage.leases import Lease
from exposurekit.service.storage.tables import users
from exposurekit.service.worker import Worker

WAIT_S = 60
RETRY_AFTER_S = 30
BUSY = "all scans are busy, and nobody was registered: try again, or pass async=true"
_POLL_EVERY_S = 0.25
_SCANNING = select(users.c.is_scanning).where(users.c.id == bindparam("user_id"))


class ScanWaiter:
    """Waits for scans, which run in this process's worker or, without one, in another process."""

    def __init__(self, database: Database, worker: Worker | None = None, *, wait_s: float = WAIT_S) -> None:
        self._database = database
        self._worker = worker
        self._wait_s = wait_s
        self._slots = FairSlots(worker.scan_concurrency if worker else 0)
        self._running: dict[asyncio.Task[None], Lease] = {}

    @asynccontextmanager
    async def turn(self, integrator_id: int) -> AsyncIterator["Turn"]:
        """Wait until a scan for the integrator may begin; raises `ApiError` 503 if that takes longer than the maximum.

        Integrators wait in turn: one with many registrations does not delay those of the others.
        """
        turn = Turn(self, time.monotonic() + self._wait_s)
        if self._worker is None:
            yield turn
            return
        try:
            async with asyncio.timeout(self._wait_s):
                await self._slots.acquire(integrator_id)
        except TimeoutError:
            raise ApiError(503, BUSY, retry_after_s=RETRY_AFTER_S) from None
        scan = None
        try:
            yield turn
            scan = turn.scan
        finally:
            if scan is None or scan.done():
                self._slots.release(integrator_id)
            else:  # the slot stays taken until the scan ends
                scan.add_done_callback(lambda _: self._slots.release(integrator_id))

    async def acquire(self, session: Session, user_id: int) -> Lease | None:
        """Acquire the scan of a new user before another worker can; None: the worker is in another process."""
        if self._worker is None:
            return None
        return await leases.acquire_one(session, users, user_id, duration=self._worker.scan_lease_duration)

    def begin(self, lease: Lease) -> asyncio.Task[None]:
        """Begin the scan of an acquired lease."""
        assert self._worker is not None  # noqa: S101  `acquire` returned a lease
        task = asyncio.create_task(self._worker.scan(lease))
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
            await self._abandon(running.values())

    async def _abandon(self, acquired: Iterable[Lease]) -> None:
        """Release scans, so that a worker can run them at once."""
        async with self._database.writing() as session:
            for lease in acquired:
                await leases.abandon(session, users, lease)

    async def poll(self, user_id: int, until: float) -> None:
        """Wait for a scan that runs in another process."""
        while time.monotonic() < until:
            async with self._database.reading() as session:
                row = await session.first(_SCANNING, {"user_id": user_id})
            if row is None or not row.is_scanning:
                return
            await asyncio.sleep(_POLL_EVERY_S)


class Turn:
    """A registration's turn to scan."""

    def __init__(self, scans: ScanWaiter, until: float) -> None:
        self._scans = scans
        self._until = until  # by `time.monotonic`
        self.scan: asyncio.Task[None] | None = None

    async def acquire(self, session: Session, user_id: int) -> Lease | None:
        """As `ScanWaiter.acquire`, in the transaction that creates the user."""
        return await self._scans.acquire(session, user_id)

    async def wait_for(self, user_id: int, lease: Lease | None) -> None:
        """Wait until the scan ends, for what is left of the maximum time."""
        if lease is None:
            await self._scans.poll(user_id, self._until)
            return
        self.scan = self._scans.begin(lease)
        await asyncio.wait([self.scan], timeout=max(0, self._until - time.monotonic()))


class FairSlots:
    """A number of slots. A free one goes to the owner who holds fewest, of those who wait, in order of arrival."""

    def __init__(self, n: int) -> None:
        self._free = n
        self._taken: Counter[int] = Counter()
        self._waiting: dict[int, deque[asyncio.Future[None]]] = {}

    async def acquire(self, owner: int) -> None:
        """Take a slot, or wait for one."""
        if self._free:
            self._take(owner)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # its turn came meanwhile
                self.release(owner)
            else:
                self._forget(owner, turn)
            raise

    def release(self, owner: int) -> None:
        """Give a slot back."""
        self._free += 1
        self._taken[owner] -= 1
        if not self._taken[owner]:
            del self._taken[owner]
        if self._waiting:
            following = min(self._waiting, key=lambda waiting: self._taken[waiting])
            turn = self._waiting[following][0]
            self._forget(following, turn)
            self._take(following)
            turn.set_result(None)

    def _take(self, owner: int) -> None:
        self._free -= 1
        self._taken[owner] += 1

    def _forget(self, owner: int, turn: asyncio.Future[None]) -> None:
        """Drop a turn from the queue; the others of this owner queue behind the other owners."""
        others = self._waiting.pop(owner)
        others.remove(turn)
        if others:
            self._waiting[owner] = others
