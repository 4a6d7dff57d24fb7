"""Migrations: a database of any earlier version is upgraded with all its rows, or not at all."""

import asyncio
import importlib
import importlib.util
import json
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import MetaData, create_engine, text
from support.services import LISTING, SITE, START, opened, url_of

from exposurekit.errors import ConfigurationError
from exposurekit.service.accounts import consent, integrators, users
from exposurekit.service.clock import FrozenClock
from exposurekit.service.findings import candidates, evidence, findings
from exposurekit.service.storage import leases, migrations, tables
from exposurekit.service.storage.database import Database
from exposurekit.service.storage.encryption import Vault
from exposurekit.service.webhooks import outbox

VERSIONS = Path(migrations.__file__).parent / "versions"
STEPS = sorted(file.stem for file in VERSIONS.glob("0*.py"))
KEY = Vault.generate_key()


@pytest.fixture
def url(store, tmp_path):
    return url_of(tmp_path)


@pytest.fixture
def urls(store, tmp_path):
    """Four new databases."""
    for name in "1234":
        (tmp_path / name).mkdir()
    return [url_of(tmp_path / name) for name in "1234"]


@contextmanager
def connected(url):
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def query(url, statement):
    with connected(url) as connection:
        return [tuple(row) for row in connection.execute(text(statement))]


def change(url, statement):
    with connected(url) as connection:
        connection.execute(text(statement))


async def open_and_close(url, function=None):
    async with opened(Database(url, vault=Vault(KEY), clock=FrozenClock(START))) as database:
        if function is None:
            return None
        async with database.writing() as work:
            return await function(work)


def open_it(url, function=None):
    return asyncio.run(open_and_close(url, function))


def version(url):
    return query(url, "SELECT version_num FROM alembic_version")


def step_of(name):
    return importlib.import_module(f"exposurekit.service.storage.migrations.versions.{name}")


EARLIER = ["first step", "before steps", "second step"]


def create_earlier(url, name):
    """A database after some steps; before there were steps, one like that of the first had no version."""
    steps = {"new": 0, "first step": 1, "before steps": 1, "second step": 2, "third step": 3}
    run_steps(url, steps[name])
    if name == "before steps":
        change(url, "DROP TABLE alembic_version")


def run_steps(url, count, *, after=0):
    if count == 0:
        return
    with connected(url) as connection:
        context = MigrationContext.configure(connection)
        for name in STEPS[after:count]:
            step_of(name).upgrade(Operations(context))
        context.stamp(ScriptDirectory(str(VERSIONS.parent)), STEPS[count - 1][:4])


RENAMED_TABLES = {"marks": "metadata", "details": "user_items"}
RENAMED_COLUMNS = {
    "sealed": "ciphertext",
    "sealed_secret": "secret_ciphertext",
    "sealed_callback": "callback_ciphertext",
    "sealed_body": "body_ciphertext",
    "gone_looks": "absences",
    "tries": "opt_out_attempts",
    "looks": "scans",
    "inconclusive_looks": "inconclusive_scans",
    "distrusted_looks": "untrusted_scans",
    "last_look_at": "last_scan_at",
    "last_good_look_at": "last_good_scan_at",
    "seen_at": "observed_at",
    "given_by": "granted_by",
    "given_at": "granted_at",
}


def renamed(rows):
    """Rows by the old table's name, under today's names."""
    return {
        RENAMED_TABLES.get(name, name): {RENAMED_COLUMNS.get(column, column): row[column] for column in row}
        for name, row in rows.items()
    }


def add_rows(url, rows, existing=()):
    with connected(url) as connection:
        for name, row in rows.items():
            table = as_declared(connection, name)
            connection.execute(table.update() if name in existing else table.insert(), row)


def fill(url):
    """Add a user with everything of the first version. Return the row of each table."""
    vault = Vault(KEY)
    person = {"first_name": "Jane", "last_name": "Doe", "middle_name": "", "birth_date": None}
    link = {"url": "https://club.example/members", "title": "Members", "contains": ["email"]}
    digest = vault.fingerprint(f"7\0{SITE.name}\0{LISTING.reference_id}", "reference_id")
    words = {"text": "New record", "html": "<p>", "url": "", "guide": "", "opt_out_procedure": []}
    at = {"created_at": START}
    hers = {"user_id": 7} | at
    rows = {
        "marks": {"name": "key fingerprint", "value": vault.key_fingerprint},
        "integrators": {"id": 3, "name": "acme", "api_key_digest": b"1" * 32, "api_secret_digest": b"2" * 32}
        | at,
        "users": {"id": 7, "integrator_id": 3, "is_scanning": False, "identification_on_file": True} | at,
        "details": {"id": 4, "user_id": 7, "kind": "emails"},
        "records": {"id": 5, "site": SITE.name, "status": "pending removal", "gone_looks": 1} | hers,
        "links": {"id": 6, "url_digest": b"3" * 32} | hers,
        "alerts": {"id": 8, "kind": "new record", "record_id": 5, "link_id": None} | hers,
        "service_history": {"id": 9, "user_id": 7, "event": "activated_service_on", "at": START},
    }
    rows["users"]["sealed_secret"] = vault.encrypt("1" * 18, "secrets:7")
    rows["records"] |= {"reference_digest": digest, "changed_at": START}
    values = {"users": person, "records": LISTING.stored(SITE), "links": link, "alerts": words}
    for name, value in values.items():
        rows[name]["sealed"] = vault.encrypt(value, f"{name}:7")
    rows["details"]["sealed"] = vault.encrypt({"address": "x"}, "emails:7")
    add_rows(url, rows)
    return rows


def fill_second(url):
    """Fill every table and column that the second version added. Return the row of each table."""
    vault = Vault(KEY)
    digest = {"reference_digest": b"4" * 32}
    body = '{"user_id":7,"events":["new_records"],"new_records":[]}'
    candidate = {"listing": LISTING.stored(SITE), "reasons": ["same name"]}
    callback = {"url": "https://acme.example/hook", "secret": None}
    rows = {
        "integrators": {"sealed_callback": vault.encrypt(callback, "callbacks:3"), "attested_by": "Acme"},
        "records": {"tries": 2},
        "sites": {"name": SITE.name, "looks": 9, "inconclusive_looks": 4, "distrusted_looks": 3}
        | {"last_look_at": START + timedelta(days=2), "last_good_look_at": START, "last_reason": "blocked"},
        "candidates": {"id": 11, "user_id": 7, "site": SITE.name, "verdict": "possible", "score": 0.5}
        | {"sealed": vault.encrypt(candidate, "candidates:7"), "seen_at": START}
        | digest,
        "consents": {"id": 15, "user_id": 7, "purpose": "removal", "given_by": "Jane", "given_at": START}
        | {"withdrawn_by": "Jane", "withdrawn_at": START + timedelta(days=1)},
        "deliveries": {"id": 12, "user_id": 7, "webhook_id": "msg_1", "state": "frozen", "opened_at": START}
        | {"sealed_body": vault.encrypt(body, "deliveries:7"), "failed_attempts": 1, "due_at": START},
        "events": {"id": 13, "user_id": 7, "delivery_id": 12, "kind": "new_records", "created_at": START}
        | {"sealed": vault.encrypt({"id": 5}, "events:7")},
        "attempts": {"id": 14, "delivery_id": 12, "at": START, "status": 500, "outcome": "status 500"},
    }
    add_rows(url, rows, existing={"integrators", "records"})
    for number, state in enumerate(("open", "delivered", "dead"), 20):
        row = {"id": number, "user_id": 7, "webhook_id": f"msg_{number}", "state": state}
        add_rows(url, {"deliveries": row | {"opened_at": START, "failed_attempts": 0}})
    return rows


def as_declared(connection, name):
    """A table as it is, with datetimes read as the service reads them."""
    reflected = MetaData()
    reflected.reflect(connection, only=[name], resolve_fks=False)
    declared = tables.metadata.tables[RENAMED_TABLES.get(name, name)]
    for column in reflected.tables[name].c:
        column.type = declared.c[RENAMED_COLUMNS.get(column.name, column.name)].type
    return reflected.tables[name]


def rows_of(url, names):
    with connected(url) as connection:
        return {
            name: [dict(row._mapping) for row in connection.execute(as_declared(connection, name).select())]
            for name in names
        }


@pytest.mark.parametrize("earlier", EARLIER)
def test_an_earlier_database_is_upgraded_with_its_rows(url, earlier):
    create_earlier(url, earlier)
    before = renamed(fill(url))
    open_it(url)
    assert version(url) == [(migrations.NEWEST,)]
    after = rows_of(url, before)
    assert {name: [row.items() >= before[name].items() for row in rows] for name, rows in after.items()} == {
        name: [True] for name in before
    }
    for name, [row] in after.items():
        added = {column: value for column, value in row.items() if column not in before[name]}
        assert added == {
            column.name: int(column.server_default.arg.text) if column.server_default is not None else None
            for column in tables.metadata.tables[name].c
            if column.name not in before[name]
        }
    assert {"due_at", "lease", "lease_until"} <= after["records"][0].keys() - before["records"].keys()
    assert after["records"][0]["opt_out_attempts"] == 0
    check_service(url)


def check_service(url):
    """The service works with the rows of the earlier version, which had no recorded consent."""

    async def check(work):
        assert await users.get_subject(work, 7) is not None
        assert not await consent.may_scan(work, 7)
        assert not await consent.schedule_scan(work, 7)
        await consent.consent(work, 7, granted_by="Jane Doe, in writing")
        assert await consent.may_scan(work, 7)
        assert await findings.discover_record(work, 7, LISTING, SITE) == 5
        assert len(await findings.list_alerts(work, 7)) == 1
        scan = evidence.Scan("0" * 16, SITE.name, "scan", START)
        await evidence.append(work, 7, 5, evidence.after(LISTING, [], scan))
        work.clock.advance(timedelta(days=1))
        assert (await evidence.export(work, 7)).after == 1
        assert (await findings.list_links(work, 7))[0]["title"] == "Members"

    open_it(url, check)


@pytest.mark.parametrize("steps_before", [2, 3])
def test_renaming_keeps_rows_ciphertexts_and_states(url, steps_before):
    run_steps(url, 2)
    before = fill(url)
    for name, row in fill_second(url).items():
        before[name] = before.get(name, {}) | row
    run_steps(url, steps_before, after=2)
    assert version(url) == [(f"000{steps_before}",)]
    open_it(url)
    expected = renamed(before)
    expected["deliveries"]["state"] = "pending"
    after = {
        name: sorted(rows, key=lambda row: row.get("id", 0)) for name, rows in rows_of(url, expected).items()
    }
    unchanged = {name: rows[0].items() >= expected[name].items() for name, rows in after.items()}
    assert unchanged == dict.fromkeys(expected, True)
    states = {12: "pending", 20: "open", 21: "delivered", 22: "dead"}
    assert {row["id"]: row["state"] for row in after["deliveries"]} == states
    assert not {*RENAMED_COLUMNS, "frozen"} & {column for rows in after.values() for column in rows[0]}


def test_the_service_decrypts_values_of_earlier_versions(url):
    run_steps(url, 2)
    fill(url)
    fill_second(url)

    async def read(work):
        subject = await users.get_subject(work, 7)
        [user] = json.loads(await users.page(work, 3, {}))["users"]
        [candidate] = await candidates.all(work)
        lease = await leases.acquire_one(work, tables.deliveries, 12, duration=timedelta(minutes=1))
        delivery = await outbox.prepare(work, lease)
        return subject, user, candidate, delivery

    subject, user, candidate, delivery = open_it(url, read)
    assert user == {"id": 7, "secret": "1" * 18}
    assert subject.emails == ("x",)
    assert candidate.reasons == ("same name",)
    assert delivery.body == b'{"user_id":7,"events":["new_records"],"new_records":[]}'
    assert delivery.callback.url == "https://acme.example/hook"


@pytest.mark.parametrize("earlier", EARLIER)
def test_ids_continue_after_an_upgrade(url, earlier):
    create_earlier(url, earlier)
    fill(url)
    change(url, "DELETE FROM integrators")
    if url.startswith("postgresql"):
        change(url, "SELECT setval('users_id_seq', 7)")

    async def create(work):
        await integrators.add(work, "zeta")
        [integrator] = await integrators.all(work)
        return (await users.create(work, integrator.id, {"first_name": "John", "last_name": "Roe"})).id

    assert open_it(url, create) == 8


@pytest.mark.parametrize("earlier", ["new", *EARLIER, "third step"])
def test_connections_that_upgrade_concurrently_lead_to_the_declared_tables(url, earlier):
    create_earlier(url, earlier)

    async def open_all():
        await asyncio.gather(*(open_and_close(url) for _ in range(4)))

    asyncio.run(open_all())
    assert version(url) == [(migrations.NEWEST,)]
    assert len(rows_of(url, ["metadata"])["metadata"]) == 1
    with connected(url) as connection:
        options = {"compare_type": True, "compare_server_default": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), tables.metadata) == []


def catalogue(url):
    """Columns, keys and indexes, regardless of the order of columns."""
    return on_sqlite(url) if url.startswith("sqlite") else on_postgresql(url)


def on_sqlite(url):
    schema = set()
    for name, sql in query(url, "SELECT name, sql FROM sqlite_master WHERE type = 'table'"):
        schema.add((name, "autoincrement", "AUTOINCREMENT" in sql))
        schema |= {(name, *row[1:]) for row in query(url, f"PRAGMA table_info({name})")}
        schema |= {(name, "key", *row[2:]) for row in query(url, f"PRAGMA foreign_key_list({name})")}
        for _, index, unique, origin, partial in query(url, f"PRAGMA index_list({name})"):
            columns = tuple(row[2] for row in query(url, f"PRAGMA index_info({index})"))
            schema.add((name, "index", unique, origin, partial, columns, "" if origin != "c" else index))
    for name, sql in query(
        url, "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    ):
        schema.add((name, " ".join(sql.split())))
    return {row for row in schema if "sqlite_sequence" not in row}


def on_postgresql(url):
    columns = "table_name, column_name, data_type, character_maximum_length, is_nullable, column_default"
    keys = "conrelid::regclass::text, pg_get_constraintdef(oid)"
    statements = (
        f"SELECT {columns} FROM information_schema.columns WHERE table_schema = 'public'",  # noqa: S608
        f"SELECT {keys} FROM pg_constraint WHERE conrelid <> 0 AND connamespace = 'public'::regnamespace",  # noqa: S608
        "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    )
    return {row for statement in statements for row in query(url, statement)}


def test_databases_opened_concurrently_have_the_declared_schema(urls):
    """Whether created or upgraded; also what a comparison of types omits: cascades, partial indexes, autoincrement."""
    one, other, declared, upgraded = urls

    async def open_both():
        await asyncio.gather(open_and_close(one), open_and_close(other))

    asyncio.run(open_both())
    with connected(declared) as connection:
        tables.metadata.create_all(connection)
    run_steps(upgraded, len(STEPS))
    assert version(one) == version(other) == version(upgraded) == [(migrations.NEWEST,)]
    expected = catalogue(upgraded)
    assert len(expected) > 100
    assert catalogue(one) ^ expected == set()
    assert catalogue(other) ^ expected == set()
    assert {row for row in expected if row[0] != "alembic_version"} ^ catalogue(declared) == set()


def test_the_steps_are_numbered_consecutively():
    assert STEPS[0].startswith(f"{migrations.FIRST}_")
    assert STEPS[-1].startswith(f"{migrations.NEWEST}_")
    before = None
    for name in STEPS:
        step = step_of(name)
        assert (step.revision, step.down_revision) == (name[:4], before)
        before = step.revision
    assert {file.stem for file in VERSIONS.glob("*.py")} == {"__init__", *STEPS}


def state(url):
    """A value that any change of the tables changes."""
    if url.startswith("sqlite"):
        return query(url, "PRAGMA schema_version")
    statement = "SELECT relname, oid, xmin::text FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    return sorted(query(url, statement))


def test_reopening_changes_nothing(url):
    open_it(url)
    before = state(url), rows_of(url, ["metadata"]), version(url)
    open_it(url)
    assert (state(url), rows_of(url, ["metadata"]), version(url)) == before


def test_a_later_version_is_rejected_and_unchanged(url):
    open_it(url)
    change(url, "UPDATE alembic_version SET version_num = '9999'")
    before = state(url)
    with pytest.raises(
        ConfigurationError, match=r"^the database was created by a newer version of exposurekit: [^\n]+$"
    ):
        open_it(url)
    assert (state(url), version(url)) == (before, [("9999",)])


@pytest.mark.parametrize("earlier", ["before steps", "second step"])
def test_a_failing_step_leaves_the_database_unchanged(url, earlier):
    create_earlier(url, earlier)
    fill(url)
    users_before = rows_of(url, ["users"])
    change(url, "CREATE TABLE user_items (id INTEGER)")  # the third step fails in its middle
    before = catalogue(url)
    with pytest.raises(ConfigurationError, match=r"^the database [^\n]+ cannot be opened[^\n]+$"):
        open_it(url)
    assert catalogue(url) == before
    assert rows_of(url, ["users"]) == users_before
    change(url, "DROP TABLE user_items")
    open_it(url)
    assert version(url) == [(migrations.NEWEST,)]


def test_processes_may_open_a_new_database_concurrently(url):
    script = (
        "import asyncio, sys\n"
        "from exposurekit.service.clock import Clock\n"
        "from exposurekit.service.storage.database import Database\n"
        "from exposurekit.service.storage.encryption import Vault\n"
        "async def main():\n"
        "    database = Database(sys.argv[1], vault=Vault(bytes.fromhex(sys.argv[2])), clock=Clock())\n"
        "    sys.stdin.readline()\n"
        "    await database.open()\n"
        "    await database.close()\n"
        "asyncio.run(main())\n"
    )
    arguments = [sys.executable, "-W", "error", "-c", script, url, KEY.hex()]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(arguments, **pipes) for _ in range(2)]
    for process in processes:
        process.stdin.write("now\n")
        process.stdin.flush()
    results = [(process.communicate(timeout=300)[1], process.returncode) for process in processes]
    assert results == [("", 0)] * 2
    assert version(url) == [(migrations.NEWEST,)]


def test_opening_a_new_file_waits_for_another_writer(tmp_path):
    """SQLite does not wait by itself when it switches the log on."""
    other = sqlite3.connect(tmp_path / "service.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    threading.Timer(0.3, other.execute, ["ROLLBACK"]).start()
    url = f"sqlite:///{tmp_path / 'service.db'}"
    open_it(url)
    other.close()
    assert version(url) == [(migrations.NEWEST,)]


def test_the_package_may_be_in_any_directory(url, tmp_path):
    directory = tmp_path / "100% ours, %(here)s"
    shutil.copytree(VERSIONS.parent, directory, ignore=shutil.ignore_patterns("__pycache__"))
    module_spec = importlib.util.spec_from_file_location("migrations_elsewhere", directory / "__init__.py")
    elsewhere = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(elsewhere)
    create_earlier(url, "first step")
    with connected(url) as connection:
        elsewhere.migrate(connection)
    assert version(url) == [(migrations.NEWEST,)]
