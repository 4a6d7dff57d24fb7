"""The worker: one row's trouble is no other's, what is stopped is given back, and nothing is done twice at once."""

import asyncio
import logging
import sqlite3
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta

import pytest
from sqlalchemy import exc, update
from support import postgres
from support.services import url_of
from support.small_web import (
    KEY,
    QUICK,
    Card,
    Folk,
    GatedAnswer,
    a_worker,
    by_form,
    definition,
)

from exposurekit.service.storage import leases, tables
from exposurekit.service.storage.database import Database
from exposurekit.service.storage.encryption import Vault
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


@asynccontextmanager
async def a_database_of(house, kind=Database, **options):
    database = kind(url_of(house.directory), vault=Vault(KEY), clock=house.clock, **options)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def working(house, database, config=QUICK):
    """A worker, for as long as the block lasts; it must not have ended by itself."""
    running = asyncio.create_task(a_worker(database, house.resolve, house.definitions, config=config).run())
    try:
        yield running
    finally:
        assert not running.done(), "the worker has died"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def comes(condition):
    """As soon as it is so."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came to that")


def statuses(house):
    return [row.status for row in house.rows()]


# --- trouble ----------------------------------------------------------------------------------------------


def test_a_failing_row_is_retried_and_affects_no_other(house, town, seekfolk, log):
    """Processes that die by themselves are counted and must be 0."""
    broken, whole = house.juniper(), house.juniper()
    spoil = update(tables.users).where(tables.users.c.id == broken["id"])
    [before] = [row.ciphertext for row in house.rows(tables.users) if row.id == broken["id"]]
    house.work(lambda work: work.run(spoil.values(ciphertext=b"\1" + bytes(60))))
    assert house.idle() == 3  # both scans, and an opt-out
    assert house.statuses(whole) == {"r1": "pending removal"}
    assert f"worker=scan row={broken['id']} fault=DecryptionError" in log.text
    house.work(lambda work: work.run(spoil.values(ciphertext=before)))
    house.advance(hours=5)
    assert house.statuses(broken) == {}
    house.advance(hours=1)
    assert house.statuses(broken) == {"r1": "pending removal"}


def test_what_is_logged_tells_nothing_of_anybody(house, seekfolk, log):
    """Structured log without a key, secret or personal value."""
    user = house.juniper()
    spoil = update(tables.records).values(ciphertext=b"\1" + bytes(60))
    house.idle()
    house.clock.advance(timedelta(days=3))
    house.work(lambda work: work.run(spoil))
    house.idle()
    assert "fault=" in log.text
    for word in ("Juniper", "Quillfeather", "juniper@", "Acorn", "seekfolk.example", user["secret"]):
        assert word not in log.text


def test_work_that_takes_too_long_is_cancelled_and_retried(house, town, seekfolk, log):
    """A lease outlasts its work: what was ended must not be at work still when the next begins."""
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
def away(house, store):
    """Nobody can write, or on PostgreSQL even connect, for as long as the block lasts."""
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
    postgres.execute(
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"  # noqa: S608  ours
    )
    try:
        yield
    finally:
        postgres.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


def test_a_short_database_outage_stops_no_work(house, town, seekfolk, store, log):
    house.juniper()

    async def worked():
        async with a_database_of(house, busy_timeout_s=0.1) as database:
            with away(house, store):
                async with working(house, database):
                    await comes(lambda: log.text.count("worker=scan fault=") >= 2)
                    assert town.requests == []
            async with working(house, database):
                await comes(lambda: town.of("Seekfolk", "/opt-out"))

    asyncio.run(worked())


FAULTS = {
    "the server is gone": lambda: exc.OperationalError("", None, OSError("gone")),
    "no connection is free": lambda: exc.TimeoutError("QueuePool limit reached"),
    "the turn does not come": TimeoutError,
    "the file cannot be read": lambda: OSError("input/output error"),
    "the driver itself says so": lambda: sqlite3.OperationalError("disk I/O error"),
    "something else": lambda: RuntimeError("not foreseen"),
}


class Flaky(Database):
    """A database that fails every other time that it is asked, until it is well."""

    fault = None
    failures = 0
    calls = 0

    def _fail(self):
        self.calls += 1
        if self.fault is not None and self.failures < 6 and self.calls % 2:
            self.failures += 1
            raise self.fault()

    @asynccontextmanager
    async def reading(self):
        self._fail()
        async with super().reading() as work:
            yield work

    @asynccontextmanager
    async def writing(self):
        self._fail()
        async with super().writing() as work:
            yield work


@pytest.mark.parametrize("name", FAULTS)
def test_whatever_the_database_says_the_worker_lives(house, town, seekfolk, log, name):
    """A worker that ended by itself would be missed by nobody: the service goes on answering."""
    house.has()  # nothing else is asked of the database

    async def worked():
        async with a_database_of(house, Flaky) as database:
            database.fault = FAULTS[name]
            async with working(house, database):
                await comes(lambda: database.failures == 6 and database.calls > 20)

    asyncio.run(worked())
    assert "fault=" in log.text
    assert "not foreseen" not in log.text


# --- stopped ----------------------------------------------------------------------------------------------


def test_a_stopped_worker_releases_its_leases(house, town, seekfolk):
    """Work that survives; the next worker need not wait for the lease to run out."""
    gate = seekfolk.search = GatedAnswer(seekfolk.matching_cards)
    house.juniper()
    house.juniper(first_name="Marigold")

    async def stopped(database):
        async with working(house, database):
            await gate.is_reached()
            await comes(lambda: len(town.of("Seekfolk")) == 2)

    house.behind(stopped)
    gate.go.set()
    seekfolk.search = None
    assert [(row.lease, row.lease_until) for row in house.rows(tables.users)] == [(None, None)] * 2
    house.idle()
    assert statuses(house) == ["pending removal"]


class Dawdling(Database):
    """Its transactions are over a moment before whoever made them hears of it."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.taking = asyncio.Event()

    @asynccontextmanager
    async def writing(self):
        async with super().writing() as work:
            yield work
        self.taking.set()
        await asyncio.sleep(0.05)


def test_a_worker_stopped_while_leasing_releases_too(house, seekfolk):
    house.juniper()

    async def stopped():
        async with a_database_of(house, Dawdling) as database:
            database.taking.clear()
            config = WorkerConfig(idle_s=0.02, removals=0, deliveries=0)
            async with working(house, database, config):
                database.taking.clear()
                await database.taking.wait()

    asyncio.run(stopped())
    assert [row.lease for row in house.rows(tables.users)] == [None]


@pytest.mark.parametrize("at", ["the control", "the person"])
def test_what_was_lost_in_the_middle_keeps_nothing(house, town, seekfolk, log, at):
    """Whoever was away for longer than the lease has no say: the next one's look is the one that counts."""
    gate = GatedAnswer(seekfolk.matching_cards)
    # After the answer for the person there is nothing to ask any more, and only the keeping is left.
    seekfolk.search = lambda request: (
        gate(request) if at == "the control" or HERS.fits(request) else seekfolk.matching_cards(request)
    )
    house.juniper()

    async def overtaken(database):
        first = asyncio.create_task(house.worker(database).run_until_idle())
        await gate.is_reached()
        house.clock.advance(timedelta(hours=1))
        async with database.writing() as work:
            [taken] = await leases.acquire(work, tables.users, limit=5, duration=timedelta(hours=1))
        gate.go.set()
        await asyncio.wait_for(first, 20)
        return taken

    taken = house.behind(overtaken)
    assert house.rows() == house.rows(tables.alerts) == []
    assert "lease=lost" in log.text
    [row] = house.rows(tables.users)
    assert (row.lease, row.is_scanning, row.scanned_at) == (taken.token, True, None)


# --- several, and none ------------------------------------------------------------------------------------


def test_two_workers_do_nothing_twice(house, town, seekfolk):
    """PostgreSQL with several workers; on SQLite the second one finds nothing wrong either."""
    names = [f"Junip{character}r" for character in "abcdefghijkl"]
    seekfolk.cards[:] = [Card(f"r-{name}", f"{name} Quillfeather") for name in names]
    for name in names:
        house.juniper(first_name=name)

    async def together():
        async with a_database_of(house) as one, a_database_of(house) as other:
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
    assert len(searched) == 2 * len(names)
    sent = [searched.form["reference"] for searched in town.of("Seekfolk", "/opt-out")]
    assert sorted(sent) == [f"r-{name}" for name in names]
    assert sum(done) == 2 * len(names)


class Counting(Database):
    reads = changes = 0

    @asynccontextmanager
    async def reading(self):
        self.reads += 1
        async with super().reading() as work:
            yield work

    @asynccontextmanager
    async def writing(self):
        self.changes += 1
        async with super().writing() as work:
            yield work


def test_a_worker_with_nothing_to_do_writes_nothing(house, seekfolk):
    """On SQLite there is one writer: an idle worker must not stand in the way of the front."""

    async def idle():
        async with a_database_of(house, Counting) as database:
            database.reads = database.changes = 0
            async with working(house, database, WorkerConfig(idle_s=0.001)):
                await comes(lambda: database.reads > 60)
            return database.changes

    assert asyncio.run(idle()) <= 1  # tidied up once an hour
    house.juniper()
    assert asyncio.run(idle()) > 1


def test_nothing_is_done_before_it_is_due(house, town, seekfolk):
    house.juniper()
    assert house.idle() == 2
    assert house.idle() == 0
    assert house.behind(lambda database: house.worker(database).next_due()) > house.clock.now()


def test_no_more_is_begun_at_once_than_the_pace_allows(house, town, seekfolk):
    gate = seekfolk.search = GatedAnswer(seekfolk.matching_cards)
    for _ in range(5):
        house.juniper()

    async def begun(database):
        async with working(house, database, WorkerConfig(scans=2, idle_s=0.01)):
            await comes(lambda: len(town.of("Seekfolk")) == 2)
            await asyncio.sleep(0.1)  # nothing is to happen, and that takes a while to see
            assert len(town.of("Seekfolk")) == 2
            gate.go.set()
            seekfolk.search = None
            await comes(lambda: len(town.of("Seekfolk", "/opt-out")) == 5)

    house.behind(begun)


def test_a_worker_without_sites_says_so(house, log):
    house.has()

    async def begun(database):
        async with working(house, database):
            await comes(lambda: "no site definitions" in log.text)

    house.behind(begun)
    assert "worker=running sites=0 search_engine=no" in log.text
