"""The database: durable, whole transactions or none, one writer at a time, one key."""

import asyncio
import os
import socket
import stat
import subprocess
import sys
from contextlib import AsyncExitStack

import psycopg
import pytest
from sqlalchemy import Executable, bindparam, create_engine, insert, make_url, select, text, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import IntegrityError, OperationalError, StatementError
from sqlalchemy.pool import NullPool
from support.full_disk import file_size_limit
from support.services import JANE, START, a_database, a_service, in_event_loop, opened, stored_in, url_of

from exposurekit.errors import ConfigurationError
from exposurekit.service.accounts import consent, integrators, user_items, users
from exposurekit.service.api import auth
from exposurekit.service.clock import FrozenClock
from exposurekit.service.findings import alerts, candidates, findings, removals
from exposurekit.service.scanning import removal_job, save_scan
from exposurekit.service.sites import statistics
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import Database
from exposurekit.service.storage.database_faults import explain
from exposurekit.service.storage.encryption import Vault
from exposurekit.service.webhooks import outbox

pytestmark = pytest.mark.usefixtures("store")


@pytest.fixture
def on_sqlite():
    with stored_in("sqlite"):
        yield


@in_event_loop
async def test_written_rows_exist_after_reopening(tmp_path):
    key = Vault.generate_key()
    async with opened(a_database(tmp_path, key=key)) as database, database.writing() as work:
        await integrators.add(work, "acme")
    async with opened(a_database(tmp_path, key=key)) as database, database.reading() as work:
        [integrator] = await integrators.all(work)
    assert (integrator.name, integrator.created_at) == ("acme", START)


IN_ANOTHER_PROCESS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT count(*) FROM integrators").fetchone()[0])
connection.close()
"""


@pytest.mark.usefixtures("on_sqlite")
@in_event_loop
async def test_a_process_may_open_a_database_twice(tmp_path):
    """As for the metrics: another process that closes the database must not delete the log of this one."""
    key, words = (
        Vault.generate_key(),
        [sys.executable, "-c", IN_ANOTHER_PROCESS, str(tmp_path / "service.db")],
    )
    async with opened(a_database(tmp_path, key=key)) as first:
        async with first.writing() as work:
            await integrators.add(work, "acme")
        async with opened(a_database(tmp_path, key=key)):
            for n in (1, 2):
                run = await asyncio.to_thread(
                    subprocess.run, words, capture_output=True, text=True, check=True
                )
                assert int(run.stdout) == n
                assert (tmp_path / "service.db-wal").exists()
                async with first.writing() as work:
                    await integrators.add(work, f"acme{n}")


@in_event_loop
async def test_another_key_raises_a_one_line_error(tmp_path):
    async with opened(a_database(tmp_path)):
        pass
    with pytest.raises(ConfigurationError, match=r"^the database was created with another key: [^\n]+$"):
        await a_database(tmp_path).open()


@pytest.mark.parametrize(
    "url",
    [
        *("service.db", "sqlite://", "sqlite:///:memory:", "mysql://root:s3cret@host/db", "://s3cret"),
        *("postgresql+psycopg://root:s3cret@host:s3cret/db", "postgresql+psycopg://root:s3cret@[::/db"),
    ],
)
def test_an_unsupported_url_is_rejected_without_being_quoted(url):
    with pytest.raises(ConfigurationError, match="sqlite:///FILE") as refusal:
        Database(url, vault=Vault(Vault.generate_key()), clock=FrozenClock(START))
    assert "s3cret" not in str(refusal.value)


def test_a_missing_directory_is_a_one_line_error(tmp_path, on_sqlite):
    with pytest.raises(ConfigurationError, match="cannot be opened"):
        asyncio.run(a_database(tmp_path / "nowhere").open())


def test_a_foreign_file_is_a_one_line_error(tmp_path, on_sqlite):
    (tmp_path / "service.db").write_text("not a database at all, but long enough to look like one" * 40)
    with pytest.raises(ConfigurationError, match="not an SQLite database"):
        asyncio.run(a_database(tmp_path).open())


def test_an_unreachable_server_is_an_error_without_its_password():
    url = "postgresql+psycopg://someone:s3cret@127.0.0.1:1/exposure"
    database = Database(url, vault=Vault(Vault.generate_key()), clock=FrozenClock(START))
    assert "s3cret" not in repr(database)
    with pytest.raises(ConfigurationError, match="cannot be opened") as refusal:
        asyncio.run(database.open())
    assert "s3cret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"database": "nowhere"}, "there is no database nowhere"),
        ({"username": "nobody"}, "there is no role nobody"),
        ({"host": "db.invalid", "query": {}}, "the host db.invalid is unknown"),
        (
            {"host": "127.0.0.1", "port": 1, "query": {}},
            "connection refused; no server listens at 127.0.0.1, port 1",
        ),
        ({"query": {"host": "/nowhere"}}, "no server listens on its socket"),
    ],
)
def test_what_is_wrong_with_a_server_is_named(tmp_path, changes, reason):
    with stored_in("postgresql"):
        url = make_url(url_of(tmp_path))
    wrong = {name: value for name, value in changes.items() if name != "query"}
    url = url.set(password="s3cret", **wrong)
    if "query" in changes:
        url = url._replace(query=changes["query"])
    database = Database(
        url.render_as_string(hide_password=False), vault=Vault(Vault.generate_key()), clock=FrozenClock(START)
    )
    with pytest.raises(ConfigurationError, match=f"cannot be opened: {reason}$") as refusal:
        asyncio.run(database.open())
    assert "s3cret" not in str(refusal.value)


END_OTHER_CONNECTIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


def test_a_read_only_server_is_refused_and_answers_503(tmp_path):
    with stored_in("postgresql"), a_service(tmp_path) as service:
        url = make_url(url_of(tmp_path))
        engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with engine.connect() as server:
            server.execute(text(f'ALTER DATABASE "{url.database}" SET default_transaction_read_only = on'))
            server.execute(text(END_OTHER_CONNECTIONS))
        assert service.call("POST", "/users", json=JANE).status_code == 503
        assert service.http.get(f"{service.base_url}/health").status_code == 200
        vault = service.database.vault
        database = Database(url.render_as_string(hide_password=False), vault=vault, clock=service.clock)
        with pytest.raises(ConfigurationError, match=r"cannot be opened: the server is read-only$"):
            asyncio.run(database.open(writable=True))


@in_event_loop
async def test_opening_to_write_writes(tmp_path, on_sqlite):
    """As a disk does that became full while the log and its index were in place."""
    key = Vault.generate_key()
    async with opened(a_database(tmp_path, key=key)), opened(a_database(tmp_path, key=key)) as database:
        with (
            file_size_limit((tmp_path / "service.db-wal").stat().st_size),
            pytest.raises(
                ConfigurationError, match=r"cannot be opened: the disk of service\.db reports an error$"
            ),
        ):
            await database.open(writable=True)


@in_event_loop
async def test_opening_to_write_does_not_wait_for_a_writer(tmp_path):
    key = Vault.generate_key()
    async with opened(a_database(tmp_path, key=key)) as database, database.writing():
        other = await a_database(tmp_path, key=key, busy_timeout_s=0).open(writable=True)
        await other.close()


def test_a_forbidden_socket_is_named():
    """As a service's user meets a server whose socket only another user may use."""
    message = 'connection failed: connection to server on socket "/run/s" failed: Permission denied'
    error = OperationalError(None, None, psycopg.OperationalError(message))
    url = make_url("postgresql+psycopg:///exposure?host=/run")
    assert explain(error, url) == "its socket cannot be used by this user"


async def fill_the_disk(database):
    async with database.writing() as work:
        await work.first(text("PRAGMA max_page_count=1"))  # as if the disk had no more room
        await work.run(insert(tables.service_metadata), {"name": "filler", "value": "x" * 1_000_000})


@in_event_loop
async def test_a_full_disk_and_a_replaced_file_are_named(tmp_path, on_sqlite):
    async with opened(a_database(tmp_path)) as database:
        with pytest.raises(OperationalError) as full:
            await fill_the_disk(database)
        assert database.explain(full.value) == "no space is left on the disk of service.db: free some space"
        (tmp_path / "service.db").rename(tmp_path / "moved.db")
        (tmp_path / "service.db").touch()
        with pytest.raises(OperationalError) as replaced:
            async with database.writing():
                pass
        assert (
            database.explain(replaced.value) == "service.db was removed or replaced; restart serve and worker"
        )


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), "the host db is unknown"),
        (
            Exception("server does not support SSL, but SSL was required"),
            "the server at db offers no encrypted connection",
        ),
        (Exception("SSL error: certificate verify failed"), "the encrypted connection to db failed"),
        (Exception("a table named SSL"), "Exception"),
    ],
)
def test_a_fault_of_a_server_is_explained_without_its_password(cause, words):
    assert explain(cause, make_url("postgresql+psycopg://role:secret@db/name")) == words


@in_event_loop
async def test_a_new_file_is_private_and_durable(tmp_path, on_sqlite):
    new = Database(url_of(tmp_path), vault=Vault(Vault.generate_key()), clock=FrozenClock(START))
    async with opened(new) as database, database.writing() as work:
        names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        values = [(await work.first(text(f"PRAGMA {name}")))[0] for name in names]
    assert values == ["wal", 2, 1, 10_000]
    assert stat.S_IMODE((tmp_path / "service.db").stat().st_mode) == 0o600


@in_event_loop
async def test_a_file_that_is_not_durable_waits_for_no_disk(tmp_path, on_sqlite):
    async with opened(a_database(tmp_path, durable=False)) as database:
        with pytest.raises(ZeroDivisionError):
            await add_and_fail(database)
        async with database.writing() as work:
            assert (await work.first(text("PRAGMA synchronous")))[0] == 0
            assert await integrators.all(work) == []
            await integrators.add(work, "acme")
        async with database.reading() as work:
            assert len(await integrators.all(work)) == 1


async def add_and_fail(database, after_commit=print):
    async with database.writing() as work:
        work.after_commit(after_commit)
        await integrators.add(work, "acme")
        raise ZeroDivisionError


async def names_in(database):
    async with database.reading() as work:
        return [one.name for one in await integrators.all(work)]


@in_event_loop
async def test_an_exception_rolls_the_transaction_back(tmp_path):
    async with opened(a_database(tmp_path)) as database:
        with pytest.raises(ZeroDivisionError):
            await add_and_fail(database)
        assert await names_in(database) == []


@in_event_loop
async def test_an_action_after_the_commit_needs_the_commit(tmp_path):
    called = []
    async with opened(a_database(tmp_path)) as database:
        async with database.writing() as work:
            await integrators.add(work, "zeta")
            work.after_commit(lambda: called.append("committed"))
            assert called == []
        assert called == ["committed"]
        with pytest.raises(ZeroDivisionError):
            await add_and_fail(database, after_commit=lambda: called.append("rolled back"))
        assert called == ["committed"]


@in_event_loop
async def test_a_cancelled_transaction_is_rolled_back_and_blocks_no_other(tmp_path):
    inside = asyncio.Event()

    async def never_ends(database):
        async with database.writing() as work:
            await integrators.add(work, "acme")
            inside.set()
            await asyncio.Event().wait()

    async with opened(a_database(tmp_path)) as database:
        task = asyncio.create_task(never_ends(database))
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with database.writing() as work:
            await integrators.add(work, "zeta")
        assert await names_in(database) == ["zeta"]


@in_event_loop
async def test_a_reader_does_not_wait_for_a_writer(tmp_path):
    async with opened(a_database(tmp_path)) as database:
        async with database.writing() as writing:
            await integrators.add(writing, "acme")
            assert await names_in(database) == []
        assert await names_in(database) == ["acme"]


@in_event_loop
async def test_concurrent_writers_all_succeed(tmp_path):
    async def write(database, number):
        async with database.writing() as work:
            await integrators.add(work, f"acme-{number}")

    async with opened(a_database(tmp_path)) as database:
        await asyncio.gather(*(write(database, number) for number in range(50)))
        assert len(await names_in(database)) == 50


@in_event_loop
async def test_an_id_is_never_reused(tmp_path):
    async with opened(a_database(tmp_path)) as database, database.writing() as work:
        await integrators.add(work, "acme")
        await integrators.remove(work, "acme")
        await integrators.add(work, "acme")
        [integrator] = await integrators.all(work)
    assert integrator.id == 2


@in_event_loop
async def test_a_datetime_without_a_zone_is_rejected(tmp_path):
    row = {"name": "x", "api_key_digest": b"1", "api_secret_digest": b"2"}
    row["created_at"] = START.replace(tzinfo=None)
    async with opened(a_database(tmp_path)) as database, database.reading() as work:
        with pytest.raises(StatementError, match="without a time zone"):
            await work.run(insert(tables.integrators), row)


@in_event_loop
async def test_a_repeated_statement_has_the_same_effect_each_time(tmp_path):
    columns = tables.users.c
    add, change = insert(tables.users), update(tables.users).where(columns.id == bindparam("user_id"))
    every = select(columns.is_scanning, columns.version, columns.scanned_at, columns.ciphertext)
    async with opened(a_database(tmp_path)) as database, database.writing() as work:
        await integrators.add(work, "acme")
        [integrator] = await integrators.all(work)
        for number in (1, 2, 3):
            user = {"integrator_id": integrator.id, "ciphertext": b"", "created_at": START}
            assert await work.add(add, user | {"secret_ciphertext": b"%d" % number}) == number
            changes = {"is_scanning": True, "scanned_at": START, "ciphertext": b"\0", "user_id": number}
            assert await work.run(change, changes) == 1
        for _ in range(3):
            rows = await work.all(every)
            assert [row._asdict() for row in rows] == [
                {"is_scanning": True, "version": 0, "scanned_at": START, "ciphertext": b"\0"}
            ] * 3
            assert await work.first(every) == rows[0]


@in_event_loop
async def test_a_repeated_statement_that_fails_raises_the_same_error(tmp_path):
    row = {"name": "x", "api_key_digest": b"1", "api_secret_digest": b"2", "created_at": START}
    add = insert(tables.integrators)
    async with opened(a_database(tmp_path)) as database:
        async with database.writing() as work:
            await work.add(add, row)
        for _ in range(3):
            with pytest.raises(IntegrityError) as error:
                async with database.writing() as work:
                    await work.add(add, row)
            assert "b'1'" not in str(error.value)
        assert await names_in(database) == ["x"]


def test_every_statement_of_the_service_compiles_for_postgresql():
    modules = (alerts, auth, candidates, consent, findings, outbox, save_scan, removals, statistics)
    modules += (removal_job, user_items, users)
    values = [value for module in modules for value in vars(module).values()]
    statements = [value for value in values if isinstance(value, Executable)]
    assert len(statements) > 25
    for statement in statements:
        assert str(statement.compile(dialect=postgresql.dialect()))


def test_only_ciphertext_is_bound_to_personal_columns():
    clear = {
        "users": "id integrator_id is_scanning identification_on_file created_at version scanned_at"
        " due_at lease lease_until",
        "user_items": "id user_id kind",
        "records": "id user_id site status absences opt_out_attempts refused_at created_at changed_at searched_at"
        " due_at lease lease_until",
        "links": "id user_id created_at",
        "alerts": "id user_id kind record_id link_id created_at",
        "service_history": "id user_id event at",
        "candidates": "id user_id site verdict score observed_at",
        "events": "id user_id delivery_id kind created_at",
        "deliveries": "id user_id webhook_id state opened_at failed_attempts ended_at due_at lease lease_until",
    }
    for name, expected in clear.items():
        columns = {column.name for column in tables.metadata.tables[name].columns}
        columns = {column for column in columns if "ciphertext" not in column and "digest" not in column}
        assert columns == {*expected.split()}


@pytest.mark.parametrize("replaced", [False, True])
def test_a_removed_or_replaced_file_is_not_written(on_sqlite, tmp_path, replaced):
    """Writes to a removed file would be acknowledged and lost."""
    with a_service(tmp_path) as service:
        created = service.call("POST", "/users", json=JANE).json()["user"]
        [file] = tmp_path.glob("*.db")
        content = file.read_bytes()
        file.unlink()
        if replaced:
            (tmp_path / "copy").write_bytes(content)  # first, so that it cannot get the same inode
            (tmp_path / "copy").rename(file)
        service.becomes_unavailable()
        answers = (
            service.call("GET", "/users"),
            service.call("GET", f"/users/{created['id']}", created),
            service.call("POST", "/users", json=JANE),
        )
    assert [answer.status_code for answer in answers] == [503] * 3
    assert answers[2].json() == {"error": "the database is not available"}


@pytest.mark.usefixtures("on_sqlite")
@in_event_loop
async def test_whoever_has_waited_for_the_file_writes_next(tmp_path):
    """Each database stands for a process. One that always has a next write must not keep the others waiting."""
    key, wrote = Vault.generate_key(), []

    async def write(database, name):
        async with database.writing():
            wrote.append(name)

    async with AsyncExitStack() as stack:
        first, patient, *eager = [
            await stack.enter_async_context(opened(a_database(tmp_path, key=key))) for _ in range(6)
        ]
        for _ in range(5):
            wrote.clear()
            async with first.writing():
                waiting = [asyncio.create_task(write(patient, "patient"))]
                await asyncio.sleep(0)
                waiting += [asyncio.create_task(write(one, "eager")) for one in (first, *eager)]
                await asyncio.sleep(0)
            await asyncio.gather(*waiting)
            assert wrote == ["patient", *["eager"] * 5]


@pytest.mark.usefixtures("on_sqlite")
@in_event_loop
async def test_only_the_owner_can_hold_up_writers(tmp_path):
    """They queue in a file that nobody else can open; a reader of the directory may lock that."""
    fcntl = pytest.importorskip("fcntl")
    directory = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_EX)
    try:
        async with (
            opened(a_database(tmp_path)) as database,
            asyncio.timeout(5),
        ):  # half of the wait for the lock
            async with database.writing() as work:
                await integrators.add(work, "acme")
            queue = tmp_path / "service.db-queue"
            assert queue.stat().st_mode & 0o777 == 0o600
            with queue.open("rb") as file:  # as a process that is stopped while it waits
                fcntl.flock(file, fcntl.LOCK_EX)
                async with database.writing() as work:
                    await integrators.add(work, "beta")
    finally:
        os.close(directory)


@pytest.mark.usefixtures("on_sqlite")
@in_event_loop
async def test_a_write_that_waits_for_too_long_fails(tmp_path):
    key = Vault.generate_key()
    async with (
        opened(a_database(tmp_path, key=key)) as first,
        opened(a_database(tmp_path, key=key, busy_timeout_s=0.1)) as other,
    ):
        async with first.writing():
            with pytest.raises(OperationalError, match="locked"):
                async with other.writing():
                    pytest.fail("two write")
        async with first.writing() as work:  # it left the queue
            await integrators.add(work, "acme")
        async with other.writing() as work:
            await integrators.add(work, "beta")
