"""Migrations: a database of any earlier version becomes one of this, whole or not at all, and keeps what it holds."""

import asyncio
import importlib
import importlib.util
import shutil
import subprocess
import sys
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import MetaData, create_engine, text
from support.services import LISTING, SITE, START, url_of

from exposurekit.errors import ConfigurationError
from exposurekit.service.accounts import consent, users
from exposurekit.service.clock import FrozenClock
from exposurekit.service.findings import candidates, findings
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


@contextmanager
def connected(url):
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def ask(url, question):
    with connected(url) as connection:
        return [tuple(row) for row in connection.execute(text(question))]


def change(url, statement):
    with connected(url) as connection:
        connection.execute(text(statement))


def database(url):
    return Database(url, vault=Vault(KEY), clock=FrozenClock(START))


async def opened(url, function=None):
    one = database(url)
    try:
        await one.open()
        if function is None:
            return None
        async with one.writing() as work:
            return await function(work)
    finally:
        await one.close()


def open_it(url, function=None):
    return asyncio.run(opened(url, function))


def version(url):
    return ask(url, "SELECT version_num FROM alembic_version")


def step_of(name):
    return importlib.import_module(f"exposurekit.service.storage.migrations.versions.{name}")


# --- a database as it was ------------------------------------------------------------------------------


def as_steps_left_it(url, count, *, after=0):
    with connected(url) as connection:
        context = MigrationContext.configure(connection)
        for name in STEPS[after:count]:
            step_of(name).upgrade(Operations(context))
        context.stamp(ScriptDirectory(str(VERSIONS.parent)), STEPS[count - 1][:4])


def as_the_first_step_left_it(url):
    as_steps_left_it(url, 1)


def as_the_second_step_left_it(url):
    as_steps_left_it(url, 2)


def as_it_was_before_there_were_steps(url):
    as_the_first_step_left_it(url)
    change(url, "DROP TABLE alembic_version")


def as_the_third_step_left_it(url):
    as_steps_left_it(url, 3)


OLD = [as_the_first_step_left_it, as_it_was_before_there_were_steps, as_the_second_step_left_it]
MADE = {
    "new": lambda _: None,
    "first step": as_the_first_step_left_it,
    "before steps": as_it_was_before_there_were_steps,
    "second step": as_the_second_step_left_it,
    "third step": as_the_third_step_left_it,
}
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
    """Rows by the old table's name, as they are under the names of today."""
    return {
        RENAMED_TABLES.get(name, name): {RENAMED_COLUMNS.get(column, column): row[column] for column in row}
        for name, row in rows.items()
    }


def fill(url):
    """A person with everything that the first version knew; by table, what is in it."""
    vault = Vault(KEY)
    person = {"first_name": "Jane", "last_name": "Doe", "middle_name": "", "birth_date": None}
    link = {"url": "https://club.example/members", "title": "Members", "contains": ["email"]}
    digest = vault.fingerprint(f"7\0{SITE.name}\0{LISTING.reference_id}", "reference_id")
    words = {"text": "New record", "html": "<p>", "url": "", "guide": "", "opt_out_procedure": []}
    at = {"created_at": START}
    rows = {
        "marks": {"name": "key fingerprint", "value": vault.key_fingerprint},
        "integrators": {"id": 3, "name": "acme", "api_key_digest": b"1" * 32, "api_secret_digest": b"2" * 32}
        | at,
        "users": {"id": 7, "integrator_id": 3, "is_scanning": False, "identification_on_file": True} | at,
        "details": {
            "id": 4,
            "user_id": 7,
            "kind": "emails",
            "sealed": vault.encrypt({"address": "x"}, "emails:7"),
        },
        "records": {"id": 5, "user_id": 7, "site": SITE.name, "status": "pending removal", "gone_looks": 1}
        | at,
        "links": {"id": 6, "user_id": 7, "url_digest": b"3" * 32, "sealed": vault.encrypt(link, "links:7")}
        | at,
        "alerts": {"id": 8, "user_id": 7, "kind": "new record", "record_id": 5, "link_id": None} | at,
        "service_history": {"id": 9, "user_id": 7, "event": "activated_service_on", "at": START},
    }
    rows["users"] |= {
        "sealed": vault.encrypt(person, "users:7"),
        "sealed_secret": vault.encrypt("1" * 18, "secrets:7"),
    }
    rows["records"] |= {"reference_digest": digest, "changed_at": START}
    rows["records"] |= {"sealed": vault.encrypt(LISTING.stored(SITE), "records:7")}
    rows["alerts"] |= {"sealed": vault.encrypt(words, "alerts:7")}
    with connected(url) as connection:
        for name, row in rows.items():
            connection.execute(as_declared(connection, name).insert(), row)
    return rows


def fill_second(url):
    """A row in each table that the second version added, and in the columns that it added; by table."""
    vault = Vault(KEY)
    digest = {"reference_digest": b"4" * 32}
    body = '{"user_id":7,"events":["new_records"],"new_records":[]}'
    candidate = {"listing": LISTING.stored(SITE), "reasons": ["same name"]}
    callback = {"url": "https://acme.example/hook", "secret": None}
    rows = {
        "integrators": {"sealed_callback": vault.encrypt(callback, "callbacks:3"), "attested_by": "Acme"},
        "records": {"tries": 2},
        "sites": {
            "name": SITE.name,
            "looks": 9,
            "inconclusive_looks": 4,
            "distrusted_looks": 3,
            "last_look_at": START + timedelta(days=2),
            "last_good_look_at": START,
            "last_reason": "blocked",
        },
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
    with connected(url) as connection:
        for name, row in rows.items():
            table = as_declared(connection, name)
            connection.execute(table.update() if name in {"integrators", "records"} else table.insert(), row)
        deliveries = as_declared(connection, "deliveries")
        for number, state in enumerate(("open", "delivered", "dead"), 20):
            row = {"id": number, "user_id": 7, "webhook_id": f"msg_{number}", "state": state}
            connection.execute(deliveries.insert(), row | {"opened_at": START, "failed_attempts": 0})
    return rows


def as_declared(connection, name):
    """A table as it is now, with instants read as the service reads them."""
    reflected = MetaData()
    reflected.reflect(connection, only=[name])
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


@pytest.mark.parametrize("create_earlier", OLD)
def test_a_first_version_database_is_upgraded_with_its_rows(url, create_earlier):
    """Migrations by Alembic from the first version on."""
    create_earlier(url)
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


@pytest.mark.parametrize("steps_before", [2, 3])
def test_renaming_keeps_rows_ciphertexts_and_states(url, steps_before):
    as_the_second_step_left_it(url)
    before = fill(url)
    for name, row in fill_second(url).items():
        before[name] = before.get(name, {}) | row
    as_steps_left_it(url, steps_before, after=2)
    assert version(url) == [(f"000{steps_before}",)]
    open_it(url)
    expected = renamed(before)
    expected["deliveries"]["state"] = "pending"
    after = {
        name: sorted(rows, key=lambda row: row.get("id", 0)) for name, rows in rows_of(url, expected).items()
    }
    unchanged = {name: rows[0].items() >= expected[name].items() for name, rows in after.items()}
    assert unchanged == dict.fromkeys(expected, True)
    assert {row["id"]: row["state"] for row in after["deliveries"]} == {
        12: "pending",
        20: "open",
        21: "delivered",
        22: "dead",
    }
    assert not {*RENAMED_COLUMNS, "frozen"} & {column for rows in after.values() for column in rows[0]}


def test_the_service_reads_what_was_encrypted_before_the_renaming(url):
    as_the_second_step_left_it(url)
    fill(url)
    fill_second(url)

    async def go_on(work):
        subject = await users.get_subject(work, 7)
        [user] = (await users.page(work, 3, {}))["users"]
        [candidate] = await candidates.all(work)
        lease = await leases.acquire_one(work, tables.deliveries, 12, duration=timedelta(minutes=1))
        delivery = await outbox.prepare(work, lease)
        return subject, user, candidate, delivery

    subject, user, candidate, delivery = open_it(url, go_on)
    assert user == {"id": 7, "secret": "1" * 18}
    assert subject.emails == ("x",)
    assert candidate.reasons == ("same name",)
    assert delivery.body == b'{"user_id":7,"events":["new_records"],"new_records":[]}'
    assert delivery.callback.url == "https://acme.example/hook"


@pytest.mark.parametrize("create_earlier", OLD)
def test_the_service_goes_on_with_what_an_earlier_version_knew(url, create_earlier):
    create_earlier(url)
    fill(url)

    async def go_on(work):
        subject = await users.get_subject(work, 7)
        assert not await consent.may_scan(work, 7)
        await consent.consent(work, 7, granted_by="Jane Doe, by letter")
        assert await consent.may_scan(work, 7)
        record_id = await findings.discover_record(work, 7, LISTING, SITE)
        alerts = await findings.list_alerts(work, 7)
        return subject, record_id, len(alerts), await findings.list_links(work, 7)

    subject, record_id, alerts, links = open_it(url, go_on)
    assert (record_id, alerts, links[0]["title"]) == (5, 1, "Members")
    assert subject is not None


@pytest.mark.parametrize("create_earlier", OLD)
def test_ids_go_on_where_they_were(url, create_earlier):
    create_earlier(url)
    fill(url)
    change(url, "DELETE FROM integrators")
    if url.startswith("postgresql"):
        change(url, "SELECT setval('users_id_seq', 7)")

    async def create(work):
        await work.run(
            text(
                "INSERT INTO integrators (name, api_key_digest, api_secret_digest, created_at) "
                "VALUES ('zeta', '1', '2', '2026-01-02 03:04:05')"
            )
        )
        [row] = await work.all(text("SELECT id FROM integrators"))
        return (await users.create(work, row.id, {"first_name": "John", "last_name": "Roe"})).id

    assert open_it(url, create) == 8


# --- where the steps lead --------------------------------------------------------------------------------


@pytest.mark.parametrize("create_earlier", MADE.values(), ids=MADE)
def test_the_steps_lead_to_what_the_tables_declare(url, create_earlier):
    create_earlier(url)
    open_it(url)
    with connected(url) as connection:
        options = {"compare_type": True, "compare_server_default": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), tables.metadata) == []


def catalogue(url):
    """What the database says of itself: columns, keys, indexes; nothing that depends on the order of columns."""
    return on_sqlite(url) if url.startswith("sqlite") else on_postgresql(url)


def on_sqlite(url):
    schema = set()
    for name, sql in ask(url, "SELECT name, sql FROM sqlite_master WHERE type = 'table'"):
        schema.add((name, "autoincrement", "AUTOINCREMENT" in sql))
        schema |= {(name, *row[1:]) for row in ask(url, f"PRAGMA table_info({name})")}
        schema |= {(name, "key", *row[2:]) for row in ask(url, f"PRAGMA foreign_key_list({name})")}
        for _, index, unique, origin, partial in ask(url, f"PRAGMA index_list({name})"):
            columns = tuple(row[2] for row in ask(url, f"PRAGMA index_info({index})"))
            schema.add((name, "index", unique, origin, partial, columns, "" if origin != "c" else index))
    for name, sql in ask(url, "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"):
        schema.add((name, " ".join(sql.split())))
    return {row for row in schema if row[0] != "alembic_version" and "sqlite_sequence" not in row}


def on_postgresql(url):
    questions = (
        (
            "SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default "
            "FROM information_schema.columns WHERE table_schema = 'public'"
        ),
        (
            "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid <> 0 "
            "AND connamespace = 'public'::regnamespace"
        ),
    )
    questions += ("SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'public'",)
    schema = {row for question in questions for row in ask(url, question)}
    return {row for row in schema if row[0] != "alembic_version"}


def test_migrations_lead_to_the_schema_of_the_tables(store, tmp_path):
    """What a comparison of types and names may not see: cascades, partial indexes, autoincrement."""
    urls = []
    for part in ("by steps", "at once"):
        (tmp_path / part).mkdir()
        urls.append(url_of(tmp_path / part))
    open_it(urls[0])
    with connected(urls[1]) as connection:
        tables.metadata.create_all(connection)
    by_steps, at_once = map(catalogue, urls)
    assert by_steps - at_once == set()
    assert at_once - by_steps == set()
    assert len(by_steps) > 100


def test_the_steps_are_numbered_and_each_follows_the_one_before():
    assert STEPS[0].startswith(f"{migrations.FIRST}_")
    assert STEPS[-1].startswith(f"{migrations.NEWEST}_")
    before = None
    for name in STEPS:
        step = step_of(name)
        assert (step.revision, step.down_revision) == (name[:4], before)
        before = step.revision
    assert {file.stem for file in VERSIONS.glob("*.py")} == {"__init__", *STEPS}


# --- more than once, by more than one, or not at all -----------------------------------------------------


def state(url):
    """What any change of the tables would change."""
    if url.startswith("sqlite"):
        return ask(url, "PRAGMA schema_version")
    question = "SELECT relname, oid, xmin::text FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    return sorted(ask(url, question))


def test_opening_again_does_nothing(url):
    open_it(url)
    before = state(url), rows_of(url, ["metadata"]), version(url)
    for _ in range(2):
        open_it(url)
    assert (state(url), rows_of(url, ["metadata"]), version(url)) == before


def test_a_later_version_is_refused_and_left_alone(url):
    open_it(url)
    change(url, "UPDATE alembic_version SET version_num = '9999'")
    before = state(url)
    with pytest.raises(
        ConfigurationError, match=r"^the database was created by a newer version of exposurekit: [^\n]+$"
    ):
        open_it(url)
    assert (state(url), version(url)) == (before, [("9999",)])


@pytest.mark.parametrize("create_earlier", OLD)
def test_a_step_that_fails_leaves_the_database_as_it_was(url, create_earlier):
    create_earlier(url)
    fill(url)
    users_before = rows_of(url, ["users"])
    change(url, "CREATE TABLE user_items (id INTEGER)")  # in the way of the third step, in its middle
    before = catalogue(url)
    with pytest.raises(ConfigurationError, match=r"^the database [^\n]+ cannot be opened[^\n]+$"):
        open_it(url)
    assert catalogue(url) == before
    assert rows_of(url, ["users"]) == users_before
    change(url, "DROP TABLE user_items")
    open_it(url)
    assert version(url) == [(migrations.NEWEST,)]


@pytest.mark.parametrize("create_earlier", MADE.values(), ids=MADE)
def test_several_connections_that_open_a_database_at_once_all_succeed(url, create_earlier):
    create_earlier(url)

    async def at_once():
        await asyncio.gather(*(opened(url) for _ in range(4)))

    asyncio.run(at_once())
    assert version(url) == [(migrations.NEWEST,)]
    assert len(rows_of(url, ["metadata"])["metadata"]) == 1


def test_several_processes_may_open_a_new_database_at_once(url):
    """Several workers and several web processes."""
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
    processes = [subprocess.Popen(arguments, **pipes) for _ in range(3)]
    for process in processes:
        process.stdin.write("now\n")
        process.stdin.flush()
    assert [(process.communicate(timeout=60)[1], process.returncode) for process in processes] == [
        ("", 0)
    ] * 3
    assert version(url) == [(migrations.NEWEST,)]


def test_two_databases_may_be_opened_at_once(store, tmp_path):
    """Each step of each is made in its own database."""
    urls = []
    for part in ("one", "other"):
        (tmp_path / part).mkdir()
        urls.append(url_of(tmp_path / part))

    async def at_once():
        await asyncio.gather(*map(opened, urls))

    asyncio.run(at_once())
    assert [version(url) for url in urls] == [[(migrations.NEWEST,)]] * 2
    assert catalogue(urls[0]) == catalogue(urls[1])


def test_the_package_may_lie_under_any_path(url, tmp_path):
    room = tmp_path / "100% ours, %(here)s"
    shutil.copytree(VERSIONS.parent, room, ignore=shutil.ignore_patterns("__pycache__"))
    module_spec = importlib.util.spec_from_file_location("migrations_elsewhere", room / "__init__.py")
    elsewhere = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(elsewhere)
    with connected(url) as connection:
        elsewhere.migrate(connection)
    assert version(url) == [(migrations.NEWEST,)]


def test_users_of_an_earlier_version_are_not_scanned_automatically(url):
    """Only with recorded consent, and there was none to record."""
    as_the_first_step_left_it(url)
    fill(url)

    async def read_flags(work):
        work.clock.advance(timedelta(days=365))
        return await consent.may_scan(work, 7), await consent.schedule_scan(work, 7)

    assert open_it(url, read_flags) == (False, False)
