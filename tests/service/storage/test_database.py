"""The database: durable, whole transactions or none, one writer at a time, one key."""

import asyncio
import stat

import pytest
from sqlalchemy import Executable, insert, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import StatementError
from support.services import JANE, START, a_database, a_service, stored_in

from exposurekit.errors import ConfigurationError
from exposurekit.service.accounts import integrators, user_items, users
from exposurekit.service.api import auth
from exposurekit.service.clock import FrozenClock
from exposurekit.service.findings import alerts, findings, removals
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import Database
from exposurekit.service.storage.encryption import Vault

pytestmark = pytest.mark.usefixtures("store")


@pytest.fixture
def on_sqlite():
    with stored_in("sqlite"):
        yield


def test_what_is_written_is_there_after_a_restart(tmp_path):
    key = Vault.generate_key()

    async def write():
        database = await a_database(tmp_path, key=key).open()
        async with database.writing() as work:
            await integrators.add(work, "acme")
        await database.close()

    async def read():
        database = await a_database(tmp_path, key=key).open()
        async with database.reading() as work:
            [integrator] = await integrators.all(work)
        await database.close()
        return integrator

    asyncio.run(write())
    integrator = asyncio.run(read())
    assert (integrator.name, integrator.created_at) == ("acme", START)


def test_another_key_is_refused_in_one_line(tmp_path):
    async def open_and_close():
        await (await a_database(tmp_path).open()).close()

    asyncio.run(open_and_close())
    with pytest.raises(ConfigurationError, match=r"^the database was created with another key: [^\n]+$"):
        asyncio.run(open_and_close())


@pytest.mark.parametrize(
    "url",
    [
        *("service.db", "sqlite://", "sqlite:///:memory:", "mysql://root:s3cret@host/db", "://s3cret"),
        *("postgresql+psycopg://root:s3cret@host:s3cret/db", "postgresql+psycopg://root:s3cret@[::/db"),
    ],
)
def test_an_address_of_another_kind_is_refused_without_being_shown(url):
    with pytest.raises(ConfigurationError, match="sqlite:///FILE") as refusal:
        Database(url, vault=Vault(Vault.generate_key()), clock=FrozenClock(START))
    assert "s3cret" not in str(refusal.value)


def test_a_missing_directory_is_a_one_line_error(tmp_path, on_sqlite):
    with pytest.raises(ConfigurationError, match="cannot be opened"):
        asyncio.run(a_database(tmp_path / "nowhere").open())


def test_a_foreign_file_is_a_one_line_error(tmp_path, on_sqlite):
    (tmp_path / "service.db").write_text("not a database at all, but long enough to look like one" * 40)
    with pytest.raises(ConfigurationError, match="cannot be opened"):
        asyncio.run(a_database(tmp_path).open())


def test_an_unreachable_server_is_an_error_without_its_password():
    url = "postgresql+psycopg://someone:s3cret@127.0.0.1:1/exposure"
    database = Database(url, vault=Vault(Vault.generate_key()), clock=FrozenClock(START))
    assert "s3cret" not in repr(database)
    with pytest.raises(ConfigurationError, match="cannot be opened") as refusal:
        asyncio.run(database.open())
    assert "s3cret" not in str(refusal.value)


def test_the_file_is_private_and_survives_a_power_cut(tmp_path, on_sqlite):
    async def settings():
        database = await a_database(tmp_path).open()
        async with database.writing() as work:
            names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            values = [(await work.first(text(f"PRAGMA {name}")))[0] for name in names]
        await database.close()
        return values

    assert asyncio.run(settings()) == ["wal", 2, 1, 10_000]
    assert stat.S_IMODE((tmp_path / "service.db").stat().st_mode) == 0o600


def test_an_exception_leaves_nothing_behind(tmp_path):
    async def fail():
        database = await a_database(tmp_path).open()

        async def add_and_fail():
            async with database.writing() as work:
                await integrators.add(work, "acme")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await add_and_fail()
        async with database.reading() as work:
            stored = await integrators.all(work)
        await database.close()
        return stored

    assert asyncio.run(fail()) == []


def test_a_cancelled_transaction_leaves_nothing_behind_and_holds_up_nobody(tmp_path):
    async def cancel():
        database = await a_database(tmp_path).open()
        inside = asyncio.Event()

        async def never_ends():
            async with database.writing() as work:
                await integrators.add(work, "acme")
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(never_ends())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with database.writing() as work:
            await integrators.add(work, "zeta")
            stored = await integrators.all(work)
        await database.close()
        return [one.name for one in stored]

    assert asyncio.run(cancel()) == ["zeta"]


def test_a_reader_does_not_wait_for_a_writer(tmp_path):
    async def read_while_writing():
        database = await a_database(tmp_path).open()
        async with database.writing() as writing:
            await integrators.add(writing, "acme")
            async with database.reading() as reading:
                before = await integrators.all(reading)
        async with database.reading() as reading:
            after = await integrators.all(reading)
        await database.close()
        return len(before), len(after)

    assert asyncio.run(read_while_writing()) == (0, 1)


def test_fifty_writers_at_once_wait_their_turn(tmp_path):
    async def write_all():
        database = await a_database(tmp_path).open()

        async def write(number):
            async with database.writing() as work:
                await integrators.add(work, f"acme-{number}")

        await asyncio.gather(*(write(number) for number in range(50)))
        async with database.reading() as work:
            stored = await integrators.all(work)
        await database.close()
        return len(stored)

    assert asyncio.run(write_all()) == 50


def test_an_id_is_never_given_twice(tmp_path):
    async def remove_and_add():
        database = await a_database(tmp_path).open()
        async with database.writing() as work:
            await integrators.add(work, "acme")
            await integrators.remove(work, "acme")
            await integrators.add(work, "acme")
            [integrator] = await integrators.all(work)
        await database.close()
        return integrator.id

    assert asyncio.run(remove_and_add()) == 2


def test_an_instant_without_a_zone_is_refused(tmp_path):
    async def write():
        database = await a_database(tmp_path).open()
        row = {
            "name": "x",
            "api_key_digest": b"1",
            "api_secret_digest": b"2",
            "created_at": START.replace(tzinfo=None),
        }
        try:
            async with database.writing() as work:
                await work.run(insert(tables.integrators), row)
        finally:
            await database.close()

    with pytest.raises(StatementError, match="without a time zone"):
        asyncio.run(write())


def test_every_statement_of_the_service_compiles_for_postgresql():
    rooms = (alerts, user_items, findings, auth, removals, users)
    statements = [value for room in rooms for value in vars(room).values() if isinstance(value, Executable)]
    assert len(statements) > 15
    for statement in statements:
        assert str(statement.compile(dialect=postgresql.dialect()))


def test_only_ciphertext_is_bound_to_personal_columns():
    clear = {
        "users": {
            *(
                "id",
                "integrator_id",
                "is_scanning",
                "identification_on_file",
                "created_at",
                "version",
                "scanned_at",
            ),
            *("due_at", "lease", "lease_until"),
        },
        "user_items": {"id", "user_id", "kind"},
        "records": {
            *(
                "id",
                "user_id",
                "site",
                "status",
                "absences",
                "opt_out_attempts",
                "refused_at",
                "created_at",
                "changed_at",
            ),
            *("due_at", "lease", "lease_until"),
        },
        "links": {"id", "user_id", "created_at"},
        "alerts": {"id", "user_id", "kind", "record_id", "link_id", "created_at"},
        "service_history": {"id", "user_id", "event", "at"},
        "candidates": {"id", "user_id", "site", "verdict", "score", "observed_at"},
        "events": {"id", "user_id", "delivery_id", "kind", "created_at"},
        "deliveries": {
            *("id", "user_id", "webhook_id", "state", "opened_at", "failed_attempts", "ended_at"),
            *("due_at", "lease", "lease_until"),
        },
    }
    for name, expected in clear.items():
        columns = {column.name for column in tables.metadata.tables[name].columns}
        assert {
            column for column in columns if "ciphertext" not in column and "digest" not in column
        } == expected


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_is_gone_or_replaced_is_not_written(on_sqlite, tmp_path, replaced):
    """What is written to a removed file would be acknowledged and lost."""
    with a_service(tmp_path) as service:
        created = service.call("POST", "/users", json=JANE).json()["user"]
        [file] = tmp_path.glob("*.db")
        content = file.read_bytes()
        file.unlink()
        if replaced:
            (tmp_path / "copy").write_bytes(content)  # first, so that it cannot get the same inode
            (tmp_path / "copy").rename(file)
        answers = (
            service.call("GET", "/users"),
            service.call("GET", f"/users/{created['id']}", created),
            service.call("POST", "/users", json=JANE),
        )
    assert [answer.status_code for answer in answers] == [503] * 3
    assert answers[2].json() == {"error": "the database is not available"}
