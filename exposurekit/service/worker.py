"""What is due, done: scans, removals, deliveries. Takes rows by lease; decides nothing about what they need.

A worker may be stopped, or killed, at any moment: what it had taken is taken again when the lease runs out. Several
may run on one PostgreSQL; on SQLite the service runs one inside itself.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Table

from exposurekit.service.http.client import FetchError, ForbiddenAddress, Outbound
from exposurekit.service.scanning.politeness import PoliteFetcher
from exposurekit.service.scanning.removal_job import remove
from exposurekit.service.scanning.scan import ScanContext, scan
from exposurekit.service.scanning.websearch import Engine
from exposurekit.service.sites.definition import Definition
from exposurekit.service.storage import leases, tables
from exposurekit.service.storage.database import DATABASE_ERRORS, Database
from exposurekit.service.storage.leases import Lease, LeaseLost
from exposurekit.service.webhooks import outbox

ATTEMPT_S = 15  # not shown: how long an integrator may take; ours
KEEP_DELIVERED = timedelta(days=90)
TIDY_EVERY_S = 3600
FILL_AFTER_S = 0.2
AFTER_FAULT = timedelta(hours=6)
EVERYWHERE = ("0.0.0.0/0", "::/0")
_log = logging.getLogger("exposurekit.service")


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """How much at once, how long at most, and how often to look for more.

    A lease lasts longer than what is done under it may take: `seconds` ends that.
    """

    scans: int = 8
    removals: int = 8
    deliveries: int = 32
    scan_s: float = 600
    removal_s: float = 600
    delivery_s: float = ATTEMPT_S + 5
    idle_s: float = 1.0
    spare: timedelta = timedelta(seconds=30)  # by which a lease outlasts its work


@dataclass(frozen=True, slots=True)
class _JobType:
    """One kind of work."""

    name: str
    table: Table
    concurrency: int
    seconds: float
    do: Callable[[Lease], Awaitable[None]]


def create_worker(
    database: Database,
    *,
    definitions: Mapping[str, Definition] | None = None,
    search_engine: str | None = None,
    callback_networks: Iterable[str] = (),
    pace: WorkerConfig | None = None,
) -> "Worker":
    """A worker as an operator wants one.

    Args:
        database: Where the work is.
        definitions: The sites that are looked at; without, none.
        search_engine: The address of a SearXNG's search; without, no links are found.
        callback_networks: Networks, such as ``10.0.0.0/8``, that callbacks may lie in though they are not global.
        pace: How much at once.

    Raises:
        ConfigurationError: A network is none.
    """
    engine = Engine(search_engine) if search_engine else None
    web = ScanContext(
        database,
        definitions or {},
        PoliteFetcher(Outbound(), database),
        engine,
        # The operator names the engine, and it usually stands beside the service.
        PoliteFetcher(Outbound(opened=EVERYWHERE), database),
    )
    return Worker(web, Outbound(opened=callback_networks), pace=pace)


class Worker:
    """Does what is due. Belongs to one event loop.

    Args:
        web: Where to look, and the database.
        outbound: The vetted way to integrators.
        pace: How much at once.
    """

    def __init__(self, web: ScanContext, outbound: Outbound, *, pace: WorkerConfig | None = None) -> None:
        self.web = web
        self._outbound = outbound
        self._pace = pace or WorkerConfig()
        self._wake = asyncio.Event()
        self._settling: list[asyncio.Future[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        p = self._pace
        self._kinds = (
            _JobType("scan", tables.users, p.scans, p.scan_s, self._scan),
            _JobType("removal", tables.records, p.removals, p.removal_s, self._remove),
            _JobType("delivery", tables.deliveries, p.deliveries, p.delivery_s, self._deliver),
        )

    async def run(self) -> None:
        """Do what is due, whenever it is; until cancelled. An error is logged, and work goes on."""
        self._loop = asyncio.get_running_loop()
        sites, engine = len(self.web.definitions), "no" if self.web.engine is None else "yes"
        _log.info("worker=running sites=%d search_engine=%s", sites, engine)
        if not sites:
            _log.warning(
                "no sites are defined, so nobody is looked for on any: --sites names their directory"
            )
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._work(until_idle=False))
            loops.create_task(self._tidy())

    async def run_until_idle(self) -> int:
        """Do everything that is due now, and what becomes due by it; how many pieces of work."""
        return await self._work(until_idle=True)

    async def settle(self) -> None:
        """Wait, while `run` runs, until nothing is due and nothing is being done."""
        settled = asyncio.get_running_loop().create_future()
        self._settling.append(settled)
        self._wake.set()
        await settled

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that it runs in.

        Raises:
            LookupError: It does not run.
        """
        if self._loop is None:
            raise LookupError("the worker does not run")
        return self._loop

    async def next_due(self) -> datetime | None:
        """When something is due next; None: nothing ever will be."""
        async with self.web.database.reading() as session:
            return await leases.next_due(session, [kind.table for kind in self._kinds])

    async def scan(self, lease: Lease) -> None:
        """Scan a person at once, under a lease that was taken already."""
        await self._done(self._kinds[0], lease)

    @property
    def scan_concurrency(self) -> int:
        """How many people are scanned at once."""
        return self._kinds[0].concurrency

    @property
    def scan_lasts(self) -> timedelta:
        """How long the lease of a scan lasts."""
        return self._lasts(self._kinds[0])

    async def _work(self, *, until_idle: bool) -> int:
        hands = [_JobSlots(kind) for kind in self._kinds]
        done = 0
        try:
            while True:
                asked, self._settling = self._settling, []
                self._wake.clear()
                taken = [await self._fill(one, calmly=not until_idle) for one in hands]
                running = [task for one in hands for task in one.running]
                if running or any(count is None for count in taken):
                    self._settling += asked
                else:
                    _release(asked)
                    if until_idle:
                        return done
                await self._rest(running)
                done += sum(one.drop_ended() for one in hands)
        finally:
            for one in hands:
                await self._let_go(one)

    async def _rest(self, running: Sequence[asyncio.Task[None]]) -> None:
        """Until one piece of work ends, somebody wakes us, or it is time to look again."""
        woken = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait(
                [*running, woken], timeout=self._pace.idle_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            woken.cancel()

    async def _fill(self, hands: "_JobSlots", *, calmly: bool) -> int | None:
        """Take what is due, as much as there is room for, and begin it; how much, or None: it cannot be known."""
        if not hands.worth_filling:
            return 0
        beginning = asyncio.ensure_future(self._begin(hands))
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            # Else nobody lets go of what is being taken.
            await asyncio.gather(beginning, return_exceptions=True)
            raise
        except Exception as fault:
            if not calmly:
                raise
            # Mostly the database is away, and comes back. A dead worker would be missed by nobody.
            _log.error("worker=%s fault=%s", hands.kind.name, type(fault).__name__)
            return None

    async def _begin(self, hands: "_JobSlots") -> int:
        hands.filled_at = time.monotonic()
        taken = await self._take(hands.kind, hands.room)
        for lease in taken:
            hands.running[asyncio.create_task(self._done(hands.kind, lease))] = lease
        return len(taken)

    async def _let_go(self, hands: "_JobSlots") -> None:
        """Stopped in order: what was begun is for the next worker, at once."""
        left = dict(hands.running)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        with suppress(Exception):  # the leases run out by themselves
            if left:
                async with self.web.database.writing() as session:
                    for lease in left.values():
                        await leases.abandon(session, hands.kind.table, lease)

    async def _take(self, kind: _JobType, limit: int) -> list[Lease]:
        async with self.web.database.reading() as session:
            if not await leases.any_due(session, kind.table):
                return []
        async with self.web.database.writing() as session:
            return await leases.acquire(session, kind.table, limit=limit, duration=self._lasts(kind))

    def _lasts(self, kind: _JobType) -> timedelta:
        return timedelta(seconds=kind.seconds) + self._pace.spare

    async def _done(self, kind: _JobType, lease: Lease) -> None:
        limit = asyncio.timeout(kind.seconds)
        try:
            async with limit:
                await kind.do(lease)
        except LeaseLost:
            _log.info("worker=%s row=%d lease=lost", kind.name, lease.row_id)
        except DATABASE_ERRORS as fault:  # the database is away: the lease brings the row back
            _log.error("worker=%s row=%d fault=%s", kind.name, lease.row_id, type(fault).__name__)
            if limit.expired():
                await self._put_off(kind, lease)
        except Exception as fault:  # noqa: BLE001  one row's trouble is no other's
            _log.error("worker=%s row=%d fault=%s", kind.name, lease.row_id, type(fault).__name__)
            await self._put_off(kind, lease)

    async def _put_off(self, kind: _JobType, lease: Lease) -> None:
        """What failed for a reason of its own would fail again: it waits, and does not wear out a site."""
        with suppress(LeaseLost, *DATABASE_ERRORS):
            async with self.web.database.writing() as session:
                later = session.clock.now() + AFTER_FAULT
                await leases.complete(session, kind.table, lease, due_at=later)

    async def _tidy(self) -> None:
        """Forget what was delivered long ago."""
        while True:
            try:
                async with self.web.database.writing() as session:
                    await outbox.forget_delivered(session, session.clock.now() - KEEP_DELIVERED)
            except Exception as fault:  # noqa: BLE001  another hour will do
                _log.error("worker=tidy fault=%s", type(fault).__name__)
            await asyncio.sleep(TIDY_EVERY_S)

    async def _scan(self, lease: Lease) -> None:
        await scan(self.web, lease)

    async def _remove(self, lease: Lease) -> None:
        await remove(self.web, lease)

    async def _deliver(self, lease: Lease) -> None:
        async with self.web.database.writing() as session:
            parcel = await outbox.prepare(session, lease)
            now = session.clock.now()
        status, outcome = await self._send(parcel, now)
        async with self.web.database.writing() as session:
            state = await outbox.record_attempt(session, lease, status=status, outcome=outcome)
        _log.info("webhook=%s outcome=%s state=%s", parcel.webhook_id, outcome, state)

    async def _send(self, parcel: outbox.PreparedDelivery, now: datetime) -> tuple[int | None, str]:
        if parcel.callback is None:
            return None, "no callback"
        headers = parcel.callback.headers(parcel.webhook_id, now, parcel.body)
        try:
            answer = await self._outbound.fetch(
                parcel.callback.url,
                method="POST",
                headers=headers,
                body=parcel.body,
                timeout_s=ATTEMPT_S,
                redirects_max=0,
                reads_body=False,
            )
        except ForbiddenAddress:
            return None, "address refused"
        except FetchError as error:
            return None, error.reason
        return answer.status, f"status {answer.status}"


class _JobSlots:
    """What is being done of one kind of work."""

    def __init__(self, kind: _JobType) -> None:
        self.kind = kind
        self.running: dict[asyncio.Task[None], Lease] = {}
        self.filled_at = 0.0

    @property
    def room(self) -> int:
        """How much more can be begun."""
        return self.kind.concurrency - len(self.running)

    @property
    def worth_filling(self) -> bool:
        """Whether to take more: a row costs a transaction, and so do eight; but nobody waits long for them."""
        waited = time.monotonic() - self.filled_at >= FILL_AFTER_S
        return self.room * 4 >= self.kind.concurrency or (self.room > 0 and waited)

    def drop_ended(self) -> int:
        """Forget what is done; how much."""
        before = len(self.running)
        self.running = {task: lease for task, lease in self.running.items() if not task.done()}
        return before - len(self.running)


def _release(waiting: Iterable[asyncio.Future[None]]) -> None:
    for one in waiting:
        if not one.done():
            one.set_result(None)
