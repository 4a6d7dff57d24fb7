"""Damage costs the row that is damaged, and the check names it; a file that is none of ours stays as it is."""

import json
import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import update
from support.services import a_database, in_event_loop, json_body, opened
from support.shell import Shell
from support.small_web import Card, Folk, a_house, by_form, definition

from exposurekit.errors import ConfigurationError
from exposurekit.service.accounts import consent
from exposurekit.service.clock import Clock
from exposurekit.service.database_check import Damage, check
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import Database
from exposurekit.service.storage.encryption import Vault
from exposurekit.service.webhooks import endpoints
from exposurekit.service.webhooks.endpoints import Callback

UNREADABLE = "ciphertext cannot be read"


@pytest.fixture
def house(store, town, tmp_path):
    town.opens("Seekfolk", Folk([Card("r1"), Card("r2")]))
    with a_house(tmp_path, town.resolve, definition(removal=by_form())) as house:
        yield house


def spoil(house, table, row_id, column="ciphertext"):
    """Damage one value, as a failing disk does."""
    statement = update(table).where(table.c.id == row_id).values({column: b"\x01" + bytes(40)})
    house.work(lambda work: work.run(statement))


def checked(house):
    return house.work(check)


def test_one_damaged_row_costs_that_row(house, caplog):
    first, second, third = (house.juniper() for _ in range(3))
    house.idle()
    n, damage = checked(house)
    assert (n > 30, damage) == (True, [])
    spoil(house, tables.users, second["id"], "secret_ciphertext")
    record = next(row for row in house.rows() if row.user_id == first["id"])
    spoil(house, tables.records, record.id)
    listed = json_body(house.call("GET", "/users"))
    assert listed["users"] == [{"id": one["id"], "secret": one["secret"]} for one in (first, third)]
    assert listed["count"] == 3
    assert len(house.get(first)["user"]["records"]) == 2  # from the document, as of the last change
    house.work(lambda work: consent.lock_user(work, first["id"]))
    assert len(house.get(first)["user"]["records"]) == 1
    assert len(house.get(first, "/records")["records"]) == 1
    assert all(one["source"]["record"]["id"] != record.id for one in house.alerts(first))
    assert house.get(third)["user"]["records"]
    assert checked(house) == (
        n,
        [
            Damage("users", second["id"], second["id"], f"secret_{UNREADABLE}"),
            Damage("records", record.id, first["id"], UNREADABLE),
        ],
    )
    assert any("damaged=records" in line for line in caplog.messages)
    assert "Juniper" not in caplog.text


def test_a_damaged_item_can_be_written_again_or_deleted(house):
    user = house.juniper(emails=[{"address": "one@club.example"}, {"address": "two@club.example"}])
    first, second = (one["id"] for one in user["emails"])
    for item in (first, second):
        spoil(house, tables.user_items, item)
    house.work(lambda work: consent.lock_user(work, user["id"]))
    assert house.get(user)["user"]["emails"] == []
    house.idle()
    assert not house.get(user)["user"]["is_scanning"]
    emails = [{"id": first, "address": "new@club.example"}, {"id": second, "_destroy": True}]
    assert house.update(user, emails=emails)["emails"] == [{"id": first, "address": "new@club.example"}]
    record = house.rows()[0]
    spoil(house, tables.records, record.id)
    assert house.call("GET", f"/users/{user['id']}/records/{record.id}", user).status_code == 400


def test_a_scan_that_finds_a_damaged_record_repairs_it(house):
    user = house.juniper()
    house.idle()
    record = house.rows()[0]
    spoil(house, tables.records, record.id)
    house.advance(days=8)
    house.idle()
    assert checked(house)[1] == []
    assert [row.id for row in house.rows()] == [row["id"] for row in house.get(user)["user"]["records"]]


async def sent(work, delivery):
    return json.loads(work.decrypt("deliveries", delivery.user_id, delivery.body_ciphertext))


def test_a_damaged_event_leaves_its_webhook_the_others(house):
    house.work(lambda work: endpoints.set_callback(work, "acme", Callback("https://hook.example/", None)))
    house.juniper()
    house.idle()
    events = house.rows(tables.events)
    assert len(events) > 1
    spoil(house, tables.events, events[0].id)
    house.advance(minutes=11)
    house.idle()
    [delivery] = house.rows(tables.deliveries)
    body = house.work(lambda work: sent(work, delivery))
    assert delivery.state != "open"
    assert sum(len(body[group]) for group in body["events"]) == len(events) - 1


def test_the_command_names_damaged_rows_and_exits_with_1(tmp_path):
    shell = Shell(tmp_path)
    assert shell.here("integrator", "add", "acme", "--no-attestation").returncode == 0
    run = shell.here("service", "check")
    assert (run.returncode, run.stdout) == (0, "Checked 0 stored values.\n")
    with closing(sqlite3.connect(tmp_path / "service.db")) as file, file:
        file.execute("UPDATE integrators SET callback_ciphertext = x'00'")
    run = shell.here("service", "check")
    assert run.returncode == 1
    assert "integrators  1    -        callback_ciphertext cannot be read" in run.stdout
    assert "Error: 1 problem found: restore a backup" in run.stderr
    assert '"table": "integrators"' in shell.here("service", "check", "--json").stdout


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "belongs to another program"), (b"text\n" * 900, "not an SQLite database")],
)
@in_event_loop
async def test_a_foreign_file_is_refused_and_stays_as_it_is(tmp_path, content, problem):
    path = tmp_path / "other.db"
    if content is None:
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("CREATE TABLE notes(text)")
            file.execute("CREATE TABLE alembic_version(version_num)")
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    database = Database(f"sqlite:///{path}", vault=Vault(Vault.generate_key()), clock=Clock())
    with pytest.raises(ConfigurationError, match=problem):
        await database.open()
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["other.db"]


@in_event_loop
async def test_a_damaged_page_is_found(tmp_path):
    async with opened(a_database(tmp_path)):
        pass
    path = tmp_path / "service.db"
    page = bytearray(path.read_bytes())
    page[4096 * 3 : 4096 * 4] = b"\xff" * 4096
    path.write_bytes(page)
    database = Database(f"sqlite:///{path}", vault=Vault(bytes(32)), clock=Clock())
    async with database.reading() as session:
        _, damage = await check(session)
    await database.close()
    assert any(one.table == "the file" for one in damage)
