"""The worker: a failing row affects no other, a stopped worker releases its rows, and no work is done twice."""

import asyncio
import logging
import sqlite3
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta

import pytest
from sqlalchemy import exc, select, update
from support import postgres
from support.services import opened, url_of
from support.shell import TIMEOUT_S
from support.small_web import KEY, QUICK, Card, Folk, GatedAnswer, a_worker, by_form, definition, nobody

from exposurekit.contract.webhooks import GROUPING_WINDOW, RETRY_DELAYS
from exposurekit.sandbox.world.asgi import html
from exposurekit.service import jobs, workers
from exposurekit.service.clock import CLOCK_MARGIN
from exposurekit.service.scanning.schedule import SCAN_EVERY, VERIFIED_WITHIN
from exposurekit.service.storage import leases, tables
from exposurekit.service.storage.database import Database
from exposurekit.service.storage.encryption import Vault
from exposurekit.service.webhooks import endpoints
from exposurekit.service.worker import WorkerConfig

HERS = Card("r1")


@pytest.fixture
def house(home, town):
    home.clear()
    home.has(definition(removal=by_form()))
    return home


@pytest.fixture
def seekfolk(house, town):
    return town.opens("Seekfolk", Folk([HERS]))


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "exposurekit.service")
    return caplog


def database_of(house, kind, **options):
    return opened(kind(url_of(house.directory), vault=Vault(KEY), clock=house.clock, **options))


@asynccontextmanager
async def working(house, database, config=QUICK):
    """A running worker, which must not end by itself."""
    running = asyncio.create_task(a_worker(database, house.resolve, house.definitions, config=config).run())
    try:
        yield running
    finally:
        assert not running.done(), "the worker ended"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(condition):
    """Wait until it is true."""
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110  of a worker, which knows no test
            await asyncio.sleep(0.005)


def statuses(house):
    return [row.status for row in house.rows()]


def test_a_failing_row_is_retried_and_affects_no_other(house, town, seekfolk, log):
    broken, intact = house.juniper(), house.juniper()
    corrupt = update(tables.users).where(tables.users.c.id == broken["id"])
    [before] = [row.ciphertext for row in house.rows(tables.users) if row.id == broken["id"]]
    house.work(lambda work: work.run(corrupt.values(ciphertext=b"\1" + bytes(60))))
    assert house.idle() == 3  # both scans, and an opt-out
    assert house.statuses(intact) == {"r1": "pending removal"}
    assert f"worker=scan row={broken['id']} fault=DecryptionError" in log.text
    house.work(lambda work: work.run(corrupt.values(ciphertext=before)))
    house.advance(hours=5)
    assert house.statuses(broken) == {}
    house.advance(hours=1)
    assert house.statuses(broken) == {"r1": "pending removal"}


def test_an_inconclusive_scan_is_in_the_log(house, town, log):
    town.opens("Seekfolk", Folk(search=lambda _: html("", 503)))
    house.juniper()
    house.idle()
    assert "site='Seekfolk' inconclusive_scans=1 reason='status 503'" in log.messages


@pytest.mark.usefixtures("seekfolk")
def test_the_log_counts_names_that_were_not_searched_for(house, log):
    house.scanned_juniper(aliases=[{"first_name": "Junie", "last_name": letter} for letter in "ABCDEFG"])
    assert "scan='Seekfolk' listings=1 queries_left_out=2" in log.messages


def test_scans_and_what_becomes_of_records_are_in_the_log(house, town, seekfolk, log):
    house.scanned_juniper()
    [row] = house.rows()
    seekfolk.cards.clear()
    house.advance(days=10)
    assert statuses(house) == ["removed"]
    lines = [line for line in log.messages if line.startswith((f"record={row.id} ", "scan="))]
    record = f"record={row.id}"
    assert lines[:5] == [
        f"{record} status='discovered'",
        "scan='Seekfolk' listings=1",
        f"{record} status='pending removal'",
        f"{record} absences=1",
        "scan='Seekfolk' listings=0",
    ]
    assert f"{record} status='removed'" in lines[5:]
    seekfolk.cards.append(HERS)
    house.advance(days=8)
    assert log.messages.count(f"{record} status='discovered'") == 2


def test_the_log_contains_no_personal_data(house, seekfolk, log):
    user = house.juniper()
    corrupt = update(tables.records).values(ciphertext=b"\1" + bytes(60))
    house.idle()
    house.clock.advance(timedelta(days=3))
    house.work(lambda work: work.run(corrupt))
    house.idle()
    assert "fault=" in log.text
    for word in ("Juniper", "Quillfeather", "juniper@", "Acorn", "seekfolk.example", user["secret"]):
        assert word not in log.text


def test_work_that_takes_too_long_is_cancelled_and_retried(house, town, seekfolk, log):
    """A lease outlasts its work, so that two attempts never overlap."""
    gate = seekfolk.search = GatedAnswer(seekfolk.matching_cards)
    house.juniper()

    async def ended(database):
        config = WorkerConfig(scan_s=0.2, lease_margin=timedelta(seconds=1))
        await a_worker(database, house.resolve, house.definitions, config=config).run_until_idle()

    house.behind(ended)
    gate.go.set()
    seekfolk.search = None
    assert "fault=TimeoutError" in log.text
    assert house.rows() == []
    house.advance(hours=6)
    assert statuses(house) == ["pending removal"]


@contextmanager
def outage(house, store):
    """No writes, and on PostgreSQL no connections, during the block."""
    url = url_of(house.directory)
    if store == "sqlite":
        with sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")
        other.close()
        return
    name = url.partition("?")[0].rpartition("/")[2]
    postgres.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    pids = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"  # noqa: S608
    postgres.execute(pids)
    try:
        yield
    finally:
        postgres.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


def test_a_short_database_outage_stops_no_work(house, town, seekfolk, store, log):
    house.juniper()

    async def worked():
        async with database_of(house, Database, busy_timeout_s=0.1) as database:
            with outage(house, store):
                async with working(house, database):
                    await until(lambda: log.text.count("worker=scan fault=") >= 2)
                    assert town.requests == []
            async with working(house, database):
                await until(lambda: town.of("Seekfolk", "/opt-out"))

    asyncio.run(worked())


FAULTS = {
    "the server is gone": lambda: exc.OperationalError("", None, OSError("gone")),
    "no connection is free": lambda: exc.TimeoutError("QueuePool limit reached"),
    "the write lock times out": TimeoutError,
    "the file cannot be read": lambda: OSError("input/output error"),
    "the driver raises it": lambda: sqlite3.OperationalError("disk I/O error"),
    "something else": lambda: RuntimeError("unexpected"),
}


class WatchedDatabase(Database):
    """Counts its sessions."""

    reads = writes = 0

    def on_session(self):
        pass

    @asynccontextmanager
    async def reading(self):
        self.reads += 1
        self.on_session()
        async with super().reading() as work:
            yield work

    @asynccontextmanager
    async def writing(self):
        self.writes += 1
        self.on_session()
        async with super().writing() as work:
            yield work


class FlakyDatabase(WatchedDatabase):
    """Every other session fails, six times."""

    fault = None
    failures = 0

    def on_session(self):
        if self.fault is not None and self.failures < 6 and (self.reads + self.writes) % 2:
            self.failures += 1
            raise self.fault()


@pytest.mark.parametrize("name", FAULTS)
def test_a_worker_survives_every_database_error(house, town, seekfolk, log, name):
    house.has()  # no other work uses the database

    async def worked():
        async with database_of(house, FlakyDatabase) as database:
            database.fault = FAULTS[name]
            async with working(house, database):
                await until(lambda: database.failures == 6 and database.reads > 15)

    asyncio.run(worked())
    assert "fault=" in log.text
    assert "unexpected" not in log.text


def test_a_stopped_worker_releases_its_leases(house, town, seekfolk):
    """The next worker need not wait until the lease ends."""
    gate, users = GatedAnswer(seekfolk.matching_cards), {"Juniper Quillfeather", "Marigold Quillfeather"}
    seekfolk.search = lambda request: gate(request) if town.names("Seekfolk")[-1] in users else nobody()
    house.juniper()
    house.juniper(first_name="Marigold")

    async def stopped(database):
        async with working(house, database):
            await gate.is_reached()
            await until(lambda: users <= {*town.names("Seekfolk")})

    house.behind(stopped)
    gate.go.set()
    seekfolk.search = None
    assert [(row.lease, row.lease_until) for row in house.rows(tables.users)] == [(None, None)] * 2
    house.idle()
    assert statuses(house) == ["pending removal"]


class SlowDatabase(Database):
    """A session that leases a user returns only when `finish` is set."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.leased, self.finish = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def writing(self):
        async with super().writing() as work:
            yield work
            leased = await work.all(select(tables.users.c.id).where(tables.users.c.lease.is_not(None)))
        if leased:
            self.leased.set()
            await self.finish.wait()


def test_a_worker_stopped_while_leasing_releases_too(house, seekfolk):
    house.juniper()

    async def stop():
        async with database_of(house, SlowDatabase) as database:
            running = asyncio.create_task(
                a_worker(database, house.resolve, house.definitions, config=QUICK).run()
            )
            await database.leased.wait()
            running.cancel()
            for _ in range(10):  # until the cancellation has reached every task
                await asyncio.sleep(0)
            database.finish.set()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(stop())
    assert [row.lease for row in house.rows(tables.users)] == [None]


@pytest.mark.parametrize("at", ["control search", "user search"])
def test_a_scan_that_loses_its_lease_stores_nothing(house, town, seekfolk, log, at):
    gate = GatedAnswer(seekfolk.matching_cards)
    # After the user search, only the storing is left.
    seekfolk.search = lambda request: (
        gate(request) if at == "control search" or HERS.fits(request) else seekfolk.matching_cards(request)
    )
    house.juniper()

    async def overtaken(database):
        first = asyncio.create_task(house.worker(database).run_until_idle())
        await gate.is_reached()
        house.clock.advance(timedelta(hours=1))
        async with database.writing() as work:
            [taken] = await leases.acquire(work, tables.users, limit=5, duration=timedelta(hours=1))
        gate.go.set()
        await asyncio.wait_for(first, 60)
        return taken

    taken = house.behind(overtaken)
    assert house.rows() == house.rows(tables.alerts) == []
    assert "lease=lost" in log.text
    [row] = house.rows(tables.users)
    assert (row.lease, row.is_scanning, row.scanned_at) == (taken.token, True, None)


def test_two_workers_do_no_work_twice(house, town, seekfolk):
    names = [f"Junip{character}r" for character in "abcdefgh"]
    seekfolk.cards[:] = [Card(f"r-{name}", f"{name} Quillfeather") for name in names]
    for name in names:
        house.juniper(first_name=name)

    async def together():
        async with database_of(house, Database) as one, database_of(house, Database) as other:
            config = WorkerConfig(scans=3, removals=2)
            workers = [
                a_worker(base, house.resolve, house.definitions, config=config) for base in (one, other)
            ]
            return await asyncio.gather(*(worker.run_until_idle() for worker in workers))

    done = asyncio.run(together())
    assert all(done)
    searched = town.names("Seekfolk")
    assert sorted(name for name in searched if name.endswith("Quillfeather")) == [
        f"{name} Quillfeather" for name in names
    ]
    assert len(searched) <= len(names) + 2  # each worker searches for an invented person once
    sent = [searched.form["reference"] for searched in town.of("Seekfolk", "/opt-out")]
    assert sorted(sent) == [f"r-{name}" for name in names]
    assert sum(done) == 2 * len(names)


def test_an_idle_worker_writes_nothing(house, seekfolk):
    """SQLite has one writer: an idle worker must not block the API."""

    async def idle():
        async with database_of(house, WatchedDatabase) as database:
            database.reads = database.writes = 0
            async with working(house, database, WorkerConfig(idle_s=0.001)):
                await until(
                    lambda: database.writes >= 2
                )  # tidied up once an hour, noted that it runs once a minute
                reads, writes = database.reads, database.writes
                await until(lambda: database.reads > reads + 30)
                return database.writes - writes

    assert asyncio.run(idle()) == 0
    house.juniper()
    assert asyncio.run(idle()) > 0


def test_workers_are_counted_until_they_end(house, log):
    another = "another worker runs on this SQLite file"

    async def counted(database):
        async with database.reading() as session:
            return (await workers.count(session)).running

    async def work(database):
        async with working(house, database):
            while await counted(database) < 1:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            assert another not in log.text
            async with working(house, database):
                while await counted(database) < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
            assert await counted(database) == 1
        assert await counted(database) == 0
        return await is_sqlite(database)

    async def is_sqlite(database):
        async with database.reading() as session:
            return await session.dialect() == "sqlite"

    assert house.behind(work) == (another in log.text)


def test_a_killed_worker_counts_as_running_for_some_minutes(house):
    house.work(lambda work: workers.note(work, "killed"))
    seen_at = house.clock.now()
    assert house.work(workers.count) == workers.Workers(1, seen_at)
    house.advance(seconds=151)
    assert house.work(workers.count) == workers.Workers(0, seen_at)
    house.advance(days=8)
    house.work(lambda work: workers.note(work, "another"))
    assert house.work(workers.count) == workers.Workers(1, house.clock.now())
    house.work(lambda work: workers.forget(work, "another"))
    assert house.work(workers.count) == workers.Workers(0, None)


def test_nothing_is_done_before_it_is_due(house, town, seekfolk):
    house.juniper()
    assert house.idle() == 2
    assert house.idle() == 0
    assert house.behind(lambda database: house.worker(database).next_due()) > house.clock.now()


def test_no_more_scans_run_at_once_than_configured(house, town, seekfolk):
    gate = GatedAnswer(seekfolk.matching_cards)
    seekfolk.search = lambda request: gate(request) if HERS.fits(request) else nobody()
    for _ in range(5):
        house.juniper()

    def searches():
        return town.names("Seekfolk").count(HERS.name)

    async def work():
        config = WorkerConfig(scans=2, idle_s=0.01)
        async with database_of(house, WatchedDatabase) as database, working(house, database, config):
            await until(lambda: searches() == 2)
            reads = database.reads
            await until(lambda: database.reads > reads + 8)  # the worker has checked for due work
            assert searches() == 2
            gate.go.set()
            seekfolk.search = None
            await until(lambda: len(town.of("Seekfolk", "/opt-out")) == 5)

    asyncio.run(work())


def test_a_worker_without_sites_logs_a_warning(house, log):
    house.has()

    async def work(database):
        async with working(house, database):
            await until(lambda: "no site definitions" in log.text)

    house.behind(work)
    assert "worker=running sites=0 search_engine=no" in log.text


def test_a_worker_records_what_a_wrong_clock_put_off(house, town, seekfolk, log):
    house.scanned_juniper()
    now, ahead = house.clock.now(), timedelta(days=5000)
    for table in (tables.users, tables.records):
        house.work(lambda work, table=table: work.run(update(table).values(due_at=now + ahead)))

    async def corrected(database):
        async with working(house, database):
            await until(lambda: log.text.count("clock was ahead: table=") == 2)

    house.behind(corrected)
    removals, scans = house.work(jobs.clock_corrections)
    assert (scans.kind, scans.at, scans.jobs) == ("scans", now, 1)
    assert scans.ahead_s == (ahead - SCAN_EVERY - CLOCK_MARGIN).total_seconds()
    assert (removals.kind, removals.jobs) == ("removals", 1)
    assert removals.ahead_s == (ahead - VERIFIED_WITHIN - CLOCK_MARGIN).total_seconds()


@pytest.fixture
def callback(house):
    callback = endpoints.Callback("http://127.0.0.1:9/hook")
    house.work(lambda work: endpoints.set_callback(work, "acme", callback))
    yield callback
    house.work(lambda work: endpoints.set_callback(work, "acme", None))


def test_a_delivery_waits_no_longer_than_the_longest_retry(house, town, seekfolk, log, callback):
    minutes = {house.scanned_juniper()["id"]: minutes for minutes in (30, 33, 111)}
    now, deliveries = house.clock.now(), tables.deliveries
    for user_id, many in minutes.items():
        late = update(deliveries).filter_by(user_id=user_id).values(due_at=now + timedelta(minutes=many))
        house.work(lambda work, late=late: work.run(late))

    async def corrected(database):
        async with working(house, database):
            await until(lambda: "clock was ahead: table=deliveries corrected=2 ahead_s=4800" in log.text)

    house.behind(corrected)
    [due_at, *_] = [row.due_at for row in house.rows(deliveries)]
    assert due_at == now + RETRY_DELAYS[-1]


def test_a_delivery_that_fails_inside_is_retried_soon(house, town, seekfolk, log, callback):
    house.scanned_juniper()
    deliveries = tables.deliveries
    corrupt = update(deliveries).values(body_ciphertext=b"\1" + bytes(60))
    house.work(lambda work: work.run(corrupt))
    house.clock.advance(GROUPING_WINDOW)
    now = house.clock.now()
    house.idle()
    assert "worker=delivery row=" in log.text
    assert [row.due_at for row in house.rows(deliveries)] == [now + RETRY_DELAYS[-1]]
