"""Background worker: runs due scans, removals and webhook deliveries, and reads the mailbox.

A worker can be stopped or killed at any moment: its jobs are acquired again when their leases expire. Several workers
can share a PostgreSQL database; with SQLite the service runs one inside its own process.
"""

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from sqlalchemy import Table

from exposurekit.contract.webhooks import GROUPING_WINDOW, RETRY_DELAYS
from exposurekit.errors import ExposureError
from exposurekit.service import jobs, workers
from exposurekit.service.accounts import consent, documents
from exposurekit.service.clock import CLOCK_MARGIN
from exposurekit.service.findings import evidence
from exposurekit.service.http.client import HttpClient
from exposurekit.service.mail import message_store
from exposurekit.service.mail.settings import MailSettings, supports
from exposurekit.service.scanning.incoming_mail_job import check_mailbox, process_message, register_mailbox
from exposurekit.service.scanning.politeness import PoliteFetcher
from exposurekit.service.scanning.removal_job import remove
from exposurekit.service.scanning.scan import ScanContext, scan
from exposurekit.service.scanning.scan_warnings import ScanWarnings
from exposurekit.service.scanning.schedule import SCAN_EVERY, VERIFIED_WITHIN, verified_within
from exposurekit.service.scanning.websearch import Engine
from exposurekit.service.sites.definition import Definition
from exposurekit.service.storage import leases, tables
from exposurekit.service.storage.database import DATABASE_ERRORS, Database
from exposurekit.service.storage.leases import Bounds, Lease, LeaseLost
from exposurekit.service.webhooks import delivery, outbox
from exposurekit.text.sanitize import plain

TIDY_EVERY_S, CORRECT_EVERY_S = 3600, 60
FORGET_S = 5.0  # an unreachable database does not hold up the end for longer
FILL_AFTER_S = 0.2
DOCUMENTS_AT_ONCE = 5  # in one transaction, which others wait for
AFTER_FAULT = timedelta(hours=6)
CHECKED_WITHIN = timedelta(days=1)  # the longest that the settings of a mailbox may say
EVERYWHERE = ("0.0.0.0/0", "::/0")
_log = logging.getLogger("exposurekit.service")


class WorkerCrashed(ExposureError):
    """The worker ended with an error: due jobs would no longer run."""


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """Concurrency and time limits of a worker's jobs. A lease outlasts the time limit of its job."""

    scans: int = 8
    removals: int = 8
    deliveries: int = 32
    messages: int = 4
    scan_s: float = 600
    removal_s: float = 600
    delivery_s: float = delivery.ATTEMPT_S + 5
    mail_s: float = 300  # of a check of the mailbox, or of one message
    idle_s: float = 1.0
    lease_margin: timedelta = timedelta(seconds=30)  # by which a lease outlasts its job


@dataclass(frozen=True, slots=True)
class _JobType:
    """A type of job: the table of its due rows, and how to run one."""

    name: str
    table: Table
    concurrency: int
    seconds: float
    run_job: Callable[[Lease], Awaitable[None]]
    due_within: timedelta  # the longest time until a row is due
    is_shared: bool = False  # whether integrators take turns


def create_worker(
    database: Database,
    *,
    definitions: Mapping[str, Definition] | None = None,
    search_engine: str | None = None,
    callback_networks: Iterable[str] = (),
    site_networks: Iterable[str] = (),
    mail: MailSettings | None = None,
    sites_directory: Path | None = None,
) -> "Worker":
    """Create a worker from an operator's settings.

    `search_engine` is the search URL of a SearXNG instance; without it, no links are found. `callback_networks` and
    `site_networks` are networks in CIDR form that callbacks, or the defined sites, may be in, though they are not public.
    Without the mailbox in `mail`, opt-outs by mail, or confirmed by mail, are left to a person. If there are no
    definitions, the log names the `sites_directory` that has none.
    """
    sites = definitions or {}
    if waiting := [name for name, site in sites.items() if not supports(mail, site)]:
        _log.warning(
            "no mailbox, or no server for sending: removals that need it are manual: sites=%d", len(waiting)
        )
        sites = {name: site if supports(mail, site) else site.manual() for name, site in sites.items()}
    engine = Engine(search_engine) if search_engine else None
    context = ScanContext(
        database,
        sites,
        PoliteFetcher(HttpClient(allowed_networks=site_networks), database),
        engine,
        # The operator chooses the search engine, which usually runs beside the service.
        PoliteFetcher(HttpClient(allowed_networks=EVERYWHERE), database),
        PoliteFetcher(HttpClient(), database),
        mail,
        warnings=ScanWarnings(),
    )
    return Worker(context, HttpClient(allowed_networks=callback_networks), sites_directory=sites_directory)


class Worker:
    """Runs due jobs in one event loop."""

    def __init__(
        self,
        context: ScanContext,
        http: HttpClient,
        *,
        config: WorkerConfig | None = None,
        sites_directory: Path | None = None,
    ) -> None:
        self.context = context
        self._sites_directory = sites_directory
        self._config = config or WorkerConfig()
        self._wake = asyncio.Event()
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        p = self._config
        deliver = partial(delivery.deliver, context.database, http)
        self._job_types: tuple[_JobType, ...] = (
            _JobType(
                "scan", tables.users, p.scans, p.scan_s, partial(scan, context), SCAN_EVERY, is_shared=True
            ),
            _JobType(
                "removal",
                tables.records,
                p.removals,
                p.removal_s,
                partial(remove, context),
                VERIFIED_WITHIN,
                is_shared=True,
            ),
            _JobType(
                "delivery",
                tables.deliveries,
                p.deliveries,
                p.delivery_s,
                deliver,
                max(*RETRY_DELAYS, GROUPING_WINDOW),
                is_shared=True,
            ),
        )
        if context.mail is not None:
            check, process = partial(check_mailbox, context), partial(process_message, context)
            self._job_types += (
                _JobType("mailbox", tables.mailboxes, 1, p.mail_s, check, CHECKED_WITHIN),
                _JobType("message", tables.mail_messages, p.messages, p.mail_s, process, AFTER_FAULT),
            )

    async def run(self) -> None:
        """Run due jobs until cancelled. Errors are logged."""
        self._loop = asyncio.get_running_loop()
        sites, engine = len(self.context.definitions), "no" if self.context.engine is None else "yes"
        _log.info("worker=running sites=%d search_engine=%s", sites, engine)
        if not sites:
            remedy = "name their directory: --sites DIRECTORY or EXPOSUREKIT_SITES"
            if self._sites_directory is not None:  # what is before its name may name a person
                remedy = f"no file in {plain(self._sites_directory.absolute().name)} ends in .yaml"
            _log.warning("no site definitions: no site is scanned; %s", remedy)
        try:
            async with asyncio.TaskGroup() as loops:
                loops.create_task(self._run_loop(until_idle=False))
                loops.create_task(self._write_missing_documents())
                loops.create_task(self._repeat("tidy", TIDY_EVERY_S, self._delete_old_rows))
                loops.create_task(self._repeat("mailbox", CORRECT_EVERY_S, self._register_mailbox))
                loops.create_task(self._repeat("clock", CORRECT_EVERY_S, self._correct_due_times))
                loops.create_task(self._note_that_it_runs())
                loops.create_task(self._repeat("evidence", CORRECT_EVERY_S, self._make_roots))
        except asyncio.CancelledError:
            _log.info("worker=stopped")
            raise

    async def run_until_idle(self) -> int:
        """Run every due job, and the jobs that they make due. Return how many."""
        await self._register_mailbox()
        return await self._run_loop(until_idle=True)

    async def wait_idle(self) -> None:
        """Wait until no job is due or running; `run` must be running."""
        idle = asyncio.get_running_loop().create_future()
        self._idle_waiters.append(idle)
        self._wake.set()
        await idle

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of `run`; raises `LookupError` while it is not running."""
        if self._loop is None:
            raise LookupError("the worker is not running")
        return self._loop

    async def next_due(self) -> datetime | None:
        """Return when the next job is due; None: never."""
        async with self.context.database.reading() as session:
            return await leases.next_due(session, [job_type.table for job_type in self._job_types])

    async def scan(self, lease: Lease) -> None:
        """Run a scan now, under a lease that is already held."""
        await self._run_job(self._job_types[0], lease)

    @property
    def scan_concurrency(self) -> int:
        """The number of concurrent scans."""
        return self._job_types[0].concurrency

    @property
    def scan_lease_duration(self) -> timedelta:
        """The duration of a scan's lease."""
        return self._lease_duration(self._job_types[0])

    async def _run_loop(self, *, until_idle: bool) -> int:
        slots = [_JobSlots(job_type) for job_type in self._job_types]
        done = 0
        try:
            while True:
                idle_waiters, self._idle_waiters = self._idle_waiters, []
                self._wake.clear()
                leases_ = [await self._fill(one, log_errors=not until_idle) for one in slots]
                running = [task for one in slots for task in one.running]
                if running or any(count is None for count in leases_):
                    self._idle_waiters += idle_waiters
                else:
                    _resolve_all(idle_waiters)
                    if until_idle:
                        return done
                await self._wait_for_change(running)
                done += sum(one.drop_finished() for one in slots)
        finally:
            for one in slots:
                await self._abandon_jobs(one)

    async def _wait_for_change(self, running: Sequence[asyncio.Task[None]]) -> None:
        """Wait until a job ends, a waiter arrives, or it is time to poll again."""
        wake = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait(
                [*running, wake], timeout=self._config.idle_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            wake.cancel()

    async def _fill(self, slots: "_JobSlots", *, log_errors: bool) -> int | None:
        """Acquire due rows for the free slots and start their jobs. Return how many; None: unknown, after an error."""
        if not slots.is_worth_filling:
            return 0
        starting = asyncio.ensure_future(self._start_jobs(slots))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # Otherwise nobody would release the rows that are being acquired.
            await asyncio.gather(starting, return_exceptions=True)
            raise
        except Exception as fault:
            if not log_errors:
                raise
            # Usually the database is unreachable for a while; a dead worker would go unnoticed.
            _log.error("worker=%s fault=%s", slots.job_type.name, self._explain(fault))
            return None

    async def _start_jobs(self, slots: "_JobSlots") -> int:
        slots.filled_at = time.monotonic()
        running = (one.integrator_id for one in slots.running.values())
        slots.turns.running = Counter(one for one in running if one is not None)
        leases_ = await self._acquire(slots)
        for lease in leases_:
            slots.running[asyncio.create_task(self._run_job(slots.job_type, lease))] = lease
        return len(leases_)

    async def _abandon_jobs(self, slots: "_JobSlots") -> None:
        """Cancel running jobs and release their leases, so that the next worker can run them at once."""
        running = dict(slots.running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        with suppress(Exception):  # the leases expire by themselves
            if running:
                async with self.context.database.writing() as session:
                    for lease in running.values():
                        await leases.abandon(session, slots.job_type.table, lease)

    async def _acquire(self, slots: "_JobSlots") -> list[Lease]:
        job_type = slots.job_type
        async with self.context.database.reading() as session:
            if not await leases.any_due(session, job_type.table):
                return []
        async with self.context.database.writing() as session:
            return await leases.acquire(
                session,
                job_type.table,
                limit=slots.free,
                duration=self._lease_duration(job_type),
                turns=slots.turns if job_type.is_shared else None,
            )

    def _lease_duration(self, job_type: _JobType) -> timedelta:
        return timedelta(seconds=job_type.seconds) + self._config.lease_margin

    async def _run_job(self, job_type: _JobType, lease: Lease) -> None:
        limit = asyncio.timeout(job_type.seconds)
        try:
            async with limit:
                await job_type.run_job(lease)
        except LeaseLost:
            _log.info("worker=%s row=%d lease=lost", job_type.name, lease.row_id)
        except DATABASE_ERRORS as fault:  # the row becomes due again when its lease expires
            reason = type(fault).__name__ if limit.expired() else self._explain(fault)
            _log.error("worker=%s row=%d fault=%s", job_type.name, lease.row_id, reason)
            if limit.expired():
                await self._postpone(job_type, lease)
        except Exception as fault:  # noqa: BLE001  one failing row must not affect others
            _log.error("worker=%s row=%d fault=%s", job_type.name, lease.row_id, type(fault).__name__)
            await self._postpone(job_type, lease)

    def _explain(self, fault: Exception) -> str:
        """Return the type of a fault; of one of the database also the reason."""
        name = type(fault).__name__
        if not isinstance(fault, DATABASE_ERRORS):
            return name
        return f"{name}: {self.context.database.explain(fault)}"

    async def _postpone(self, job_type: _JobType, lease: Lease) -> None:
        """Postpone a failed job: it would fail again, and must not hammer a site."""
        with suppress(LeaseLost, *DATABASE_ERRORS):
            async with self.context.database.writing() as session:
                later = session.clock.now() + min(AFTER_FAULT, job_type.due_within)
                await leases.complete(session, job_type.table, lease, due_at=later)

    async def _note_that_it_runs(self) -> None:
        """Note it every minute until cancelled, and then that it has ended; `service status` counts the workers."""
        worker_id = secrets.token_hex(8)
        try:
            await self._repeat("note", workers.NOTE_EVERY_S, partial(self._note, worker_id))
        finally:
            with suppress(Exception):  # it counts as running for some minutes
                async with asyncio.timeout(FORGET_S), self.context.database.writing() as session:
                    await workers.forget(session, worker_id)

    async def _note(self, worker_id: str) -> None:
        async with self.context.database.writing() as session:
            is_new = await workers.note(session, worker_id)
            others = (await workers.count(session)).running - 1
            is_in_a_file = await session.dialect() == "sqlite"
        if is_new and others and is_in_a_file:
            _log.warning(
                "another worker runs on this SQLite file, or was killed a moment ago: they share the jobs, but wait for each "
                "other to write; one is usually enough"
            )

    async def _register_mailbox(self) -> None:
        if self.context.mail is not None:
            await register_mailbox(self.context.database, self.context.mail)

    async def _make_roots(self) -> None:
        """Sign the root of each day of evidence that is over; the log is where others can read it."""
        async with self.context.database.reading() as session:
            if not await evidence.roots_are_due(session):
                return
        async with self.context.database.writing() as session:
            roots = await evidence.make_roots(session)
        for root in roots:
            _log.info(
                "evidence_root=%s number=%d day=%s entries=%d", root.hash, root.number, root.day, root.entries
            )

    async def _delete_old_rows(self) -> None:
        async with self.context.database.writing() as session:
            await outbox.delete_delivered(session)
            await message_store.delete_old(session)

    async def _write_missing_documents(self) -> None:
        """Write the documents of users who have none that is up to date, as after an upgrade."""
        last, written = 0, 0
        while True:
            try:
                async with self.context.database.reading() as session:
                    user_ids = await documents.missing(session, after=last, limit=DOCUMENTS_AT_ONCE)
                if not user_ids:
                    break
                async with self.context.database.writing() as session:
                    for user_id in user_ids:
                        with suppress(consent.NoSuchUser):
                            await consent.lock_user(session, user_id, changes=False)
                            await documents.write(session, user_id)
                        await asyncio.sleep(0)  # requests have a turn
                last, written = user_ids[-1], written + len(user_ids)
            except Exception as fault:  # noqa: BLE001  without a document, a response is slower
                _log.error("worker=documents fault=%s", self._explain(fault))
                await asyncio.sleep(CORRECT_EVERY_S)
        if written:
            _log.info("worker=documents written=%d", written)

    async def _correct_due_times(self) -> None:
        """Make rows due now that a clock that was ahead has put off; `service status` shows it."""
        started = self.context.database.clock.now()
        for bounds in self._bounds():
            async with self.context.database.reading() as session:
                if not await bounds.are_exceeded(session):
                    continue
            async with self.context.database.writing() as session:
                correction = await bounds.enforce(session)
                await jobs.record_correction(session, bounds.table, correction, since=started)
            ahead_s = correction.ahead.total_seconds()
            _log.warning(
                "clock was ahead: table=%s corrected=%d ahead_s=%d",
                bounds.table.name,
                correction.rows,
                ahead_s,
            )

    def _bounds(self) -> Iterator[Bounds]:
        for one in self._job_types:
            duration = self._lease_duration(one) + CLOCK_MARGIN
            yield Bounds(one.table, one.due_within + CLOCK_MARGIN, duration)
            if one.table is tables.records and (sites := self.context.definitions):
                longest = max(*map(verified_within, sites.values()), AFTER_FAULT) + CLOCK_MARGIN
                yield Bounds(one.table, longest, duration, tables.records.c.site.in_(sites))

    async def _repeat(self, name: str, every_s: float, task: Callable[[], Awaitable[None]]) -> None:
        """Run a task periodically."""
        while True:
            try:
                await task()
            except Exception as fault:  # noqa: BLE001  tried again
                _log.error("worker=%s fault=%s", name, self._explain(fault))
            await asyncio.sleep(every_s)


@dataclass(slots=True)
class _JobSlots:
    job_type: _JobType
    running: dict[asyncio.Task[None], Lease] = field(default_factory=dict)
    filled_at: float = 0.0
    turns: leases.Turns = field(default_factory=leases.Turns)

    @property
    def free(self) -> int:
        """How many more jobs can start."""
        return self.job_type.concurrency - len(self.running)

    @property
    def is_worth_filling(self) -> bool:
        """Whether to acquire more rows: one costs a transaction, and so do eight, so wait a moment for several."""
        waited = time.monotonic() - self.filled_at >= FILL_AFTER_S
        return self.free * 4 >= self.job_type.concurrency or (self.free > 0 and waited)

    def drop_finished(self) -> int:
        """Drop finished jobs. Return how many."""
        before = len(self.running)
        self.running = {task: lease for task, lease in self.running.items() if not task.done()}
        return before - len(self.running)


def _resolve_all(futures: Iterable[asyncio.Future[None]]) -> None:
    for one in futures:
        if not one.done():
            one.set_result(None)


async def supervise(worker: Worker) -> None:
    """Run a worker until cancelled; raises `WorkerCrashed` if it ends by itself, after logging the error's type.

    A process manager has to restart it then.
    """
    try:
        await worker.run()
    except Exception as error:  # noqa: BLE001  its text may hold personal data
        fault = _error_type(error)
    else:
        fault = "none"
    _log.error("worker=ended fault=%s", fault)
    raise WorkerCrashed(f"the worker ended ({fault}), and the service with it: restart the service")


def _error_type(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return type(error).__name__
