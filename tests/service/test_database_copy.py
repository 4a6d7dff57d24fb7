"""A copy between SQLite and PostgreSQL has every row and the same ids, in one transaction or not at all."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest
from sqlalchemy import insert, select
from support import full_person, postgres
from support.services import JANE, START

from exposurekit.contract.inputs import AddressItem
from exposurekit.errors import ConfigurationError
from exposurekit.service import audit, database_check, database_copy, workers
from exposurekit.service.accounts import consent, integrators, users
from exposurekit.service.clock import FrozenClock
from exposurekit.service.storage import leases, tables
from exposurekit.service.storage.database import Database
from exposurekit.service.storage.encryption import Vault

KINDS = "sqlite", "postgresql"
LASTS = timedelta(minutes=5)
ADDRESS = AddressItem(city="Oakmere", state="CA", address1="", address2="", zip="")


class Copying:
    """A database with a row in every table, and an empty one with the same key."""

    def __init__(self, source_url, target_url):
        self.clock = FrozenClock(START)
        self.vault = Vault(Vault.generate_key())
        self.urls = source_url, target_url

    def run(self, task):
        async def run():
            async with AsyncExitStack() as stack:
                opened = [Database(url, vault=self.vault, clock=self.clock) for url in self.urls]
                for database in opened:
                    await database.open()
                    stack.push_async_callback(database.close)
                return await task(*opened)

        return asyncio.run(run())

    def copy(self):
        return self.run(lambda source, target: database_copy.copy(source, target, actor="jo"))

    def write(self, task, *, target=False):
        async def write(*databases):
            async with databases[target].writing() as session:
                return await task(session)

        return self.run(write)

    def rows(self, *, target):
        async def read(session):
            return {
                table.name: [
                    tuple(row) for row in await session.all(select(table).order_by(*table.primary_key))
                ]
                for table in tables.metadata.sorted_tables
            }

        return self.write(read, target=target)


def url_of(kind, file):
    return postgres.new_database() if kind == "postgresql" else f"sqlite:///{file}"


async def _register(session):
    await integrators.add(session, "acme", attested_by="Jo Doe")
    acme = await integrators.find(session, "acme")
    return (await users.create(session, acme.id, JANE | {"addresses": [ADDRESS]})).id


async def fill(session):
    """Fill every table; the last user who registered is gone."""
    user_id = await _register(session)
    await full_person.fill(session, user_id, "acme")
    acme = await integrators.find(session, "acme")
    gone = await users.create(session, acme.id, JANE | {"addresses": [ADDRESS]})
    await consent.purge(session, gone.id)
    await leases.acquire_one(session, tables.users, user_id, duration=LASTS)
    await session.run(insert(tables.mailboxes).values(address="optout@privacy.example"))
    await session.run(insert(tables.sites).values(name="Seekfolk", scans=3))
    await session.run(insert(tables.service_metadata).values(name="clock correction: scans", value="{}"))
    await audit.append(session, audit.Action("users rescan", "user 1"), actor="jo")
    await workers.note(session, "ended long ago")


@pytest.fixture(params=[(one, other) for one in KINDS for other in KINDS], ids="-".join)
def copying(request, tmp_path):
    source, target = request.param
    copying = Copying(url_of(source, tmp_path / "source.db"), url_of(target, tmp_path / "target.db"))
    copying.write(fill)
    copying.clock.advance(timedelta(days=2))
    return copying


@pytest.fixture
def file_copying(tmp_path):
    copying = Copying(f"sqlite:///{tmp_path / 'source.db'}", f"sqlite:///{tmp_path / 'target.db'}")
    copying.write(_register)
    return copying


def test_a_copy_has_every_row_and_no_lease(copying):
    before = copying.rows(target=False)
    assert {name for name, rows in before.items() if not rows} <= {"evidence_roots"}
    assert [row.lease for row in copying.write(lambda work: work.all(select(tables.users)))] != [None]
    copied = copying.copy()
    assert copying.rows(target=False) == before
    after = copying.rows(target=True)
    [*_, entry] = after["audit_entries"]
    assert entry[2:6] == ("jo", "service copy", None, f'{{"rows": {copied}}}')
    after["audit_entries"].pop()
    columns = [column.name for column in tables.users.c]
    [user] = [dict(zip(columns, row, strict=True)) for row in before.pop("users")]
    [hers] = [dict(zip(columns, row, strict=True)) for row in after.pop("users")]
    assert hers == user | {"lease": None, "lease_until": None}
    assert [row for row in before.pop("metadata") if not row[0].startswith("worker")] == after.pop("metadata")
    assert after == before


def test_a_copied_database_verifies_and_decrypts(copying):
    copying.copy()
    verified = copying.write(audit.verify, target=True)
    assert (verified.checked, verified.problem) == (2, None)
    checked, damage = copying.write(database_check.check, target=True)
    assert (checked > 20, damage) == (True, [])


def test_ids_continue_in_the_copy_after_deleted_ones(copying):
    """The ids of people who were purged are never used again."""
    copying.copy()
    [row] = copying.rows(target=True)["users"]

    async def register(session):
        acme = await integrators.find(session, "acme")
        return (await users.create(session, acme.id, JANE | {"addresses": [ADDRESS]})).id

    assert copying.write(register, target=True) == row[0] + 2


def test_an_id_is_not_reused_if_every_row_was_deleted(copying):
    async def purge_all(session):
        for row in await session.all(select(tables.users.c.id)):
            await consent.purge(session, row.id)

    copying.write(purge_all)
    copying.copy()

    async def register(session):
        acme = await integrators.find(session, "acme")
        return (await users.create(session, acme.id, JANE | {"addresses": [ADDRESS]})).id

    assert copying.write(register, target=True) == 3


def test_a_target_with_data_is_refused_and_unchanged(copying):
    copying.write(lambda work: integrators.add(work, "globex", attested_by=None), target=True)
    before = copying.rows(target=True)
    with pytest.raises(ConfigurationError, match="the target contains data"):
        copying.copy()
    assert copying.rows(target=True) == before


def test_a_source_with_a_worker_is_refused(file_copying):
    file_copying.write(lambda work: workers.note(work, "running"))
    with pytest.raises(ConfigurationError, match="a worker runs on the database: stop serve"):
        file_copying.copy()
    file_copying.clock.advance(timedelta(seconds=151))
    assert file_copying.copy() > 0


def test_a_database_is_not_copied_into_itself(file_copying):
    file_copying.urls = file_copying.urls[:1] * 2
    with pytest.raises(ConfigurationError, match="the target contains data"):
        file_copying.copy()


def test_a_copy_that_fails_leaves_the_target_empty(copying):
    before = copying.rows(target=True)

    async def fail(source, target):
        def stop(fraction):
            if fraction > 0.5:
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await database_copy.copy(source, target, actor="jo", on_progress=stop)

    copying.run(fail)
    assert copying.rows(target=True) == before
    assert copying.copy() > 0
    assert len(copying.rows(target=True)["users"]) == 1


def test_many_rows_are_copied_in_pages(file_copying, monkeypatch):
    monkeypatch.setattr(database_copy, "_ROWS", 7)
    names = [f"Site {n}" for n in range(50)]
    file_copying.write(lambda work: work.run(insert(tables.sites), [{"name": name} for name in names]))
    fractions = []

    async def copy(source, target):
        return await database_copy.copy(source, target, actor="jo", on_progress=fractions.append)

    file_copying.run(copy)
    assert sorted(row[0] for row in file_copying.rows(target=True)["sites"]) == sorted(names)
    assert (fractions == sorted(fractions), fractions[-1]) == (True, 1)
